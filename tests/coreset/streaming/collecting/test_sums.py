"""Sums of blocks do not depend on the order in which blocks come."""

import numpy as np
import pytest

from fwc_llm.coreset.streaming.collecting.sums import BlockSums


@pytest.mark.parametrize("blocks", [1, 2, 7, 33])
def test_the_order_of_blocks_does_not_round(blocks):
    rng = np.random.default_rng(blocks)
    values = rng.normal(size=blocks) * 10.0 ** rng.integers(-9, 9, blocks)
    totals = set()
    for _ in range(20):
        parts = [BlockSums.of(int(k), values[k]) for k in rng.permutation(blocks)]
        while len(parts) > 1:  # any two meet
            one = parts.pop(int(rng.integers(len(parts))))
            other = int(rng.integers(len(parts)))
            parts[other] = parts[other].join(one)
        totals.add(float(parts[0].total()))
        assert len(parts[0].nodes) <= blocks.bit_length()
    assert len(totals) == 1
    np.testing.assert_allclose(totals.pop(), values.sum(), atol=1e-12 * np.abs(values).max())
