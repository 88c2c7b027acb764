"""Accuracy and fairness of answers, with intervals (docs/statistics.md).

`statistics` makes the one document that all outputs show; `audit_table` reads a table of answers
for it. `counts` defines all rates and metrics. The method is in `variance` (one arm as arrays,
clustered variance), `intervals`, `arm_estimates` (one arm), `arm_comparison` (two arms) and
`prediction_powered`. `adverse_impact` makes the tables of an audit.
"""
