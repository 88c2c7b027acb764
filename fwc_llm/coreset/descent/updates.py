"""Moving each representative to the minimiser of its share of the plan, with numpy.

See docs/method.md, "Updates of the representatives".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fwc_llm.coreset.problem.table import Table
from fwc_llm.coreset.weights import Masses

UNIT = 1 << 32  # the weight of a whole row in sums that must not depend on their order


@dataclass(frozen=True)
class Shares:
    """Which representative carries each row, and where the parts of split rows go.

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
        """How many rows (or how much mass) each representative carries, (m,), exact as a plan's parts are."""
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
        split, at = np.unique(self.part_row, return_inverse=True)
        rest = np.full(len(split), UNIT, np.int64) if self.masses is None else self.masses.units[split]
        part = self.part_units()
        np.subtract.at(rest, at, part)
        rows = np.concatenate([split, self.part_row]).astype(np.int64)
        label = np.concatenate([self.label[split], self.part_label]).astype(np.int64)
        mass = np.concatenate([rest, part])
        order = np.argsort(label, kind="stable")
        order = order[mass[order] > 0]
        return rows[order], label[order], mass[order]

    def grouped(self, only: np.ndarray | None = None) -> "Groups":
        """The rows and weights of each representative (or of those in `only`), together."""
        wanted = np.ones(self.m, bool)
        if only is not None:
            wanted[:] = False
            wanted[only] = True
        own = np.flatnonzero(wanted[self.label])
        rest = np.full(len(own), UNIT, np.int64) if self.masses is None else self.masses.units[own]
        part = self.part_units()
        split = wanted[self.label[self.part_row]]
        np.subtract.at(rest, np.searchsorted(own, self.part_row[split]), part[split])
        taken = wanted[self.part_label]
        small = np.uint16 if self.m <= 2**16 else np.int64  # the first is sorted in time that grows with n
        label = np.concatenate([self.label[own].astype(small), self.part_label[taken].astype(small)])
        row = np.concatenate([own, self.part_row[taken]])
        units = np.concatenate([rest, part[taken]])
        del own, rest
        keep = units > 0
        if not keep.all():
            row, label, units = row[keep], label[keep], units[keep]
        order = np.argsort(label, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=self.m))])
        row = row[order]
        return Groups(row, units[order], start, 1 / UNIT if self.masses is None else self.masses.unit)


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


def means(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
    """The points moved to weighted means of their numeric columns and weighted modes of the others."""
    groups = shares.grouped()
    moved = points.copy()
    for j in range(len(points)):
        rows, weight = groups.of(j)
        if len(rows):
            numeric = table.numbers[rows].astype(np.float64)
            moved[j, : table.n_numeric] = weight @ numeric / weight.sum()
    return modes(table, shares, moved)


def medians(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
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


def modes(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
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


@dataclass(frozen=True)
class Better:
    """What a `representative`'s rows cost at its `own` row and, `costs` (c,), at the candidates `rows`."""

    representative: int
    own: float
    rows: np.ndarray
    costs: np.ndarray


class Medoids:
    """Finds each representative's best real row, exactly and without row-to-row distances.

    The cost of a candidate is a sum over columns of a function of one number, tabulated on the column's
    distinct values by prefix sums: gather and add, O(n p) for all candidates of one representative.
    """

    def __init__(self, table: Table, cost: str, ids: np.ndarray, pools: list[np.ndarray]) -> None:
        """`ids` (n,): equal for rows that count as the same; `pools[g]`: the candidates of cell g."""
        self.table = table
        self.cost = cost
        self.ids = ids
        self.pools = pools

    def move(self, shares: Shares, row_index: np.ndarray, cell_of: np.ndarray) -> np.ndarray:
        """The representatives' rows (m,), moved one after another, distinct by `ids` wherever they were."""
        return self._move(shares.grouped(), row_index, cell_of)

    def _move(self, groups: Groups, row_index: np.ndarray, cell_of: np.ndarray) -> np.ndarray:
        moved = row_index.copy()
        for better in self._better(groups, row_index, cell_of):
            j, costs = better.representative, better.costs
            taken = np.isin(self.ids[better.rows], self.ids[moved[cell_of == cell_of[j]]])
            costs = np.where(taken, np.inf, costs)
            if costs.min(initial=np.inf) < better.own - 1e-12 * abs(better.own):
                moved[j] = better.rows[costs.argmin()]
        return moved

    def _better(self, groups: Groups, row_index: np.ndarray, cell_of: np.ndarray) -> Iterator[Better]:
        """For every representative that carries rows: the candidates among which a better row may be."""
        for j, g in enumerate(cell_of):
            rows, weight = groups.of(j)
            if len(rows):
                own = self.costs(rows, weight, self.codes[:, row_index[j : j + 1]])
                pool = self.pools[g]
                yield Better(j, float(own[0]), pool, self.costs(rows, weight, self.codes[:, pool]))

    @cached_property
    def _columns(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Every column's sorted distinct values, and each entry's place among them, (p, n) int32."""
        table = self.table
        pairs = [np.unique(table.column(k), return_inverse=True) for k in range(table.p)]
        return [values for values, _ in pairs], np.array([place for _, place in pairs], np.int32)

    @property
    def codes(self) -> np.ndarray:
        """Every entry's place among the distinct values of its column, (p, n)."""
        return self._columns[1]

    def costs(self, rows: np.ndarray, weight: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """(c,) cost of moving the weighted `rows` to each of the `candidates`, given as codes (p, c)."""
        total = np.zeros(candidates.shape[1])
        for k, values in enumerate(self._columns[0]):
            mass = np.bincount(self.codes[k, rows], weights=weight, minlength=len(values))
            total += column_table(mass, values, self.table.unit(k), self.cost)[candidates[k]]
        return total


def column_table(mass: np.ndarray, values: np.ndarray, unit: float | None, cost: str) -> np.ndarray:
    """Σ_i w_i c(x_i, v) for every distinct value v of one column; `mass` is the weight on each value.

    `unit` is what a mismatch costs, None for a column of numbers.
    """
    if unit is not None:
        return np.asarray(unit * (mass.sum() - mass))
    # About the weighted mean, so that neither sum cancels.
    centred = values.astype(np.float64) - mass @ values / mass.sum()
    if cost == "sqeuclidean":
        return np.asarray(mass.sum() * centred * centred + mass @ (centred * centred))
    below, moment = np.cumsum(mass), np.cumsum(mass * centred)
    return np.asarray(centred * (2 * below - below[-1]) - (2 * moment - moment[-1]))
