"""A good start for a coreset of rows: many starts with swaps on a sample, the best of them on all rows.

The descent ends in local optima that differ by several per cent, swaps in ones that differ by one. On a
sample of some thousand rows a start with all its swaps takes hundredths of a second: many can be tried.
"""

import numpy as np

from fwc_llm.coreset.compiled import CompiledSteps
from fwc_llm.coreset.parallel import Threads
from fwc_llm.coreset.problem import Problem
from fwc_llm.coreset.solver import Descent, Steps, descend, points_at
from fwc_llm.coreset.start import spread_rows
from fwc_llm.coreset.swap_kernels import swap_eagerly
from fwc_llm.coreset.tile import WIDTH

_ROUNDS = 3  # swaps until nothing gains, new prices, and again
_SWEEPS = 8
_LEAST = 1e-5  # gain of the objective, relative, that makes a swap
_TRIED = 4  # results on the sample that are tried on all rows


def search(
    problem: Problem,
    steps: Steps,
    rng: np.random.Generator,
    starts: int,
    sample: int,
    threads: Threads,
    max_iter: int,
) -> Descent:
    """The best descent on all rows (`steps`) from what `starts` starts with swaps find on `sample` rows."""
    rows = sample_rows(problem, min(sample, problem.table.n), rng)
    small = problem.subset(rows)
    seeds = rng.spawn(starts)
    one = Threads(1)
    columns = np.ascontiguousarray(small.table.values.T, dtype=np.float32)

    def run(seed: np.random.Generator) -> tuple[float, np.ndarray]:
        own = CompiledSteps(small, one)
        seats = np.bincount(small.cell_of, minlength=small.cells.n_cells)
        chosen = spread_rows(seats, small.pools, small.ids, small.table, small.cost, seed)
        objective, _ = own.solve(points_at(small.table, chosen))
        best = (objective, chosen)
        for _ in range(_ROUNDS):
            swapped = _swap(small, columns, chosen, own.prices, objective, seed)
            if (swapped == chosen).all():
                break
            chosen = swapped
            objective, _ = own.solve(points_at(small.table, chosen))
            best = min(best, (objective, chosen), key=lambda pair: pair[0])
        return best

    found = sorted(threads.over(run, seeds), key=lambda pair: pair[0])
    descents = [descend(steps, rows[chosen], max_iter) for _, chosen in found[:_TRIED]]
    return min(descents, key=lambda descent: descent.objective)


def sample_rows(problem: Problem, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` rows in order, each cell with its share and with enough candidates for its seats.

    Where a cell's share would hold too few, it gets more: the sample is then slightly richer in small cells.
    """
    n = problem.table.n
    chosen = np.zeros(n, bool)
    chosen[rng.choice(n, count, replace=False)] = True
    for g, seats in enumerate(np.bincount(problem.cell_of, minlength=problem.cells.n_cells)):
        pool = problem.pools[g]
        _, first = np.unique(problem.ids[pool], return_index=True)
        have = len(np.unique(problem.ids[pool[chosen[pool]]]))
        if have < 4 * seats:
            chosen[rng.permutation(pool[first])[: 4 * seats]] = True
    return np.flatnonzero(chosen)


def _swap(
    problem: Problem, columns: np.ndarray, rows: np.ndarray, prices: np.ndarray, objective: float,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """`swap_eagerly` at these prices."""
    extra = (problem.move[:, problem.cells.cell] - prices[:, None]).astype(np.float32)
    tiles, cells = [], []
    for g in np.unique(problem.cell_of):
        pool = problem.pools[g]
        _, first = np.unique(problem.ids[pool], return_index=True)
        order = rng.permutation(pool[first])
        padded = np.full(-(-len(order) // WIDTH) * WIDTH, -1)
        padded[: len(order)] = order
        tiles.append(padded.reshape(-1, WIDTH))
        cells.append(np.full(len(tiles[-1]), g))
    mixed = rng.permutation(sum(map(len, tiles)))
    swapped = rows.copy()
    swap_eagerly(
        columns,
        extra,
        swapped,
        problem.cell_of,
        problem.ids,
        np.concatenate(tiles)[mixed],
        np.concatenate(cells)[mixed],
        problem.table.n_numeric,
        problem.cost == "sqeuclidean",
        _SWEEPS,
        _LEAST * objective * problem.table.n,
    )
    return swapped
