"""FairWASP: fair weights for the rows of a table, with no new points.

See docs/method.md, "Weights without new points" (m = n).

The predecessor that the paper adapts (Xiong, Dalmasso et al., *FairWASP: Fast and Optimal Fair Wasserstein
Pre-processing*, AAAI 2024). The points are the rows themselves, so only the weights are unknown, and the
optimum is global. A row that must leave its cell moves to the nearest row of another cell.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from fwc_llm.coreset.checks import check_choice, check_epsilon, check_not_negative
from fwc_llm.coreset.interface.given import read_given
from fwc_llm.coreset.interface.parameters import Parameters
from fwc_llm.coreset.problem.cells import Cells, check_levels, empty_cell, overall_target
from fwc_llm.coreset.problem.encoding import Encoder, Table
from fwc_llm.coreset.problem.ground_cost import COSTS, between_cells, feature_costs
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.fair import fair_transport
from fwc_llm.coreset.transport.parity import violation

COMPILED = 10**8  # number of differences from which compiled code is faster
_ROWS = 256  # rows whose distances are held at once


class FairWASP(Parameters):
    """Fair weights of the given rows that change the rows' distribution least.

    Minimises the Wasserstein distance between the rows (mass 1/n each, or by `sample_weight`) and the same
    rows with other weights, subject to |p(y|d) / p_T(y) − 1| ≤ epsilon for every protected level d and
    outcome y.

    Args:
        epsilon: parity limit in [0, 1), or None for no constraint (all weights are then 1).
        cost: "l1" or "sqeuclidean" over the numeric columns; every categorical mismatch costs 1.
        target: outcome distribution p_T, in sorted order of the outcomes or {outcome: p}; None: the rows'.
        cost_sensitive: what it costs to move a row to another protected level.
        cost_outcome: what it costs to move a row to another outcome.
        scale: whether the numbers of X become z-scores; "auto": those of a DataFrame do, those of an array
            are used as they are, with a `ScaleWarning` where its columns differ by orders of magnitude.

    Attributes:
        weights_: (n,) weights of the rows, not negative, summing to n (the number of rows with a weight above
            0, where weights were given): use them as `sample_weight`.
        objective_: Wasserstein distance between the rows and the weighted rows, in units of the cost.
        lower_bound_: a bound that no fair weights can beat; with the objective, the certificate.
        violation_: largest |p(y|d) / p_T(y) − 1|, of `weights_`.
        n_features_in_, feature_names_in_ (when X was a DataFrame).
    """

    def __init__(
        self,
        epsilon: float | None = 0.01,
        cost: str = "l1",
        target: Any = None,
        cost_sensitive: float = 1.0,
        cost_outcome: float = 1.0,
        scale: bool | str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.cost = cost
        self.target = target
        self.cost_sensitive = cost_sensitive
        self.cost_outcome = cost_outcome
        self.scale = scale

    def fit(self, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None) -> Self:
        """Weigh the rows.

        Args:
            X: (n, p) features without D and Y. A plain array is numeric; the columns of a DataFrame are read
                by their kind (see `fwc_llm.coreset.problem.encoding.Encoder`, and `scale`).
            y: (n,) outcomes, any labels; may be left out with epsilon=None.
            sensitive: (n,) protected levels; the columns of an (n, k) array or DataFrame are crossed. May be
                left out with epsilon=None.
            sample_weight: (n,) what each row stands for, not negative, such as a survey's weights; only
                ratios count. A row of weight 0 is as if it were not there, and keeps the weight 0.

        Raises:
            InputError: bad input, naming the row, column or cell.
        """
        self._check_parameters()
        terms = self.cost, self.scale, self.epsilon
        rows = read_given(X, y, sensitive, sample_weight, *terms)
        table, cells = rows.table, rows.cells
        if self.epsilon is not None:
            check_levels(cells)
            for g in np.flatnonzero(cells.counts == 0).tolist():
                raise empty_cell(cells, g)
        target = overall_target(cells, self.target)
        cost, nearest = nearest_rows(table, cells, self.cost)
        cost += between_cells(cells, self.cost_sensitive, self.cost_outcome)[cells.cell]
        inner = fair_transport(
            cost, cells.n_levels, cells.n_outcomes, target, self.epsilon, sample_weight=rows.masses
        )
        kept = np.ones(table.n)
        np.subtract.at(kept, inner.split_row, inner.split_share)
        parts = inner.split_share
        if inner.row_mass is not None:
            mass = inner.row_mass * table.n
            kept, parts = kept * mass, parts * mass[inner.split_row]
        weights = np.bincount(nearest[np.arange(table.n), inner.cell], kept, table.n)
        np.add.at(weights, nearest[inner.split_row, inner.split_cell], parts)
        self.weights_ = np.zeros(rows.n)
        self.weights_[rows.of_all(np.arange(rows.n))] = weights
        self.objective_ = inner.objective
        self.lower_bound_ = inner.lower_bound
        held = np.bincount(cells.cell, weights, cells.n_cells)
        self.violation_ = violation(held, target)
        self.n_features_in_ = table.p
        if isinstance(rows.encoding, Encoder):
            self.feature_names_in_ = np.array(rows.encoding.order, dtype=object)
        return self

    def _check_parameters(self) -> None:
        check_choice("cost", self.cost, COSTS)
        check_epsilon(self.epsilon)
        check_not_negative("cost_sensitive", self.cost_sensitive)
        check_not_negative("cost_outcome", self.cost_outcome)


def nearest_rows(table: Table, cells: Cells, cost: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the feature cost (n, G) of each cell's nearest row, inf where it has none, and the row (n, G).

    A row is its own nearest in its own cell. Rows are visited by their distance along the columns' main
    direction, which is a lower bound of their cost, so that most pairs of rows are never compared.
    """
    values = np.ascontiguousarray(table.values, dtype=np.float64)
    place = _main_direction(values[:, : table.n_numeric], cost)
    n = table.n
    nearest = np.zeros((n, cells.n_cells), dtype=np.intp)
    out = np.full((n, cells.n_cells), np.inf)
    find_nearest: Callable[..., None] = _find_nearest
    if n * n * table.p >= COMPILED:
        from fwc_llm.coreset.fairwasp.nearest_kernels import find_nearest
    threads = Threads()
    everyone = np.argsort(place, kind="stable")  # consecutive searches use nearby memory
    for g in range(cells.n_cells):
        members = everyone[cells.cell[everyone] == g]
        others = everyone[cells.cell[everyone] != g]
        nearest[members, g], out[members, g] = members, 0.0
        if not len(members) or not len(others):
            continue
        best, row = np.full(len(others), np.inf), np.zeros(len(others), dtype=np.intp)
        threads.over_rows(
            find_nearest,
            values[others],
            place[others],
            values[members],
            place[members],
            table.n_numeric,
            cost == "sqeuclidean",
            best,
            row,
            n=len(others),
            chunk=_ROWS,
        )
        out[others, g], nearest[others, g] = best, members[row]
    return out, nearest


def _main_direction(numbers: np.ndarray, cost: str) -> np.ndarray:
    """A coordinate (n,) of each row whose differences, squared if the costs are, never exceed the costs."""
    if not numbers.shape[1]:
        return np.zeros(len(numbers))
    centred = numbers - numbers.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    # |v·(a − b)| ≤ ‖v‖_∞ ‖a − b‖₁, and ≤ ‖v‖₂ ‖a − b‖₂; slightly less, for rounding.
    size = np.abs(direction).max() if cost == "l1" else 1.0
    return np.asarray(centred @ direction * ((1 - 1e-9) / size))


def _find_nearest(
    rows: np.ndarray,
    place: np.ndarray,
    members: np.ndarray,
    member_place: np.ndarray,
    n_numeric: int,
    squared: bool,
    best: np.ndarray,
    row: np.ndarray,
    low: int,
    high: int,
) -> None:
    """Compare all pairs; the same as the compiled `find_nearest` up to rounding and ties."""
    columns = np.ascontiguousarray(members.T)
    for i in range(low, high):
        costs = feature_costs(columns, n_numeric, rows[i], "sqeuclidean" if squared else "l1")
        row[i] = costs.argmin()
        best[i] = costs[row[i]]
