"""What a fitted coreset does with rows: nearest representatives, distances, score, certificate."""

from typing import Any, Self

import numpy as np

from fwc_llm.coreset.interface.certificate import CoresetCertificate, certified, distance
from fwc_llm.coreset.interface.not_fitted import check_fitted
from fwc_llm.coreset.interface.parameters import Parameters
from fwc_llm.coreset.interface.represented import Represented, Rows
from fwc_llm.errors import InputError


class Applied(Parameters):
    """The methods of a fitted coreset that take other rows.

    They measure the ground cost in the units of the fit. What is not given (`y`, `sensitive`) costs nothing;
    a category, outcome or level that the fit did not see differs from all others.
    """

    _routed = ("fit", "score")
    _represented: Represented
    weights_: np.ndarray
    labels_: np.ndarray | None
    m: int

    def predict(self, X: Any, y: Any = None, sensitive: Any = None) -> np.ndarray:
        """(n,) the number of the nearest representative of each row; of equally near ones, the first.

        The weights and the parity limit play no part: `labels_` has the plan that keeps it, for the rows of
        the fit. Without `y` and `sensitive` the features alone decide, as in a pipeline.
        """
        points, rows = self._rows(X, y, sensitive)
        nearest = np.empty(rows.table.n, np.intp)
        for block, costs in points.blocks(rows):
            nearest[block] = costs.argmin(axis=1)
        return nearest

    def transform(self, X: Any, y: Any = None, sensitive: Any = None) -> np.ndarray:
        """(n, m) ground costs of the rows to the representatives, from all that is given."""
        points, rows = self._rows(X, y, sensitive)
        return points.costs(rows)

    def score(self, X: Any, y: Any = None, sensitive: Any = None, sample_weight: Any = None) -> float:
        """Minus the Wasserstein distance between the rows and the coreset with its weights; higher is better.

        With y and sensitive, and for the rows of the fit, this is −`objective_`. A distance of rows without
        y or sensitive is smaller: compare scores only where the same was given. Memory: 2.25 times n · m
        float64.
        """
        points, rows = self._rows(X, y, sensitive, sample_weight)
        return -distance(points.costs(rows), self.weights_, rows.masses).value

    def certify(
        self, X: Any, y: Any, sensitive: Any, weights: Any = None, sample_weight: Any = None
    ) -> CoresetCertificate:
        """What the representatives are worth for other rows, such as held-out ones.

        Args:
            X: (n, p) features, as in `fit`.
            y: (n,) outcomes.
            sensitive: (n,) or (n, k) protected levels.
            weights: (m,) weights of the representatives, such as `weights_`; None: those that are best for
                these rows within the parity limit. The target stays that of the fit (`target_`).
            sample_weight: (n,) what each row stands for, as in `fit`.
        """
        points, rows = self._rows(X, y, sensitive, sample_weight)
        for name, given, known in (("y", y, points.outcomes), ("sensitive", sensitive, points.levels)):
            if given is None and known is not None:
                raise InputError(f"certify needs {name}, because the fit had it: pass one value a row")
        return certified(points, rows, weights)

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fits, and returns `labels_`: each row's representative under the optimal plan."""
        labels = self.fit(X, y, **fit_params).labels_
        if labels is None:
            raise InputError("a table in blocks has no labels in memory: use fit, then predict on its parts")
        return labels

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Fits, and returns `transform(X)`."""
        return self.fit(X, y, **fit_params).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """(m,) names of the columns of `transform`: faircoreset0, faircoreset1, …"""
        check_fitted(self)
        name = type(self).__name__.lower()
        return np.array([f"{name}{j}" for j in range(self._represented.m)], dtype=object)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Says what searches pass to `score`, as `set_fit_request` does for `fit`."""
        return self._request("score", requests)

    def fit(self, X: Any, y: Any = None, sensitive: Any = None) -> Self:
        """Chooses the coreset."""
        raise NotImplementedError

    def _rows(self, X: Any, y: Any, sensitive: Any, sample_weight: Any = None) -> tuple[Represented, Rows]:
        check_fitted(self)
        points = self._represented
        return points, points.read(X, y, sensitive, type(self).__name__, sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn's tools, which have imported it already."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.transformer_tags = TransformerTags()
        return tags
