"""A good start for a coreset of rows: many local optima of a sample, the best of them on all rows.

The descent ends in local optima that differ by several per cent, swaps in ones that differ by one. On a
sample of some thousand rows swaps take hundredths of a second, so that many optima can be tried: some starts,
and from each of them again and again a few representatives thrown elsewhere (an iterated local search).
The best of them are settled on a larger sample, and then on all rows.
"""

import numpy as np

from fwc_llm.coreset.descent.compiled import CompiledSteps
from fwc_llm.coreset.descent.loop import Descent, Steps, descend, points_at
from fwc_llm.coreset.descent.tile import WIDTH
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import spread_rows
from fwc_llm.coreset.search.swap_kernels import swap_eagerly
from fwc_llm.coreset.threads import Threads

_SAMPLE = 2048  # rows on which optima are tried
_STARTS = 6
_KICKS = 4  # times that representatives are thrown elsewhere, from one start
_THROWN = 3  # representatives
_FINALISTS = 4  # that are settled on
_LARGER = 6144  # so many rows
_WINNERS = 2  # of these descend on all rows
_ROUNDS = 3  # swaps until nothing gains, new prices, and again
_SWEEPS = 8
_LEAST = 1e-5  # gain of the objective, relative, that makes a swap


def search(
    problem: Problem,
    steps: Steps,
    rng: np.random.Generator,
    threads: Threads,
    max_iter: int,
    starts: int = _STARTS,
    sample: int = _SAMPLE,
) -> Descent:
    """The best descent on all rows (`steps`) from what `starts` starts and swaps find on samples of rows."""
    rows = sample_rows(problem, min(sample, problem.table.n), rng)
    small = Sample(problem.subset(rows))
    found = sorted(threads.over(small.explore, rng.spawn(starts)), key=lambda pair: pair[0])
    finalists = [rows[chosen] for _, chosen in found[:_FINALISTS]]
    more = sample_rows(problem, min(_LARGER, problem.table.n), rng)
    rows = np.unique(np.concatenate([more, *finalists]))
    large = Sample(problem.subset(rows))
    seeds = rng.spawn(len(finalists))
    found = sorted(
        threads.over(
            lambda q: large.settle(np.searchsorted(rows, finalists[q]), seeds[q], 2), range(len(finalists))
        ),
        key=lambda pair: pair[0],
    )
    descents = [descend(steps, rows[chosen], max_iter) for _, chosen in found[:_WINNERS]]
    return min(descents, key=lambda descent: descent.objective)


class Sample:
    """Some rows as a problem of their own, whose local optima are found by swaps."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._columns = np.ascontiguousarray(problem.table.values.T, dtype=np.float32)

    def explore(self, rng: np.random.Generator) -> tuple[float, np.ndarray]:
        """The best optimum from one start and some kicks: its objective and its rows (m,)."""
        problem = self._problem
        seats = np.bincount(problem.cell_of, minlength=problem.cells.n_cells)
        start = spread_rows(seats, problem.pools, problem.ids, problem.table, problem.cost, rng)
        best = self.settle(start, rng)
        for _ in range(_KICKS):
            best = min(best, self.settle(self._kick(best[1], rng), rng, 1), key=lambda pair: pair[0])
        return best

    def settle(
        self, rows: np.ndarray, rng: np.random.Generator, rounds: int = _ROUNDS
    ) -> tuple[float, np.ndarray]:
        """Where swaps lead from `rows` (m,): the objective and the rows."""
        steps = CompiledSteps(self._problem, Threads(1))
        objective, _ = steps.solve(points_at(self._problem.table, rows))
        best = (objective, rows)
        for _ in range(rounds):
            swapped = self._swap(rows, steps.prices, objective, rng)
            if (swapped == rows).all():
                break
            rows = swapped
            objective, _ = steps.solve(points_at(self._problem.table, rows))
            best = min(best, (objective, rows), key=lambda pair: pair[0])
        return best

    def _kick(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A few of the representatives replaced by random candidates of their cells."""
        problem, kicked = self._problem, rows.copy()
        for j in rng.choice(len(rows), min(_THROWN, len(rows)), replace=False):
            g = problem.cell_of[j]
            pool = problem.pools[g]
            taken = problem.ids[kicked[problem.cell_of == g]]
            free = pool[~np.isin(problem.ids[pool], taken)]
            if len(free):
                kicked[j] = rng.choice(free)
        return kicked

    def _swap(
        self, rows: np.ndarray, prices: np.ndarray, objective: float, rng: np.random.Generator
    ) -> np.ndarray:
        """`swap_eagerly` at these prices."""
        problem = self._problem
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
            self._columns,
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
