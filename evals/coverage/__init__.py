"""Simulated coverage: answers from known worlds, and every printed interval and verdict against
the truth.

    python -m evals.coverage            # records evals/results/coverage.json, .md

`worlds` draws answers, `measure` compares the records of many draws with those of a table that has
the expected number of each kind of row: the truth.
"""
