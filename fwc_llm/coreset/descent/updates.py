"""Move each representative to the point of least cost for its rows, with numpy.

See docs/method.md, "Updates of the representatives".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.encoded_table import SQUARED, EncodedTable
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import Masses

_ALONE = Threads(1)
UNIT = 1 << 32  # the mass of a row in integer sums, which do not depend on the order


@dataclass(frozen=True)
class RowAssignment:
    """The representative of each row, and of each part of split rows.

    Row i goes to `label[i]` (n,), except for the parts `part_weight` (s,) in (0, 1] of the rows `part_row`,
    which go to `part_label`. `masses` are those of the rows (None: 1 per row). `row_mass` (n,) is each row's
    share of all mass in the plan, which may leave out the lightest rows (None: 1/n per row).
    """

    label: np.ndarray
    part_row: np.ndarray
    part_label: np.ndarray
    part_weight: np.ndarray
    m: int
    masses: Masses | None = None
    row_mass: np.ndarray | None = None

    def weights(self) -> np.ndarray:
        """(m,) share of all mass that each representative carries; if `row_mass` is None, number of rows."""
        if self.row_mass is not None:
            own = np.ones(len(self.label))
            np.subtract.at(own, self.part_row, self.part_weight)
            total = np.bincount(self.label, own * self.row_mass, self.m)
            np.add.at(total, self.part_label, self.part_weight * self.row_mass[self.part_row])
            return np.asarray(total)
        total = np.bincount(self.label, minlength=self.m).astype(np.float64)
        np.subtract.at(total, self.label[self.part_row], self.part_weight)
        np.add.at(total, self.part_label, self.part_weight)
        return total

    def units_by(self, code: np.ndarray, width: int) -> np.ndarray:
        """Sum mass by representative and `code` (n,): (m, width) int64, in units of `Groups.unit`."""
        keys, part, size = self.label * width + code, self.part_units(), self.m * width
        total = np.zeros(size, np.int64)
        if self.masses is None:
            total += np.bincount(keys, minlength=size) * UNIT
        else:
            np.add.at(total, keys, self.masses.units)
        np.subtract.at(total, keys[self.part_row], part)
        np.add.at(total, self.part_label * width + code[self.part_row], part)
        return total.reshape(self.m, width)

    def part_units(self) -> np.ndarray:
        """(s,) int64 mass of the parts, in units of `Groups.unit`."""
        unit = UNIT if self.masses is None else self.masses.units[self.part_row]
        return np.asarray(np.rint(self.part_weight * unit), dtype=np.int64)

    def grouped(self, only: np.ndarray | None = None) -> "Groups":
        """Group rows and masses by representative: all representatives, or those in `only`."""
        wanted = np.ones(self.m, bool)
        if only is not None:
            wanted[:] = False
            wanted[only] = True
        mine = wanted[self.label]
        mine[self.part_row] = True
        parts = self._parts(np.flatnonzero(mine))
        row, label, units = (part[wanted[parts[1]]] for part in parts)
        start = np.searchsorted(label, np.arange(self.m + 1))
        return Groups(row, units, start, 1 / UNIT if self.masses is None else self.masses.unit)

    def _parts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List all parts of `rows`, sorted by label; `rows` are ascending and include all split rows.

        Returns the row, the label and the mass (in units) of each part.
        """
        rest = np.full(len(rows), UNIT, np.int64) if self.masses is None else self.masses.units[rows]
        part = self.part_units()
        np.subtract.at(rest, np.searchsorted(rows, self.part_row), part)
        label = np.concatenate([self.label[rows], self.part_label]).astype(np.min_scalar_type(self.m))
        row, units = np.concatenate([rows, self.part_row]), np.concatenate([rest, part])
        order = np.argsort(label, kind="stable")  # on two bytes this is a radix sort, linear in n
        order = order[units[order] > 0]
        return row[order], label[order].astype(np.int64), units[order]


