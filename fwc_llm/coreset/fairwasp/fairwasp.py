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
from fwc_llm.coreset.fairwasp.nearest import NearestRows
from fwc_llm.coreset.fairwasp.weighing import weigh
from fwc_llm.coreset.interface.given import read_given
from fwc_llm.coreset.interface.parameters import Parameters
from fwc_llm.coreset.problem.cells import check_levels, empty_cell, overall_target
from fwc_llm.coreset.problem.encoding import Encoder
from fwc_llm.coreset.problem.ground_cost import COSTS, between_cells
from fwc_llm.coreset.transport.parity import violation


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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        sample_weight: Any = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Weigh the rows.

        Args:
            X: (n, p) features without D and Y. A plain array is numeric; the columns of a DataFrame are read
                by their kind (see `fwc_llm.coreset.problem.encoding.Encoder`, and `scale`).
            y: (n,) outcomes, any labels; may be left out with epsilon=None.
            sensitive: (n,) protected levels; the columns of an (n, k) array or DataFrame are crossed. May be
                left out with epsilon=None.
            sample_weight: (n,) what each row stands for, not negative, such as a survey's weights; only
                ratios count. A row of weight 0 is as if it were not there, and keeps the weight 0.
            progress: called now and then with how far the search has come, in words. To show them:
                `with fwc_llm.progress.choose().working("weighing") as say: model.fit(…, progress=say)`.

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
        if self.epsilon is None:  # nothing moves
            mass = np.ones(table.n) if rows.masses is None else rows.masses.values
            weights = mass * (table.n / mass.sum())
            self.objective_ = self.lower_bound_ = 0.0
        else:
            weighed = weigh(
                NearestRows(table, cells, self.cost),
                cells,
                between_cells(cells, self.cost_sensitive, self.cost_outcome),
                target,
                self.epsilon,
                progress,
                rows.masses,
            )
            weights = weighed.weights()
            self.objective_ = weighed.plan.objective
            self.lower_bound_ = weighed.plan.lower_bound
        self.weights_ = np.zeros(rows.n)
        self.weights_[rows.of_all(np.arange(rows.n))] = weights
        held = np.bincount(cells.cell, weights, cells.n_cells)
        self.violation_ = violation(held, target)
        self.n_features_in_ = table.p
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        if isinstance(rows.encoding, Encoder):
            self.feature_names_in_ = np.array(rows.encoding.order, dtype=object)
        return self

    def _check_parameters(self) -> None:
        check_choice("cost", self.cost, COSTS)
        check_epsilon(self.epsilon)
        check_not_negative("cost_sensitive", self.cost_sensitive)
        check_not_negative("cost_outcome", self.cost_outcome)
