"""Simulated coverage: answers from known populations, and every printed interval and test
against the truth.

    python -m evals.coverage            # records evals/results/coverage.json, .md
    python -m evals.coverage --quick    # a few populations, few runs: does it work?

`worlds` draws answers and knows the truth, `populations` lists what is drawn, `pairs` draws every
pair of options that is not refused, `readings` takes the intervals and tests out of an audit,
`tally` counts, `verdicts` says what is accepted, `report` writes.
"""
