"""FairWASP: fair weights for the rows of a table.

Xiong, Dalmasso et al., *FairWASP: Fast and Optimal Fair Wasserstein Pre-processing*, AAAI 2024.
Only the weights are unknown, and the optimum is global. Mass that must leave a row's cell moves to
the nearest row of another cell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from fwc_llm.coreset.descent.assignment import nearest_points
from fwc_llm.coreset.descent.loop import share_out
from fwc_llm.coreset.problem.cells import Cells, empty_cell, find_cells
from fwc_llm.coreset.problem.encoded_input import (
    check_terms,
    is_constrained,
    read_rows,
    set_features,
)
from fwc_llm.coreset.problem.encoded_table import EncodedTable, value_ids
from fwc_llm.coreset.problem.encoding import ColumnWeights
from fwc_llm.coreset.problem.frames import Columns
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.parity import violation
from fwc_llm.coreset.weights import Masses


@dataclass(eq=False, repr=False)
class FairWASP(BaseEstimator):  # type: ignore[misc]
    """Fair weights for the given rows that change the distribution of the rows least.

    Minimises the Wasserstein distance between the rows (mass 1/n each, or by `sample_weight`) and
    the same rows with other weights, subject to |p(y|d) / p_T(y) − 1| ≤ epsilon for every protected
    level d and outcome y.

    Args:
        epsilon: parity limit in [0, 1); or {level: limit} for every level; or None for no limit
            (without a penalty, all weights are then those of the rows).
        cost, target, cost_sensitive, cost_outcome, scale, column_weights, penalty, crossed: as in
            `FairCoreset`.

    Attributes:
        weights_: (n,) weights of the rows, not negative, for use as `sample_weight`. They sum to n,
            or to the number of rows with a positive `sample_weight`.
        objective_: Wasserstein distance between the rows and the weighted rows, plus any charge of
            `penalty`.
        lower_bound_: lower bound of the objective for all fair weights; certifies `objective_`.
        violation_: largest |p(y|d) / p_T(y) − 1| of `weights_`.
        n_features_in_, feature_names_in_ (when X was a DataFrame).
    """

    epsilon: float | Mapping[Any, float] | None = 0.01
    cost: str = "l1"
    target: Any = None
    cost_sensitive: float = 1.0
    cost_outcome: float = 1.0
    scale: bool | str = "auto"
    column_weights: ColumnWeights = None
    penalty: float | None = None
    crossed: bool = True
    support = "rows"

    def fit(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        sample_weight: Any = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Find the weights.

        Args:
            X, y, sensitive: as in `FairCoreset.fit`, in memory.
            sample_weight: (n,) row weights; a row of weight 0 keeps the weight 0.
            progress: function that gets a line of text after each cell that was searched.

        Raises:
            InputError: bad input, naming the row, column or cell.
        """
        check_terms(self)
        rows = read_rows(self, Columns(X, y, sensitive, sample_weight))
        table = rows.table
        cells = rows.cells
        problem = Problem.of(rows, self, cells, cells.cell)
        if (
            problem.groups is None
            and self.epsilon is not None
            and (cells.counts == 0).any()
        ):
            raise empty_cell(cells, int(cells.counts.argmin()))
        if not is_constrained(self):  # nothing moves
            weights = rows.masses.values * (table.n / rows.masses.total)
            self.objective_ = self.lower_bound_ = 0.0
        else:
            cost, nearest = nearest_rows(
                table, cells, self.cost, progress or (lambda words: None)
            )
            plan = problem.transport(cost + problem.move[cells.cell], None)
            weights = share_out(plan, nearest.T, table.n, rows.masses).weights()
            weights *= table.n / rows.masses.total
            self.objective_, self.lower_bound_ = plan.objective, plan.lower_bound
        self.weights_ = np.zeros(len(rows.X))
        self.weights_[rows.used] = weights
        mass = np.bincount(cells.cell, weights, cells.n_cells)
        self.violation_ = violation(mass, problem.target, groups=problem.groups)
        set_features(self, rows)
        return self


def nearest_rows(
    table: EncodedTable, cells: Cells, cost: str, say: Callable[[str], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Feature cost (n, G) to the nearest row of every cell, in its own the row itself; and this
    row.
    """
    rows = np.arange(table.n)
    ids = value_ids(EncodedTable(table.values, cells.cell[:, None]))
    _, first, kind = np.unique(ids, return_index=True, return_inverse=True)
    distinct = table.take(first)
    alike = find_cells(None, None, len(first))
    threads = Threads()
    least = np.full((len(first), cells.n_cells), np.inf)
    nearest = np.zeros((len(first), cells.n_cells), int)
    for g in np.flatnonzero(cells.counts).tolist():
        members = first[cells.cell[first] == g]
        problem = Problem(
            distinct,
            alike,
            cell_of=np.zeros(len(members), int),
            target=np.ones(1),
            epsilon=None,
            cost=cost,
            support="rows",
            move=np.zeros((1, 1)),
            pools=[],
            ids=first,
            masses=Masses(np.ones(len(first))),
        )
        apart, place = nearest_points(problem, table.values_of(members), threads)
        least[:, g], nearest[:, g] = apart[:, 0], members[place[0]]
        say(f"nearest rows: {g + 1:,} of {cells.n_cells:,} cells searched")
    nearest = nearest[kind]
    nearest[rows, cells.cell] = rows
    return least[kind], nearest