@dataclass(frozen=True)
class Groups:
    """Representative j carries `rows[start[j]:start[j + 1]]` with the masses `units` · `unit`."""

    rows: np.ndarray
    units: np.ndarray
    start: np.ndarray
    unit: float

    def of(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of representative j, and their masses."""
        part = slice(self.start[j], self.start[j + 1])
        return self.rows[part], self.units[part] * self.unit


class Changes:
    """Finds the representatives to move: those that carry other rows than at the last move."""

    def __init__(self) -> None:
        self._label: np.ndarray | None = None  # (n,) labels at the last move; m for a split row
        self._torn = np.zeros(0, np.int64)  # representatives that carried parts of rows
        self._points = np.empty(0)

    def find(self, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
        """Return the representatives, now at `points` (m, p), that have to move."""
        label, old = shares.label.copy(), self._label
        label[shares.part_row] = shares.m
        torn = np.concatenate([shares.label[shares.part_row], shares.part_label])
        touched = np.ones(shares.m + 1, bool)
        if old is not None:
            touched[:-1] = (points != self._points).any(axis=1)
            changed = np.flatnonzero(label != old)
            for own in (self._torn, torn, old[changed], label[changed]):
                touched[own] = True
        self._label, self._torn = label, torn
        return np.flatnonzero(touched[:-1])

    def keep(self, moved: np.ndarray) -> np.ndarray:
        """Store the new points of the representatives, and return them."""
        self._points = moved.copy()
        return moved


def centres(
    table: EncodedTable,
    shares: RowAssignment,
    points: np.ndarray,
    cost: str,
    only: Any = None,
    threads: Threads = _ALONE,
) -> np.ndarray:
    """Move points (default: all) to weighted medians of numeric columns and modes of categorical ones.

    With the `cost` "sqeuclidean", to weighted means instead of medians. All values between the lower and the
    upper median are equally good; a point moves to the nearest of these. `only` has the points to move.
    """
    moved, groups = points.copy(), shares.grouped(only)

    def move(j: int) -> None:
        place = moved[j, : table.n_numeric]
        if SQUARED[cost]:
            rows, weight = groups.of(j)
            place[:] = weight @ table.numbers_of(rows) / weight.sum()
            return
        part = slice(groups.start[j], groups.start[j + 1])
        units, ordered = groups.units[part], np.ascontiguousarray(table.numbers[groups.rows[part]].T)
        if (units == units[0]).all():
            ordered.sort(axis=1)
            low, high = ordered[:, (len(units) - 1) // 2], ordered[:, len(units) // 2]
        else:
            order, columns = np.argsort(ordered, axis=1), np.arange(table.n_numeric)
            upto, total = np.cumsum(units[order], axis=1), units.sum()
            at = (upto < (total + 1) // 2).sum(axis=1), (upto <= total // 2).sum(axis=1)
            low, high = (ordered[columns, order[columns, middle]] for middle in at)
        np.minimum(np.maximum(place, low, out=place), high, out=place)

    threads.over(move, np.flatnonzero(np.diff(groups.start)))
    return modes(table, shares, moved)


def modes(table: EncodedTable, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
    """Set categorical columns of `points`, in place, to the heaviest category; ties keep the current one."""
    places = np.arange(len(points))
    for k in range(table.n_numeric, table.p):
        code = table.codes[:, k - table.n_numeric].astype(np.int64)
        width = int(max(code.max(), points[:, k].max())) + 1
        total, own = shares.units_by(code, width), points[:, k].astype(np.int64)
        better = total.max(1) > total[places, own]
        points[better, k] = total.argmax(1)[better]
    return points


def medoids(
    problem: Problem, shares: RowAssignment, rows: np.ndarray, only: np.ndarray | None = None
) -> np.ndarray:
    """Move representatives (default: all), each to the best candidate among the rows that it carries.

    Returns the rows (m,). Representatives move one after another and stay distinct by `problem.ids`. The
    cost of a candidate is a sum over columns (`FeatureCost.at_rows`). `only` has the representatives to move.
    """
    table, moved, groups = problem.table, rows.copy(), shares.grouped(only)
    taken = np.zeros(problem.ids.max() + 1, bool)
    for g, pool in enumerate(problem.pools):
        own = np.flatnonzero(problem.cell_of == g)
        allowed = np.zeros(table.n, bool)
        allowed[pool] = True
        for j in own[np.diff(groups.start)[own] > 0].tolist():
            carried, weight = groups.of(j)
            places, weight = np.append(rows[j], carried), np.append(0.0, weight)
            costs = problem.feature_cost.at_rows(table, places, weight)
            taken[problem.ids[moved[own]]] = True
            costs[1:][taken[problem.ids[carried]] | ~allowed[carried]] = np.inf
            taken[problem.ids[moved[own]]] = False
            if costs.min() < costs[0] - 1e-12 * abs(costs[0]):
                moved[j] = places[costs.argmin()]
    return moved
