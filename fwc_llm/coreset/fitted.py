"""What a fit leaves in the estimator: representatives, their certificate, labels."""

from typing import Any

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps
from fwc_llm.coreset.interface.applied import Applied
from fwc_llm.coreset.interface.given import Given
from fwc_llm.coreset.interface.labels import main_labels
from fwc_llm.coreset.interface.represented import Represented, Rows, published
from fwc_llm.coreset.problem.encoding import Encoder, Table
from fwc_llm.coreset.problem.entry import Encoding, pick
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.streaming.blocks import Survey
from fwc_llm.coreset.streaming.sources.opening import is_in_blocks
from fwc_llm.coreset.transport.parity import violation
from fwc_llm.errors import InputError


class Fitted(Applied):
    """Sets the attributes of `FairCoreset`, which has the parameters."""

    cost: str
    cost_sensitive: float
    cost_outcome: float
    row_index_: np.ndarray | None
    sample: int

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fits, and returns `labels_`: each row's representative under the optimal plan."""
        if isinstance(X, np.memmap) and len(X) > self.sample:
            raise InputError(
                f"X is a memory map of more than sample={self.sample:,} rows, whose fit has no labels in "
                "memory: use fit, then predict on its parts"
            )
        _refuse_blocks(X, "fit_predict")
        return super().fit_predict(X, y, **fit_params)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fits, and returns `transform(X)`."""
        _refuse_blocks(X, "fit_transform")
        return super().fit_transform(X, y, **fit_params)

    def _rows(self, X: Any, y: Any, sensitive: Any, sample_weight: Any = None) -> tuple[Represented, Rows]:
        _refuse_blocks(X, "This method")
        return super()._rows(X, y, sensitive, sample_weight)

    def _keep(self, best: Descent, steps: Steps, rows: Given, X: Any, has_y: bool, has_levels: bool) -> None:
        """Sets the fitted attributes."""
        problem = steps.problem
        found = None if best.rows is None else rows.positions(best.rows)
        points = self._represent(
            best.points,
            found,
            None if found is None else pick(X, found),
            problem,
            rows.encoding,
            has_y,
            has_levels,
        )
        inner, shares = steps.certify(points)
        self._certify(shares.weights(), inner.objective, inner.lower_bound, best, problem)
        labels = np.full(rows.n, -1)
        labels[rows.of_all(np.arange(rows.n))] = main_labels(shares)
        self.labels_, self.n_passes_ = labels, 0

    def _represent(
        self,
        points: np.ndarray,
        found: np.ndarray | None,
        chosen: Any,
        problem: Problem,
        encoding: Encoding,
        has_y: bool,
        has_levels: bool,
    ) -> np.ndarray:
        """Sets the attributes of the representatives, and returns them as published: in the precision of X.

        They are `points` (m, p), or the rows `chosen`, which are those in the places `found` of X.
        """
        cells = problem.cells
        level, outcome = np.divmod(problem.cell_of, cells.n_outcomes)
        self.sensitive_ = cells.levels[level] if has_levels else None
        self.y_ = cells.outcomes[outcome] if has_y else None
        self.row_index_ = found
        self.representatives_: Any
        points, self.representatives_ = published(points, chosen, problem.table, encoding)
        self.n_features_in_ = problem.table.p
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        numbers, codes = np.split(points, [problem.table.n_numeric], axis=1)
        self._represented = Represented(
            Table(numbers, codes.astype(np.int32)),
            encoding,
            problem.cell_of,
            cells.levels if has_levels else None,
            cells.outcomes if has_y else None,
            problem.target,
            self.epsilon,
            self.cost,
            self.cost_sensitive,
            self.cost_outcome,
        )
        if isinstance(encoding, Encoder):
            self.feature_names_in_ = np.array(encoding.order, dtype=object)
        return points

    def _certify(
        self, weights: np.ndarray, objective: float, lower_bound: float, best: Descent, problem: Problem
    ) -> None:
        """Sets the attributes of the certificate and of the way there."""
        self.weights_ = weights * (problem.m / weights.sum())
        self.objective_ = objective
        self.lower_bound_ = lower_bound
        held = np.bincount(problem.cell_of, self.weights_, problem.cells.n_cells)
        self.violation_ = violation(held, problem.target)
        self.target_ = problem.target
        # The points in the precision of X may be a rounding above or below those of the descent.
        self.history_ = np.maximum(best.history, objective)
        self.history_[-1] = objective
        self.n_iter_ = len(best.history) - 1
        self.converged_ = best.converged

    def _place_in(self, survey: Survey) -> None:
        """Where the rows stand in a table that was read in blocks, and whose sample is all of it."""
        labels, rows = np.full(survey.n, -1), self.row_index_
        labels[survey.positions] = self.labels_
        self.labels_ = labels
        self.row_index_ = None if rows is None else survey.positions[rows]


def _refuse_blocks(X: Any, what: str) -> None:
    """`InputError` for what only `fit` reads."""
    if is_in_blocks(X):
        raise InputError(
            f"{what} reads tables in memory: pass an array or a DataFrame, a larger table one block after "
            "another (fit alone reads files, blocks and Dask)"
        )
