"""Where the descent starts: k-means++ within cells, or random rows.

See docs/method.md, "Starts and local optima".
"""

import numpy as np

from fwc_llm.coreset.compiling.ready import is_ready
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import Masses, random_order

WORTH = 10**6  # numbers in a cell from which compiled code pays, were it compiled only now
_TOGETHER = 100_000  # rows up to which cells are copied side by side


def random_rows(
    seats: np.ndarray,
    pools: list[np.ndarray],
    ids: np.ndarray,
    rng: np.random.Generator,
    masses: Masses | None = None,
) -> np.ndarray:
    """(m,) rows, drawn by mass within each cell without repeating a value of `ids`, in cell order."""
    chosen = []
    for pool, count in zip(pools, seats, strict=True):
        drawn = rng.permutation(len(pool)) if masses is None else random_order(masses.values[pool], rng)
        order = pool[drawn]
        _, first = np.unique(ids[order], return_index=True)
        chosen.append(order[np.sort(first)[:count]])
    return np.concatenate(chosen)


def spread_rows(
    seats: np.ndarray,
    pools: list[np.ndarray],
    ids: np.ndarray,
    table: Table,
    cost: str,
    rng: np.random.Generator,
    masses: Masses | None = None,
    threads: Threads | None = None,
) -> np.ndarray:
    """(m,) rows by greedy k-means++ within each cell, in cell order.

    A row is drawn with probability proportional to its mass and to its cost from the nearest row already
    chosen (Arthur and Vassilvitskii 2007, with the cost itself in the place of the squared distance); of
    2 + ln(count) draws the one that lowers the total cost most is kept. Rows that equal a chosen one
    have no cost left, so that values repeat only where nothing else is left.
    """
    cells = []
    for pool, count in zip(pools, seats.tolist(), strict=True):
        if count > 0:
            mass = None if masses is None else masses.values[pool]
            first = int(rng.integers(len(pool))) if mass is None else int(_drawn(mass, rng.random(1))[0])
            cells.append((pool, first, rng.random((count - 1, 2 + int(np.log(count)))), mass))

    def spread(cell: tuple[np.ndarray, int, np.ndarray, np.ndarray | None]) -> np.ndarray:
        pool, first, uniform, mass = cell
        values = np.ascontiguousarray(table.values_of(pool).T)
        compiled = values.size >= WORTH or is_ready("fwc_llm.coreset.search.start_kernels", "spread")
        find = _spread_compiled if compiled else _spread
        chosen = find(values, ids[pool], mass, first, uniform, table.n_numeric, cost)
        return np.asarray(pool[chosen])

    return np.concatenate(
        [spread(cell) for cell in cells] if threads is None else threads.over(spread, cells)
    )


def _spread(
    values: np.ndarray,
    ids: np.ndarray,
    mass: np.ndarray | None,
    first: int,
    uniform: np.ndarray,
    n_numeric: int,
    cost: str,
) -> np.ndarray:
    """The rows chosen (c,) among `values` (p, n), after the `first` by the draws `uniform` (c − 1, t)."""
    chosen = [first]
    nearest = feature_costs(values, n_numeric, values[:, first], cost)
    free = ids != ids[first]
    for at in uniform:
        weight = np.where(free, nearest if mass is None else mass * nearest, 0.0)
        if weight.sum() == 0:  # what is left equals a chosen row in all but its id
            weight = free.astype(float)
        draws = _drawn(weight, at)
        costs = (feature_costs(values, n_numeric, values[:, i], cost) for i in draws)
        reached = [np.minimum(nearest, own) for own in costs]
        best = int(np.argmin([r.sum() if mass is None else mass @ r for r in reached]))
        chosen.append(int(draws[best]))
        nearest = reached[best]
        free &= ids != ids[chosen[-1]]
    return np.array(chosen)


def _spread_compiled(
    values: np.ndarray,
    ids: np.ndarray,
    mass: np.ndarray | None,
    first: int,
    uniform: np.ndarray,
    n_numeric: int,
    cost: str,
) -> np.ndarray:
    """The same by compiled code; it rounds the sums over rows in another order."""
    from fwc_llm.coreset.search.start_kernels import spread

    n, (more, trials) = values.shape[1], uniform.shape
    chosen = np.full(more + 1, first, np.int64)
    room = np.empty(n, bool), np.empty(trials, np.int64), np.empty(n), np.empty(n), np.empty((trials, n))
    given = values, ids.astype(np.int64), np.empty(0) if mass is None else mass, uniform
    spread(*given, n_numeric, cost == "sqeuclidean", chosen, *room)
    return chosen


def _drawn(weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places at these quantiles (t,) of the weights."""
    cumulative = np.cumsum(weight)
    draws = np.searchsorted(cumulative, at * cumulative[-1], side="right")
    return np.asarray(np.minimum(draws, np.flatnonzero(weight)[-1]))
