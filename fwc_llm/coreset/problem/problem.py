"""The data of a problem that stay fixed while the representatives move."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.problem.cells import (
    Cells,
    between_cells,
    check_attributes,
    groups_of,
    limits_of,
    overall_target,
)
from fwc_llm.coreset.problem.encoded_input import EncodedInput
from fwc_llm.coreset.problem.encoded_table import EncodedTable, first_of_each
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.transport.inner_problem import Transport, fair_transport
from fwc_llm.coreset.transport.linear_program import parity_set
from fwc_llm.coreset.transport.parity import ParitySet
from fwc_llm.coreset.weights import Masses


@dataclass(frozen=True)
class Problem:
    """A table, its cells, and the parameters of the problem (docs/method.md, "The problem")."""

    table: EncodedTable
    cells: Cells
    cell_of: Array  # (m,) cell of each representative, ascending
    target: Array  # (|Y|,) p_T
    epsilon: (
        float | Array | None
    )  # parity limit: one number, or (|D|,), or with `groups` (L,)
    cost: str
    support: str
    move: Array  # (G, G) cost of a change of cell; (H, G) if rows have other cells
    pools: list[Array]  # positions of the rows that may represent each cell
    ids: Array  # (n,) equal for rows that count as the same
    masses: Masses  # positive
    # Moves the ordinal columns of points (m, p) to the nearest ranks; None without such columns.
    to_ranks: Callable[[Array], Array] | None = None
    penalty: float | None = None  # soft limit, instead of `epsilon`
    groups: Array | None = (
        None  # (L, |D|) marks the levels that share a limit, if attributes overlap
    )

    @classmethod
    def of(
        cls,
        rows: EncodedInput,
        params: Any,
        cells: Cells,
        cell_of: Array,
        pools: Any = (),
        ids: Any = (),
    ) -> Self:
        """Make the problem of encoded rows with the parameters of an estimator; `cells` are those
        of the representatives.
        """
        target = overall_target(rows.cells, params.target)
        groups = groups_of(cells.levels, params.crossed)
        limits = limits_of(params.epsilon, cells.levels, params.crossed)
        if groups is not None and params.epsilon is not None:
            carried = np.bincount(cell_of, minlength=cells.n_cells) > 0
            check_attributes(cells, carried, groups, limits, target)
        costs = params.cost_sensitive, params.cost_outcome
        ordinal = any(column.kind == "ordinal" for column in rows.encoder.columns)
        return cls(
            rows.table,
            cells,
            cell_of,
            target,
            limits,
            params.cost,
            params.support,
            between_cells(rows.cells, cells, *costs),
            pools,
            ids,
            rows.masses,
            rows.encoder.to_ranks if ordinal else None,
            params.penalty,
            groups,
        )

    @property
    def m(self) -> int:
        """Number of representatives."""
        return len(self.cell_of)

    @cached_property
    def feature_cost(self) -> FeatureCost:
        """The cost between the features of two rows."""
        return FeatureCost.of(self.table, self.cost)

    @cached_property
    def seats(self) -> Array:
        """(G,) number of representatives of each cell."""
        return np.bincount(self.cell_of, minlength=self.cells.n_cells)

    def costs(self, points: Array, cell: Array, rows: slice = slice(None)) -> Array:
        """(b, m) costs of a block of rows to points (m, p) of the cells `cell` (m,)."""
        costs = self.feature_cost.matrix(self.table.take(rows), points)
        costs += self.move[self.cells.cell[rows]][:, cell]
        return costs

    def without_rows(self) -> "Problem":
        """The parameters alone."""
        return self.subset(np.zeros(0, int))

    def subset(self, rows: Array, priority: Array | None = None) -> "Problem":
        """Return the problem of some `rows` (n',), renumbered 0, 1, …

        With the `priority` (n,) by which the rows were sampled, their masses also represent the
        other rows.
        """
        if priority is None:
            masses = self.masses.take(rows)
        else:
            masses = self.masses.sampled(rows, priority)
        position = np.full(self.table.n, -1)
        position[rows] = np.arange(len(rows))
        return replace(
            self,
            table=self.table.take(rows),
            cells=self.cells.take(rows, masses),
            pools=[rows[rows >= 0] for rows in (position[pool] for pool in self.pools)],
            ids=self.ids[rows],
            masses=masses,
        )

    def priorities(self, rng: Rng) -> Array | None:
        """Priorities (n,), the highest of which are sampled (Duffield et al. 2007); None for
        equal masses.
        """
        if self.masses.equal:
            return None
        return self.masses.values / (1.0 - rng.random(self.table.n))

    def candidates(self) -> tuple[Array, Array]:
        """Return a row per distinct candidate value of each cell with slots, and the cells of
        these rows.
        """
        rows = []
        cells = []
        for g in np.unique(self.cell_of):
            pool = self.pools[g]
            rows.append(pool[first_of_each(self.ids[pool])])
            cells.append(np.full(len(rows[-1]), g))
        return np.concatenate(rows), np.concatenate(cells)

    @cached_property
    def parity_set(self) -> ParitySet | None:
        """The set of fair cell masses, or the charge on unfair ones; None without limit and
        penalty.
        """
        return parity_set(
            self.target, self.epsilon, self.penalty, self.cells.n_levels, self.groups
        )

    def transport(
        self, cost: Array, prices: Array | None, masses: Any = None
    ) -> Transport:
        """Solve the inner problem for costs (n, G), from prices (G,); `masses` replace those of
        the rows.
        """
        terms = (
            self.cells.n_levels,
            self.cells.n_outcomes,
            self.target,
            self.epsilon,
            prices,
        )
        return fair_transport(
            cost,
            *terms,
            sample_weight=self.masses if masses is None else masses,
            penalty=self.penalty,
            groups=self.groups,
        )
