"""Thresholds per group: within their limit, and the most accurate there."""

import itertools

import numpy as np

from fwc_llm.report.group_thresholds import group_thresholds


def test_they_are_as_good_as_trying_all() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 40)
    p = np.round(rng.uniform(size=80), 2)
    labels = (rng.uniform(size=80) < np.where(groups == 0, 0.6, 0.9) * p).astype(np.int64)
    weights = np.full(80, 1 / 80)
    limits = (0.0, 0.1, 0.25, None)
    edges = [[np.inf, *np.unique(p[groups == group])] for group in (0, 1)]
    tried = []
    for pair in itertools.product(*edges):
        yes = p >= np.array(pair)[groups]
        gap = abs(yes[groups == 0].mean() - yes[groups == 1].mean())
        tried.append((gap, float((yes == labels).mean())))
    for limit, chosen in zip(limits, group_thresholds(p, labels, groups, weights, limits), strict=True):
        yes = p >= chosen[groups]
        gap = abs(yes[groups == 0].mean() - yes[groups == 1].mean())
        assert gap <= (1.0 if limit is None else max(limit, 0.005)) + 1e-12
        best = max(accuracy for gap, accuracy in tried if limit is None or gap <= limit + 1e-12)
        assert float((yes == labels).mean()) >= best - (0.0 if limit is None else 1 / 40)
