"""Gaps of periods: what decisions without an answer could change."""

from itertools import product

import numpy as np
import pytest

from fwc_llm.metrics.counts import BY_KEY, SHAPE, UNPARSED
from fwc_llm.metrics.period_gaps import intervals

CORNERS = np.array(list(product((0, 1), repeat=8))).reshape(-1, 2, 2, 2)


@pytest.mark.parametrize(
    "key", ["dp_gap", "dp_ratio", "eo_gap", "accuracy", "precision_gap"]
)
def test_no_reading_is_beyond_the_extreme_ones(key: str) -> None:
    """Whatever the answers would have been, by period, group and label."""
    # The answers decide the weights of precision's periods.
    periods = 1 if key == "precision_gap" else 2
    rng = np.random.default_rng(1)
    for most in (1, 5, 20, 60):
        counts = np.zeros((1, periods, 2, *SHAPE), np.int64)
        decided = rng.choice([40, 200], (1, periods, 2, 2, 2))
        counts[..., :2, :2] = rng.poisson(decided)
        counts[..., :2, UNPARSED] = unread = rng.poisson(most, (1, periods, 2, 2))
        ends, limits = intervals(counts, BY_KEY[key], 0.01)[1]
        read = np.repeat(counts, len(CORNERS), 0)
        yes = unread * CORNERS[:, :periods]
        read[..., :2, 0] += unread - yes
        read[..., :2, 1] += yes
        read[..., UNPARSED] = 0
        for bounds, found in zip(
            (ends, limits), intervals(read, BY_KEY[key], 0.01)[0], strict=True
        ):
            assert (found[0] >= bounds[0] - 1e-12).all()
            assert (found[1] <= bounds[1] + 1e-12).all()
        assert (ends[0] < ends[1]).all()
