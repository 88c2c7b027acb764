"""What stands: changes that swaps make, also where rows are left out."""

import numpy as np
import pytest

from fwc_llm.coreset.swaps.state import Points, Space, Standing
from fwc_llm.coreset.threads import Threads


def heaps(cost: str, n: int, m: int, p: int = 5) -> tuple[Space, Points]:
    """Heaps so far apart that most rows do not matter to a candidate; `p` columns, two of them codes."""
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.normal(size=(n, p - 2)) + 8 * rng.integers(0, 9, (n, 1)), rng.integers(0, 3, (n, 2))]
    ).astype(np.float32)
    move = np.array([[0, 1.5], [1.5, 0]])
    space = Space(values, p - 2, rng.integers(0, 2, n), move, np.array([0.3, -0.4]), cost)
    start = rng.permutation(n)[:m]
    return space, Points(values[start], space.cell[start], start)


@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
@pytest.mark.parametrize(("n", "m", "count"), [(1000, 90, 61), (70, 3, 5), (33, 33, 1), (1, 1, 1)])
def test_changes_are_true(cost: str, n: int, m: int, count: int) -> None:
    space, points = heaps(cost, n, m)
    order = np.random.default_rng(1).permutation(n)[:count]
    order = order[np.isin(space.cell[order], points.cells)]
    alone, shared = (Standing(space, points, Threads(count)) for count in (1, 3))
    found = alone.compare(space.values[order], space.cell[order])
    np.testing.assert_array_equal(shared.compare(space.values[order], space.cell[order])[1], found[1])
    for q in range(min(len(order), 8)):
        swapped = Standing(space, points, Threads(1))
        before = swapped.loss()
        swapped.swap(found[0][q : q + 1], space.values[order[q : q + 1]])
        assert swapped.loss() - before == pytest.approx(found[1][q], abs=1e-4 * before + 1e-3)
        afresh = points.values.copy()
        afresh[found[0][q]] = space.values[order[q]]
        again = Standing(space, Points(afresh, points.cells, points.keys), Threads(1))
        np.testing.assert_array_equal(swapped.labels, again.labels)


def test_new_prices_are_those_of_a_fresh_start() -> None:
    space, points = heaps("l1", 400, 20)
    moved = Standing(space, points, Threads(1))
    prices = np.array([-1.0, 2.0], np.float32)
    moved.set_prices(prices)
    fresh = Standing(Space(**{**vars(space), "prices": prices}), points, Threads(1))
    np.testing.assert_array_equal(moved.labels, fresh.labels)
    assert moved.loss() == fresh.loss()


def test_what_is_given_is_not_written_to() -> None:
    space, points = heaps("sqeuclidean", 100, 7)
    for array in (space.values, points.values):
        array.flags.writeable = False
    kept = space.values.copy(), points.values.copy()
    standing = Standing(space, points, Threads(1))
    standing.compare(space.values[:9], points.cells[[0] * 9])
    standing.swap(np.array([2]), space.values[50:51])
    np.testing.assert_array_equal(space.values, kept[0])
    np.testing.assert_array_equal(points.values, kept[1])
