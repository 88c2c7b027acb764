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
    """The representative of each row, and of each part of split rows."""

    label: np.ndarray  # (n,) representative of each row, except for the parts below
    part_row: np.ndarray  # (s,) row of each part
    part_label: np.ndarray  # (s,) representative of the part
    part_weight: np.ndarray  # (s,) the part as a share of the row, in (0, 1]
    m: int
    masses: Masses | None = None  # None: 1 per row
    # (n,) share of all mass, None for 1/n each; the plan may leave out the lightest rows
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
        keys, part = self.label * width + code, self.part_units()
        total = np.zeros(self.m * width, np.int64)
        np.add.at(total, keys, UNIT if self.masses is None else self.masses.units)
        np.subtract.at(total, keys[self.part_row], part)
        np.add.at(total, self.part_label * width + code[self.part_row], part)
        return total.reshape(self.m, width)

    def part_units(self) -> np.ndarray:
        """(s,) int64 mass of the parts, in units of `Groups.unit`."""
        unit = UNIT if self.masses is None else self.masses.units[self.part_row]
        return np.asarray(np.rint(self.part_weight * unit), dtype=np.int64)

    def grouped(self, only: np.ndarray | None = None) -> "Groups":
        """Group rows and masses by representative: all representatives, or those in `only`."""
        wanted = np.ones(self.m, bool) if only is None else np.isin(np.arange(self.m), only)
        mine = wanted[self.label]
        mine[self.part_row] = True
        rows, part = np.flatnonzero(mine), self.part_units()
        rest = np.full(len(rows), UNIT, np.int64) if self.masses is None else self.masses.units[rows]
        np.subtract.at(rest, np.searchsorted(rows, self.part_row), part)
        label = np.concatenate([self.label[rows], self.part_label]).astype(np.min_scalar_type(self.m))
        row, units = np.concatenate([rows, self.part_row]), np.concatenate([rest, part])
        order = np.argsort(label, kind="stable")  # on two bytes this is a radix sort, linear in n
        order = order[(units[order] > 0) & wanted[label[order]]]
        start = np.searchsorted(label[order].astype(np.int64), np.arange(self.m + 1))
        return Groups(row[order], units[order], start, 1 / UNIT if self.masses is None else self.masses.unit)


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
    """Move points to weighted medians of numeric columns and modes of categories.

    With the `cost` "sqeuclidean", to weighted means instead of medians. All values between the lower and the
    upper median are equally good; a point moves to the nearest of these. Of equally heavy categories the
    current one stays. `only` has the points to move; None: all.
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
    for code, place in zip(table.codes.T, moved.T[table.n_numeric :], strict=True):
        total = shares.units_by(code.astype(np.int64), int(max(code.max(), place.max())) + 1)
        better = total.max(1) > total[np.arange(len(moved)), place.astype(np.int64)]
        place[better] = total.argmax(1)[better]
    return moved


def medoids(
    problem: Problem, shares: RowAssignment, rows: np.ndarray, only: np.ndarray | None = None
) -> np.ndarray:
    """Move the representatives `only` (None: all) to the best candidates among the rows that they carry.

    Returns the rows (m,). Representatives move one after another and stay distinct by `problem.ids`.
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
