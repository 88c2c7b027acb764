"""Move each representative to the point of least cost for its rows, with numpy.

See docs/method.md, "Updates of the representatives".
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import COSTS
from fwc_llm.coreset.problem.medians import Groups
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import Masses


@dataclass(frozen=True)
class RowAssignment:
    """The representative of each row, and of each part of split rows."""

    label: Array  # (n,) representative of each row, except for the parts below
    part_row: Array  # (s,) row of each part
    part_label: Array  # (s,) representative of the part
    part_weight: Array  # (s,) the part as a share of the row, in (0, 1]
    m: int
    masses: Masses
    row_mass: (
        Array  # (n,) share of all mass; 0 for the lightest rows, if the plan omits them
    )

    def weights(self) -> Array:
        """(m,) mass that each representative carries."""
        return self.carried(np.where(self.row_mass > 0, self.masses.values, 0.0))

    def carried(self, values: Array) -> Array:
        """(m,) sums of the rows' `values` (n,) by representative."""
        part = self.part_weight * values[self.part_row]
        total = np.bincount(self.label, values, self.m)
        np.subtract.at(total, self.label[self.part_row], part)
        np.add.at(total, self.part_label, part)
        return np.asarray(total)

    def by_code(self, code: Array, width: int) -> Array:
        """(m, width) mass of the rows of each representative with each `code` (n,)."""
        pairs = replace(
            self,
            label=self.label * width + code,
            part_label=self.part_label * width + code[self.part_row],
            m=self.m * width,
        )
        return pairs.carried(self.masses.values).reshape(self.m, width)

    def part_units(self) -> Array:
        """(s,) int64 mass of the parts, in units of `Groups.unit`."""
        units = self.part_weight * self.masses.units[self.part_row]
        return np.asarray(np.rint(units), dtype=np.int64)

    def grouped(self, wanted: Array) -> Groups:
        """Group rows and masses: group k has those of representative `wanted[k]`."""
        group = np.full(
            self.m, len(wanted), np.min_scalar_type(self.m)
        )  # the last group is not wanted
        group[wanted] = np.arange(len(wanted))
        mine = group[self.label] < len(wanted)
        mine[self.part_row] = True
        rows = np.flatnonzero(mine)
        part = self.part_units()
        rest = self.masses.units[rows]
        np.subtract.at(rest, np.searchsorted(rows, self.part_row), part)
        label = np.concatenate([group[self.label[rows]], group[self.part_label]])
        row = np.concatenate([rows, self.part_row])
        units = np.concatenate([rest, part])
        label[units <= 0] = len(wanted)
        order = np.argsort(
            label, kind="stable"
        )  # on two bytes this is a radix sort, linear in n
        start = np.searchsorted(
            label[order], np.arange(len(wanted) + 1, dtype=label.dtype)
        )
        order = order[: start[-1]]
        return Groups(row[order], units[order], start, self.masses.unit)


class Changes:
    """Finds the representatives that carry other rows than at the last move: sums of random
    numbers tell sets of rows apart.
    """

    def __init__(self, n: int) -> None:
        self._numbers = np.random.default_rng(0).random(n)
        self._sums: Any = np.nan

    def find(self, shares: RowAssignment) -> Array:
        """Return the mask (m,) of the representatives with other rows; at first, of all."""
        sums = shares.carried(self._numbers)
        changed: Array = sums != self._sums
        self._sums = sums
        return changed


class Centres:
    """Moves points to the centres of their rows; the centres of unchanged rows are kept.

    Every value between the lower and the upper median is equally good: a point moves to the nearest
    of these. Of equally heavy categories the current one stays.
    """

    def __init__(
        self, table: EncodedTable, cost: str, m: int, threads: Threads
    ) -> None:
        self._table = table
        self._cost = COSTS[cost]
        self._threads = threads
        self._changes = Changes(table.n)
        self._low = np.full((m, table.n_numeric), -np.inf)
        self._high = np.full((m, table.n_numeric), np.inf)

    def move(self, shares: RowAssignment, points: Array) -> Array:
        """Return the points (m, p) of least cost; a point without rows stays."""
        table = self._table
        changed = np.flatnonzero(self._changes.find(shares))
        groups = shares.grouped(changed)
        low, high = self._cost.centres(table.numbers, groups, self._threads)
        empty = np.diff(groups.start) == 0
        self._low[changed] = np.where(empty[:, None], -np.inf, low)
        self._high[changed] = np.where(empty[:, None], np.inf, high)
        moved = points.copy()
        numbers, categories = np.split(moved, [table.n_numeric], axis=1)
        np.clip(numbers, self._low, self._high, out=numbers)
        for code, current in zip(table.codes.T, categories.T, strict=True):
            width = int(max(code.max(), current.max())) + 1
            total = shares.by_code(code.astype(np.int64), width)
            kept = total[np.arange(len(moved)), current.astype(np.int64)]
            better = total.max(1) > kept
            current[better] = total.argmax(1)[better]
        return moved


def medoids(problem: Problem, shares: RowAssignment, rows: Array, only: Array) -> Array:
    """Move the representatives `only` to the best candidates among the rows that
    they carry.

    Returns the rows (m,). Representatives move one after another and stay distinct by
    `problem.ids`.
    """
    table = problem.table
    moved = rows.copy()
    groups = shares.grouped(only)
    group = np.full(problem.m, -1)
    group[only] = np.arange(groups.count)
    taken = np.zeros(problem.ids.max() + 1, bool)
    for g, pool in enumerate(problem.pools):
        members = np.flatnonzero(problem.cell_of == g)
        allowed = np.zeros(table.n, bool)
        allowed[pool] = True
        for j in members[group[members] >= 0].tolist():
            carried, weight = groups.of(group[j])
            if not len(carried):
                continue
            options = np.append(rows[j], carried)
            weight = np.append(0.0, weight)
            costs = problem.feature_cost.at_rows(table, options, weight)
            taken[problem.ids[moved[members]]] = True
            costs[1:][taken[problem.ids[carried]] | ~allowed[carried]] = np.inf
            taken[problem.ids[moved[members]]] = False
            if costs.min() < costs[0] - 1e-12 * abs(costs[0]):
                moved[j] = options[costs.argmin()]
    return moved
