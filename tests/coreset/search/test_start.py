"""Where the descent starts: the seats of every cell, no value twice, and rows that lie apart."""

import numpy as np
import pytest

from fwc_llm.coreset.problem.table import Table, value_ids
from fwc_llm.coreset.search.start import random_rows, spread_rows


def table(values: np.ndarray) -> tuple[Table, np.ndarray]:
    return Table(values, np.empty((len(values), 0), np.int32)), value_ids(values)


@pytest.mark.parametrize("name", ["random", "spread"])
def test_every_cell_gets_its_seats_in_order_and_no_value_twice(name: str) -> None:
    rng = np.random.default_rng(0)
    rows, ids = table(rng.integers(0, 4, (200, 2)).astype(float))  # 16 values
    cell = rng.integers(0, 3, 200)
    pools, seats = [np.flatnonzero(cell == g) for g in range(3)], np.array([5, 0, 12])
    for seed in range(5):
        own = np.random.default_rng(seed)
        if name == "random":
            found = random_rows(seats, pools, ids, own)
        else:
            found = spread_rows(seats, pools, ids, rows, "l1", own)
        np.testing.assert_array_equal(cell[found], np.repeat([0, 2], [5, 12]))
        for g in (0, 2):
            assert len(set(ids[found[cell[found] == g]])) == seats[g]


def test_the_same_generator_gives_the_same_start() -> None:
    rows, ids = table(np.random.default_rng(0).normal(size=(100, 3)))
    pools, seats = [np.arange(100)], np.array([9])
    first, second = (
        spread_rows(seats, pools, ids, rows, "sqeuclidean", np.random.default_rng(7)) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_spread_rows_take_one_of_each_heap(cost: str) -> None:
    # Heaps so far apart that a second row of one heap has no chance against the first of another.
    rng = np.random.default_rng(1)
    heap = np.repeat(np.arange(6), 30)
    rows, ids = table(heap[:, None] * 1e6 + rng.random((180, 2)))
    for seed in range(5):
        found = spread_rows(np.array([6]), [np.arange(180)], ids, rows, cost, np.random.default_rng(seed))
        assert sorted(heap[found]) == list(range(6))


def test_what_costs_nothing_more_is_still_chosen_by_its_id() -> None:
    # Three rows of one value that count as different ones: all have to be chosen.
    rows, _ = table(np.array([[1.0], [1.0], [1.0]]))
    found = spread_rows(np.array([3]), [np.arange(3)], np.arange(3), rows, "l1", np.random.default_rng(0))
    assert sorted(found) == [0, 1, 2]
