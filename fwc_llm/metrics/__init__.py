"""Accuracy and fairness from plain arrays: values, intervals, tests and bounds.

`groups` holds the numbers of the main table and is all that loads here. The rest is one file a question:
`intervals` (how sure), `noise` (what chance alone would show), `paired` (do two arms differ), `unparsed`
(what the missing answers could hide), `frontier` (what was possible on this test set), `logistic` (a
classifier on the same rows), `probabilities`, `flips` and `variance`. All but `groups` count answers as
`cells` does.
"""

from fwc_llm.metrics.groups import GroupMetrics, group_metrics

__all__ = ["GroupMetrics", "group_metrics"]
