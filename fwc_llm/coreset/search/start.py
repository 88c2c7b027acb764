"""Where the descent starts: k-means++ within cells, or random rows.

See docs/method.md, "Starts and local optima".
"""

import numpy as np

from fwc_llm.coreset.compiling.ready import is_ready
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.weights import Masses, random_order

WORTH = 10**6  # numbers in a cell from which compiled code pays, were it compiled only now


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
) -> np.ndarray:
    """(m,) rows by greedy k-means++ within each cell, in cell order.

    A row is drawn with probability proportional to its mass and to its cost from the nearest row already
    chosen (Arthur and Vassilvitskii 2007, with the cost itself in the place of the squared distance); of
    2 + ln(count) draws the one that lowers the total cost most is kept. Rows that equal a chosen one
    have no cost left, so that values repeat only where nothing else is left.
    """
    return np.concatenate(
        [
            _spread(pool, int(count), ids, table, cost, rng, masses)
            for pool, count in zip(pools, seats, strict=True)
            if count > 0
        ]
    )


def _spread(
    pool: np.ndarray,
    count: int,
    ids: np.ndarray,
    table: Table,
    cost: str,
    rng: np.random.Generator,
    masses: Masses | None,
) -> np.ndarray:
    values = np.ascontiguousarray(table.values_of(pool).T)
    trials = 2 + int(np.log(count))
    mass = None if masses is None else masses.values[pool]
    first = int(rng.integers(len(pool))) if mass is None else int(_drawn(mass, rng.random(1))[0])
    chosen = [first]
    nearest = feature_costs(values, table.n_numeric, values[:, first], cost)
    free = ids[pool] != ids[pool[first]]
    while len(chosen) < count:
        weight = np.where(free, nearest if mass is None else mass * nearest, 0.0)
        if weight.sum() == 0:  # what is left equals a chosen row in all but its id
            weight = free.astype(float)
        draws = _drawn(weight, rng.random(trials))
        reached = _reach(values, draws, table.n_numeric, cost, nearest)
        best = int(np.argmin([r.sum() if mass is None else mass @ r for r in reached]))
        chosen.append(int(draws[best]))
        nearest = reached[best]
        free &= ids[pool] != ids[pool[chosen[-1]]]
    return np.asarray(pool[chosen])


def _drawn(weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places at these quantiles (t,) of the weights."""
    cumulative = np.cumsum(weight)
    draws = np.searchsorted(cumulative, at * cumulative[-1], side="right")
    return np.asarray(np.minimum(draws, np.flatnonzero(weight)[-1]))


def _reach(
    values: np.ndarray, draws: np.ndarray, n_numeric: int, cost: str, nearest: np.ndarray
) -> np.ndarray:
    """(t, n) the least of `nearest` (n,) and the costs from each of the rows `draws` of `values` (p, n)."""
    if values.size >= WORTH or is_ready("fwc_llm.coreset.search.start_kernels", "reach"):
        from fwc_llm.coreset.search.start_kernels import reach

        reached = np.empty((len(draws), len(nearest)))
        reach(values, draws.astype(np.int64), n_numeric, cost == "sqeuclidean", nearest, reached)
        return reached
    return np.array(
        [np.minimum(nearest, feature_costs(values, n_numeric, values[:, i], cost)) for i in draws]
    )
