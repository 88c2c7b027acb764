"""Move each representative to the point of least cost for its rows, with numpy.

See docs/method.md, "Updates of the representatives".
"""

from dataclasses import dataclass, replace

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

    def grouped(self) -> Groups:
        """Group rows and masses: group j has those of representative j."""
        part = self.part_weight * self.masses.units[self.part_row]
        part = np.rint(part).astype(np.int64)
        rest = self.masses.units.copy()
        np.subtract.at(rest, self.part_row, part)
        units = np.concatenate([rest, part])
        row = np.concatenate([np.arange(len(rest)), self.part_row])
        label = np.concatenate([self.label, self.part_label])
        label[units <= 0] = self.m
        # Sorting two bytes is a radix sort, linear in n.
        label = label.astype(np.min_scalar_type(self.m))
        order = np.argsort(label, kind="stable")
        start = np.searchsorted(label[order], np.arange(self.m + 1, dtype=label.dtype))
        order = order[: start[-1]]
        return Groups(row[order], units[order], start, self.masses.unit)


def move_points(
    table: EncodedTable,
    cost: str,
    shares: RowAssignment,
    points: Array,
    threads: Threads,
) -> Array:
    """Return the points (m, p) of least cost for their rows; a point without rows stays.

    Every value between the lower and the upper median is equally good: a point moves to the nearest
    of these. Of equally heavy categories the current one stays.
    """
    groups = shares.grouped()
    low, high = COSTS[cost].centres(table.numbers, groups, threads)
    moved = points.copy()
    numbers, categories = np.split(moved, [table.n_numeric], axis=1)
    full = np.diff(groups.start) > 0
    numbers[full] = np.clip(numbers, low, high)[full]
    for code, current in zip(table.codes.T, categories.T, strict=True):
        width = int(max(code.max(), current.max())) + 1
        total = shares.by_code(code.astype(np.int64), width)
        kept = total[np.arange(len(moved)), current.astype(np.int64)]
        better = total.max(1) > kept
        current[better] = total.argmax(1)[better]
    return moved


def medoids(problem: Problem, shares: RowAssignment, rows: Array) -> Array:
    """Move the representatives to the best candidates among the rows that they carry.

    Returns the rows (m,). Representatives move one after another and stay distinct by
    `problem.ids`.
    """
    table = problem.table
    moved = rows.copy()
    groups = shares.grouped()
    taken = np.zeros(problem.ids.max() + 1, bool)
    for g, pool in enumerate(problem.pools):
        members = np.flatnonzero(problem.cell_of == g)
        allowed = np.zeros(table.n, bool)
        allowed[pool] = True
        for j in members.tolist():
            carried, weight = groups.of(j)
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
