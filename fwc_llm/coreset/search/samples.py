"""Swaps on a sample of the rows: for free representatives, and for tables too large to keep all costs.

As in `search.swaps`, prices stay fixed while swaps are sought; the descent on all rows that follows
sets new ones and says whether the swaps have gained. Free representatives are exchanged for rows, too, from
which the descent moves them on.
"""

import numpy as np

from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.exchange.exchange import Points, Space, as_columns, exchange
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.local_search import sample_rows
from fwc_llm.coreset.threads import Threads

_SAMPLE = 8192  # rows at least
_EACH = 24  # rows for every representative
_PASSES = 4  # over all candidates, at most
_LEAST = 1e-5  # gain of the sample's objective, relative, that makes a swap


def swap_on_sample(
    problem: Problem, found: Descent, prices: np.ndarray, rng: np.random.Generator, threads: Threads
) -> np.ndarray:
    """Where swaps lead from a descent and its prices (G,): points (m, p), or rows (m,) if it is on rows."""
    sample = sample_rows(problem, min(problem.table.n, max(_SAMPLE, _EACH * problem.m)), rng)
    part = problem.subset(sample)
    n, k = part.table.n, part.table.n_numeric
    # One encoding for rows and representatives: a column is a code only where these have no third value.
    values = np.vstack([part.table.values, found.points])
    numbers, codes, unit = as_columns(values[:, :k], values[:, k:].astype(np.int64), part.cost != "l1")
    (numbers, centres), (codes, kinds) = (np.split(columns, [n], axis=1) for columns in (numbers, codes))
    # Contiguous, as compiled loops run along rows.
    table = np.ascontiguousarray(numbers), np.ascontiguousarray(codes)
    space = Space(*table, unit, part.cells.cell, part.move, prices, part.cost)
    width = int(problem.ids.max()) + 1
    keys = np.full(problem.m, -1) if found.rows is None else problem.ids[found.rows]
    keys = np.where(keys < 0, -1, problem.cell_of * width + keys)
    points = Points(centres, kinds, problem.cell_of, keys)
    candidates, cells = part.candidates()
    order = rng.permutation(len(candidates))
    candidates, cells = candidates[order], cells[order]
    swapped = exchange(
        *(space, points, candidates, cells, cells * width + part.ids[candidates]),
        *(threads, _PASSES, _LEAST),
    )
    moved = swapped.rows >= 0
    if found.rows is not None:
        rows = found.rows.copy()
        rows[moved] = sample[swapped.rows[moved]]
        return rows
    moved_points = found.points.copy()
    moved_points[moved] = part.table.values[swapped.rows[moved]]
    return moved_points
