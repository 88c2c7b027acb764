"""Accuracy and fairness of answers: values, intervals, verdicts and bounds (docs/statistics.md).

`statistics` makes the one document that everything is shown from; `audit_table` reads a table of answers for
it. `counts` has the table of rates and metrics that everything reads, and the numbers of results.json. The
method is in `variance` (one arm as arrays, clustered variance), `intervals`, `arm_estimates` (one arm),
`arm_comparison` (two) and `prediction_powered`. `adverse_impact` makes an audit's tables.
"""
