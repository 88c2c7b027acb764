"""Accuracy and fairness of answers: values, intervals, tests and bounds (docs/statistics.md).

`statistics` makes the one document that everything is shown from; `frame` reads a table of answers for it.
The array core is `sample` (one arm as arrays), `shares` and `limits` (how sure a share is), `estimates`
(one arm), `contrasts` (two arms) and `noise` (what chance alone would show). `groups` holds the numbers of
results.json and is all that loads here. The rest is one file a question: `comparisons` (Holm's correction),
`unparsed` (what the missing answers could hide), `frontier` (what was possible on this test set),
`probabilities`, `probability`, `thresholds`, `decided` (a
threshold's answers), `flips`, `variance` and `notes`.
"""

from fwc_llm.metrics.groups import GroupMetrics, group_metrics

__all__ = ["GroupMetrics", "group_metrics"]
