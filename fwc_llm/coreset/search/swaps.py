"""Swap representatives for other candidates at fixed prices.

The descent that follows shows whether the swaps lowered the objective, and sets new prices. Swaps
replace free representatives by rows, from which the descent moves them on.
"""

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.fasterpam import Points, Space, estimate, exchange
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import sampling_order
from fwc_llm.coreset.threads import Threads

_SCREEN = 2048  # rows on which the gains of swaps are estimated
# candidates tried on all rows: at least, and per representative
_SCREENED = 1024
_SCREENED_EACH = 16
_LOOKED_AT = 2**17  # candidates whose gains are estimated, at most
# terms of `exchange`
_LEAST = 1e-6
_AGAIN = 63
_BATCH = 128
_SAMPLE = 8192  # rows on which free points are swapped, at least
_EACH = 24  # rows per representative on which free points are swapped, at least


def swap(
    problem: Problem,
    descent: Descent,
    prices: Array,
    rng: Rng,
    threads: Threads,
    sampled: bool = True,
) -> Array:
    """Swap representatives of a descent for candidates, at prices (G,), on all rows or on a sample.

    Returns points (m, p), or rows (m,) if the descent has rows.
    """
    part = problem
    sample = np.arange(problem.table.n)
    cell_of = problem.cell_of
    if sampled:
        priority = problem.priorities(rng)
        count = min(problem.table.n, max(_SAMPLE, _EACH * problem.m))
        sample = np.sort(sampling_order(problem, rng, priority)[:count])
        part = problem.subset(sample, priority)
    table = part.table
    n = part.table.n
    mass = part.masses.values.astype(np.float32)
    space = Space(
        table.single, part.feature_cost, part.cells.cell, part.move, prices, mass
    )
    size = int(problem.ids.max()) + 1
    if descent.rows is None:
        taken = np.full(problem.m, -1)
    else:
        taken = cell_of * size + problem.ids[descent.rows]
    points = Points((descent.points - table.origin).astype(np.float32), cell_of, taken)
    candidates, cells = part.candidates()
    order = rng.permutation(len(candidates))[:_LOOKED_AT]
    tried = max(_SCREENED, _SCREENED_EACH * problem.m)
    if len(order) > 2 * tried:
        if n > 2 * _SCREEN:
            some = np.sort(rng.choice(n, _SCREEN, replace=False))
        else:
            some = np.arange(n)
        changes = estimate(
            space, points, candidates[order], cells[order], some, threads
        )
        order = order[np.argsort(changes, kind="stable")[:tried]]
    candidates = candidates[order]
    cells = cells[order]
    keys = cells * size + part.ids[candidates]
    rows = exchange(
        space, points, candidates, cells, keys, threads, 1, _LEAST, _AGAIN, _BATCH
    ).rows
    if descent.rows is not None:
        return np.where(rows < 0, descent.rows, sample[rows])
    moved = descent.points.copy()
    moved[rows >= 0] = table.values_of(rows[rows >= 0])
    return moved
