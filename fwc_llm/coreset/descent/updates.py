"""Moving each representative to the minimiser of its share of the plan, with numpy.

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
UNIT = 1 << 32  # the weight of a whole row in sums that must not depend on their order


@dataclass(frozen=True)
class RowAssignment:
    """The representative of each row, and those of the parts of split rows.

    Row i goes to `label[i]` (n,), except for the parts `part_weight` (s,) in (0, 1] of the rows `part_row`,
    which go to `part_label`. `masses` of the rows; None stands for 1 each. `row_mass` (n,) are their shares
    of all mass as the plan has them, which may leave out the lightest; None: 1/n each.
    """

    label: np.ndarray
    part_row: np.ndarray
    part_label: np.ndarray
    part_weight: np.ndarray
    m: int
    masses: Masses | None = None
    row_mass: np.ndarray | None = None

    def weights(self) -> np.ndarray:
        """The rows (or the mass) that each representative carries, (m,), exact as a plan's parts are."""
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
        """Mass per representative and code (n,), (m, width) int64: UNIT per row, or `masses.units`."""
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
        """`part_weight` in whole numbers, (s,) int64."""
        unit = UNIT if self.masses is None else self.masses.units[self.part_row]
        return np.asarray(np.rint(self.part_weight * unit), dtype=np.int64)

    def grouped(self, only: np.ndarray | None = None) -> "Groups":
        """The rows and weights of each representative (or of those in `only`), together."""
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
        """All parts of the ascending `rows`, of which the split ones are some.

        By label: their rows, ascending labels, and masses in units.
        """
        rest = np.full(len(rows), UNIT, np.int64) if self.masses is None else self.masses.units[rows]
        part = self.part_units()
        np.subtract.at(rest, np.searchsorted(rows, self.part_row), part)
        label = np.concatenate([self.label[rows], self.part_label]).astype(np.min_scalar_type(self.m))
        row, units = np.concatenate([rows, self.part_row]), np.concatenate([rest, part])
        order = np.argsort(label, kind="stable")  # of two bytes, in time that grows with n
        order = order[units[order] > 0]
        return row[order], label[order].astype(np.int64), units[order]


@dataclass(frozen=True)
class Groups:
    """Representative j carries `rows[start[j]:start[j + 1]]`, `units` of each, of the mass `unit`."""

    rows: np.ndarray
    units: np.ndarray
    start: np.ndarray
    unit: float

    def of(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of representative j, and their masses."""
        part = slice(self.start[j], self.start[j + 1])
        return self.rows[part], self.units[part] * self.unit


class Changes:
    """Finds representatives that have to move: those that do not carry what they did at the last move."""

    def __init__(self) -> None:
        self._label: np.ndarray | None = None  # of every row at the last move, or m for one that was split
        self._torn = np.zeros(0, np.int64)  # representatives that had parts of rows
        self._points = np.empty(0)

    def find(self, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
        """The representatives that have to move from their `points` (m, p)."""
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
        """Keep where the representatives have moved, and return it."""
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
    """The points, or `only` some, at weighted medians of numeric columns and weighted modes of the others.

    With the `cost` "sqeuclidean" at weighted means. Any value between the lower and the upper median is as
    good: a point moves the least that reaches one.
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
    """Sets the categorical columns of `points`, in place, to the heaviest category; a tie keeps one's own."""
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
    """The representatives' rows (m,), each moved to the best candidate among the rows that it carries.

    They move one after another, those in `only` or all, and stay distinct by `ids` wherever they were. The
    cost of a candidate is a sum over columns of a function of one number, see `FeatureCost.at_rows`.
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
