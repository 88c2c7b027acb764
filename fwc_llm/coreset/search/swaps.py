"""Swaps of a problem's representatives for its rows (see `fwc_llm.coreset.swaps.engine`).

`swap_rows` solves the inner problem after every swap, on all rows. `swap_at_prices` keeps the prices, on all
rows of large tables, and `swap_on_sample` on a sample of the rows; the descent on all rows that follows says
whether the swaps gained. Free representatives are exchanged for rows too, from which the descent moves them
on.
"""

from dataclasses import replace

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend, points_at
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import sample_rows
from fwc_llm.coreset.swaps.engine import Exchanged, Judge, Patience, estimate, exchange
from fwc_llm.coreset.swaps.state import Points, Space
from fwc_llm.coreset.threads import Threads

_LEAST = 1e-6  # gain of the objective, relative, that makes a swap
_SCREEN = 2048  # rows on which a swap's gain is estimated
_SCREENED, _SCREENED_EACH = 1024, 16  # candidates that are worth a look at all rows, for a representative
_LOOKED_AT = 2**17  # candidates of which these are chosen
_JUDGED = Patience(passes=1, least=_LEAST, again=32, batch=512)
JUDGED = 12_000  # rows up to which the inner problem judges every few swaps
_AT_PRICES = Patience(passes=1, least=1e-6, again=63, batch=512)
_AT_MEANS = 2  # rounds of swaps at prices that stay
_SAMPLE = 8192  # rows at least
_EACH = 24  # rows for every representative
_ON_SAMPLE = Patience(passes=4, least=1e-5)


class Swaps:
    """A problem's rows as candidates for its representatives."""

    def __init__(self, problem: Problem, threads: Threads, centre: np.ndarray | None = None) -> None:
        """`centre` (p,): of which the values are taken less, for representatives that need not be rows."""
        self.problem, self._threads = problem, threads
        self.candidates, self.cells = problem.candidates()
        table = problem.table
        mass = None if problem.masses is None else problem.masses.values.astype(np.float32)
        values = table.single if centre is None else table.about(centre)
        prices = np.zeros(problem.cells.n_cells)
        terms = problem.cells.cell, problem.move, prices, problem.cost, mass, table.mismatch
        self._space = Space(values, table.n_numeric, *terms)

    def keys(self, cells: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """What tells apart all that can stand for a cell: the cell and the id."""
        return np.asarray(cells * (int(self.problem.ids.max()) + 1) + ids)

    def on_rows(self, rows: np.ndarray) -> Points:
        """The representatives at these rows (m,)."""
        cells = self.problem.cell_of
        return Points(self._space.values[rows], cells, self.keys(cells, self.problem.ids[rows]))

    def seek(
        self,
        points: Points,
        prices: np.ndarray,
        order: np.ndarray,
        patience: Patience,
        judge: Judge | None = None,
    ) -> Exchanged:
        """Swaps from the `points` at these prices, or those of the judge, candidates in this order."""
        candidates, cells = self.candidates[order], self.cells[order]
        keys = self.keys(cells, self.problem.ids[candidates])
        space = replace(self._space, prices=prices)
        return exchange(space, points, candidates, cells, keys, patience, self._threads, judge)

    def screen(
        self, points: Points, prices: np.ndarray, order: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """The candidates in `order`, put in that of their gains by a sample of the rows."""
        n = self.problem.table.n
        rows = np.sort(rng.choice(n, _SCREEN, replace=False)) if n > 2 * _SCREEN else np.arange(n)
        space = replace(self._space, prices=prices)
        changes = estimate(space, points, self.candidates[order], self.cells[order], rows, self._threads)
        return np.asarray(order[np.argsort(changes, kind="stable")])

    def promising(self, points: Points, prices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The candidates that are worth a look at all rows, the best by a sample first."""
        wanted = max(_SCREENED, _SCREENED_EACH * len(points.keys))
        some = rng.permutation(len(self.candidates))[:_LOOKED_AT]
        return self.screen(points, prices, some, rng)[:wanted]


def swap_rows(steps: Steps, rows: np.ndarray, threads: Threads, rng: np.random.Generator) -> np.ndarray:
    """Rows (m,) that swaps make of `rows`; each of them has lowered the objective."""
    swaps, table = Swaps(steps.problem, threads), steps.problem.table

    def ask(moved: np.ndarray) -> tuple[float, np.ndarray]:
        objective, _ = steps.solve(points_at(table, np.where(moved < 0, rows, moved)))
        return objective * steps.problem.total, steps.prices

    objective, prices = ask(rows)
    points = swaps.on_rows(rows)
    order = swaps.promising(points, prices, rng)
    swapped = swaps.seek(points, prices, order, _JUDGED, Judge(objective, ask)).rows
    return np.where(swapped < 0, rows, swapped)


def swap_at_prices(
    steps: Steps, descent: Descent, max_iter: int, threads: Threads, rng: np.random.Generator
) -> Descent:
    """What swaps on all rows of a large table make of a descent, at prices that stay while rows are swapped.

    A descent follows, and says whether the swaps gained. They are sought once more, whether or not they did,
    at the mean of the prices before and after: at the last ones alone swaps overshoot.
    """
    table, swaps = steps.problem.table, Swaps(steps.problem, threads)
    best, rows = descent, np.asarray(descent.rows)
    steps.solve(points_at(table, rows))
    prices = steps.prices
    for _ in range(_AT_MEANS):
        points = swaps.on_rows(rows)
        steps.rest()  # the rows in another order, for the swaps, are as much
        swapped = swaps.seek(points, prices, swaps.promising(points, prices, rng), _AT_PRICES).rows
        if (swapped < 0).all():
            break
        again = descend(steps, np.where(swapped < 0, rows, swapped), max_iter)
        rows, prices = np.asarray(again.rows), (prices + steps.prices) / 2
        if again.objective < best.objective:
            best = again.after(best)
    return best


def swap_on_sample(
    problem: Problem, descent: Descent, prices: np.ndarray, rng: np.random.Generator, threads: Threads
) -> np.ndarray:
    """Where swaps lead from a descent and its prices (G,): points (m, p), or rows (m,) if it is on rows."""
    priority = problem.priorities(rng)
    sample = sample_rows(problem, min(problem.table.n, max(_SAMPLE, _EACH * problem.m)), rng, priority)
    part, cells = problem.subset(sample, priority), problem.cell_of
    swaps = Swaps(part, threads, part.table.centre)
    keys = np.full(len(cells), -1) if descent.rows is None else swaps.keys(cells, problem.ids[descent.rows])
    points = Points((descent.points - part.table.centre).astype(np.float32), cells, keys)
    rows = swaps.seek(points, prices, rng.permutation(len(swaps.candidates)), _ON_SAMPLE).rows
    if descent.rows is not None:
        return np.where(rows < 0, descent.rows, sample[rows])
    moved = descent.points.copy()
    moved[rows >= 0] = part.table.values_of(rows[rows >= 0])
    return moved
