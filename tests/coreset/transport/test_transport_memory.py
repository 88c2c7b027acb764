"""What the inner problem takes beside the costs that it is given."""

import tracemalloc

import numpy as np
import pytest

from fwc_llm.coreset.transport.fair import fair_transport

ROWS, LEVELS, OUTCOMES = 100_000, 4, 4


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["continuous", "whole"])
def test_the_inner_problem_takes_less_than_another_table(kind: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    cost = rng.uniform(1, 40, (ROWS, LEVELS * OUTCOMES)).astype(dtype)
    if kind == "whole":
        cost = np.floor(cost)
    target = np.full(OUTCOMES, 1 / OUTCOMES)
    weights = rng.uniform(0.5, 2, ROWS)
    warm = fair_transport(cost[:30_000], LEVELS, OUTCOMES, target, 0.01).prices  # all is imported now
    for prices, sample_weight in ((None, None), (warm, None), (None, weights)):
        tracemalloc.start()
        fair_transport(cost, LEVELS, OUTCOMES, target, 0.01, prices, sample_weight=sample_weight)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < ROWS * LEVELS * OUTCOMES * 4  # a table of float32
