"""Moving each representative to the minimiser of its share of the plan, with numpy.

See docs/method.md, "Updates of the representatives".
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.weights import Masses

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

    def whole_weights(self) -> np.ndarray:
        """The same in whole numbers, UNIT to a row or as `masses` has them, (m,) int64."""
        total = self.sums(self.label, self.m)
        part = self.part_units()
        np.subtract.at(total, self.label[self.part_row], part)
        np.add.at(total, self.part_label, part)
        return total

    def sums(self, keys: np.ndarray, size: int) -> np.ndarray:
        """The units of whole rows by their key (n,), (size,) int64."""
        if self.masses is None:
            return np.asarray(np.bincount(keys, minlength=size) * UNIT, dtype=np.int64)
        total = np.zeros(size, np.int64)
        np.add.at(total, keys, self.masses.units)
        return total

    def part_units(self) -> np.ndarray:
        """`part_weight` in whole numbers, (s,) int64."""
        unit = UNIT if self.masses is None else self.masses.units[self.part_row]
        return np.asarray(np.rint(self.part_weight * unit), dtype=np.int64)

    def torn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All parts of split rows by label: their rows, ascending labels, and masses in units."""
        return self._parts(np.unique(self.part_row))

    def grouped(self, only: np.ndarray | None = None) -> "Groups":
        """The rows and weights of each representative (or of those in `only`), together."""
        row, label, units = self._parts(np.arange(len(self.label)))
        if only is not None:
            wanted = np.zeros(self.m, bool)
            wanted[only] = True
            row, label, units = (own[wanted[label]] for own in (row, label, units))
        start = np.searchsorted(label, np.arange(self.m + 1))
        return Groups(row, units, start, 1 / UNIT if self.masses is None else self.masses.unit)

    def _parts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All parts of the ascending `rows`, of which the split ones are some, see `torn`."""
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


def means(table: EncodedTable, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
    """The points moved to weighted means of their numeric columns and weighted modes of the others."""
    groups = shares.grouped()
    moved = points.copy()
    for j in range(len(points)):
        rows, weight = groups.of(j)
        if len(rows):
            numeric = table.numbers[rows].astype(np.float64)
            moved[j, : table.n_numeric] = weight @ numeric / weight.sum()
    return modes(table, shares, moved)


def medians(table: EncodedTable, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
    """The points moved to weighted medians of their numeric columns and weighted modes of the others.

    Any value between the lower and the upper median is as good: a point moves the least that reaches one.
    """
    moved, groups, columns = points.copy(), shares.grouped(), np.arange(table.n_numeric)
    for j in range(len(points)):
        part = slice(groups.start[j], groups.start[j + 1])
        if part.start == part.stop:
            continue
        numeric = np.ascontiguousarray(table.numbers[groups.rows[part]].T)
        order = np.argsort(numeric, axis=1)
        ordered = np.take_along_axis(numeric, order, axis=1)
        twice = 2 * np.cumsum(groups.units[part][order], axis=1)
        total = groups.units[part].sum()
        low, high = (twice < total).sum(1), (twice <= total).sum(1)
        moved[j, columns] = np.clip(moved[j, columns], ordered[columns, low], ordered[columns, high])
    return modes(table, shares, moved)


def modes(table: EncodedTable, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
    """Sets the categorical columns of `points`, in place, to the heaviest category; a tie keeps one's own."""
    if table.p == table.n_numeric:
        return points
    part = shares.part_units()
    occupied = shares.whole_weights() > 0
    places = np.arange(len(points))
    for k in range(table.n_numeric, table.p):
        code = table.codes[:, k - table.n_numeric].astype(np.int64)
        width = int(max(code.max(), points[:, k].max())) + 1
        total = shares.sums(shares.label * width + code, shares.m * width)
        np.subtract.at(total, shares.label[shares.part_row] * width + code[shares.part_row], part)
        np.add.at(total, shares.part_label * width + code[shares.part_row], part)
        total = total.reshape(shares.m, width)
        own = points[:, k].astype(np.int64)
        better = occupied & (total.max(1) > total[places, own])
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
    for g, pool in enumerate(problem.pools):
        own = np.flatnonzero(problem.cell_of == g)
        allowed = np.zeros(table.n, bool)
        allowed[pool] = True
        for j in own[np.diff(groups.start)[own] > 0].tolist():
            carried, weight = groups.of(j)
            places, weight = np.append(rows[j], carried), np.append(0.0, weight)
            costs = problem.feature_cost.at_rows(table, places, weight)
            taken = np.isin(problem.ids[places], problem.ids[moved[own]])
            costs[1:][taken[1:] | ~allowed[carried]] = np.inf
            if costs.min() < costs[0] - 1e-12 * abs(costs[0]):
                moved[j] = places[costs.argmin()]
    return moved
