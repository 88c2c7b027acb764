"""Simulated coverage: answers from known worlds, and every printed interval and verdict against
the truth.

    python -m evals.coverage            # records evals/results/coverage.json, .md
    python -m evals.coverage --quick    # few runs of every world: does it work?

`worlds` draws answers, `measure` compares the records of many draws with those of one huge draw,
which are the truth.
"""
