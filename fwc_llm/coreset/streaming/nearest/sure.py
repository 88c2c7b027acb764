"""The representatives that carry the rows of a block, as far as float32 is sure of them.

A row is sure if in exact arithmetic one representative costs less than any other, and less than any of
another cell by more than the margin of the reading. For each of these rows one exact cost is enough. Most
rows are sure; all others are for the exact search (`CompiledSteps.nearest`).

What the reading before found helps: where no representative can have come nearer than the row's own one
(Hamerly 2010), not even its distances are computed. That takes the triangle inequality, so it holds for L1.
"""

from typing import NamedTuple

import numpy as np

from fwc_llm.coreset.compiled import read_only
from fwc_llm.coreset.descent.steps import tiles_of
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.problem.tables.table import Table, by_column
from fwc_llm.coreset.streaming.nearest import kernels
from fwc_llm.coreset.streaming.nearest.kept import Known

_HALF_ULP = 2.0**-24
_ROUNDING = 1e-12  # of sums in float64, relative: far more than it is
_FEW = 2048  # rows at once, converted to float64


class Sure(NamedTuple):
    """What is sure of the rows of a block."""

    label: np.ndarray  # (b,) representatives, −1 where this is not sure
    gap: np.ndarray  # (b,) float32, by which every other one costs more at least
    cost: np.ndarray  # (b,) exact cost at the representative, without prices; 0 where that is not sure


def find_sure(
    problem: Problem, points: np.ndarray, prices: np.ndarray, wanted: float, known: Known | None
) -> Sure:
    """What is sure of a block at these points (m, p) and prices (G,).

    `problem` is that of the block's rows, of which float32 must hold the differences. A gap to another cell
    counts if it is larger than `wanted`. `known` is what an earlier reading found of the same rows.
    """
    table, cell_of, cells = problem.table, problem.cell_of, problem.cells
    x = read_only(table.single)
    squared = problem.cost == "sqeuclidean"
    near, errors = _single(problem, x, points)
    label, gap = np.empty(table.n, np.int64), np.empty(table.n, np.float32)
    if known is None or squared:
        which = np.arange(table.n)
    else:
        before = np.ascontiguousarray(known.points - table.shift, np.float32)
        lost = _lost(near, before, cell_of, prices - known.prices, table.n_numeric)
        lost += _ROUNDING * (np.abs(prices).max() + problem.move.max())
        carried = known.label, known.gap, before, near, lost, table.n_numeric, errors, wanted
        kernels.carry_rows(x, *carried, label, gap)
        which = np.flatnonzero(label < 0)
    place, start = tiles_of(cell_of, cells.n_cells)
    tiles = np.ascontiguousarray(near[place].transpose(0, 2, 1))
    offset = problem.move - prices
    found = tiles, place, start, table.n_numeric, squared, errors, wanted, kernels.make_room(x.shape[1])
    kernels.scan_rows(x, which, cells.cell, offset, *found, label, gap)
    cost = np.empty(table.n)
    exact = np.array(points, np.float64, order="C")
    for low in range(0, table.n, _FEW):
        rows = slice(low, low + _FEW)
        kernels.cost_carried(table.values_of(rows), label[rows], exact, table.n_numeric, squared, cost[rows])
    cost += problem.move[cells.cell, cell_of[label]]
    return Sure(label, gap, cost)


def _single(problem: Problem, x: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """The points (m, p) as float32, and what distances may get wrong: relative, and for their inputs."""
    table, squared = problem.table, problem.cost == "sqeuclidean"
    shifted = points - table.shift
    near = np.ascontiguousarray(shifted, np.float32)
    off = np.abs(near - shifted).max(axis=0)
    if not off.any() and _is_whole(table, x, near, squared):
        return near, (0.0, 0.0)
    if not table.is_single:
        off += 2 * _HALF_ULP * _largest(x)
    absolute = float(np.sqrt((off**2).sum()) if squared else off.sum())
    return near, ((near.shape[1] + 4) * _HALF_ULP, absolute)


def _is_whole(table: Table, x: np.ndarray, near: np.ndarray, squared: bool) -> bool:
    """Whether all distances are whole numbers that float32 holds."""
    if table.n_numeric == 0:
        return True
    if not table.is_single or any((part[:_FEW] != np.rint(part[:_FEW])).any() for part in (near, x)):
        return False
    largest = np.maximum(_largest(x), _largest(near))
    apart = (2 * largest) ** (2 if squared else 1)
    return bool(apart.sum() < 2**24) and all((part == np.rint(part)).all() for part in (near, x))


def _largest(x: np.ndarray) -> np.ndarray:
    """(p,) the largest magnitude in each column."""
    return np.asarray(np.maximum(-by_column(np.min, x), by_column(np.max, x)), np.float64)


def _lost(
    near: np.ndarray, before: np.ndarray, cell_of: np.ndarray, dearer: np.ndarray, n_numeric: int
) -> np.ndarray:
    """By how much (m,) others may have come nearer than each representative stayed, as prices changed."""
    step = feature_costs(near.T.astype(np.float64), n_numeric, before.T.astype(np.float64), "l1")
    come = step + dearer[cell_of]
    largest = np.partition(come, -2)[-2:] if len(come) > 1 else np.full(2, -np.inf)
    most = np.where(come == largest[1], largest[0], largest[1])  # of all others
    return np.asarray(most - dearer[cell_of] + _ROUNDING * (step.max() + np.abs(dearer).max()))
