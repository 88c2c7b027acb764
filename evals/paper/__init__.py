"""The paper's experiments, each with one command: `python -m evals.paper NAME [--quick]`."""
