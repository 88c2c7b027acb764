"""The table model to compare with: a logistic regression (`baseline`)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fwc_llm.models.base import (
    FromTable,
    Messages,
    Reply,
    RowContext,
    Training,
    Usage,
    likelier,
)
from fwc_llm.sanitize import Fields

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

NAME = "baseline"
_PENALTY = 1.0
_SUREST = 1e-6
_MOST_COLUMNS = 1000  # free text has thousands of categories without information


class TableModel:
    """A logistic regression of `labels` (n,), 0 or 1, fitted on n `rows`."""

    def __init__(self, rows: "pd.DataFrame", labels: "npt.NDArray[np.int8]") -> None:
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        self._constant = float(labels[0]) if labels.min() == labels.max() else None
        if self._constant is not None:
            return
        self._scales, self._ranks = _columns(rows)
        features = [self._features(values) for values in rows.to_dict("records")]
        counts = Counter(name for row in features for name in row)
        commonest = dict(counts.most_common(_MOST_COLUMNS))
        self._vectorizer = DictVectorizer().fit([commonest])
        self._fitted = LogisticRegression(
            C=1.0 / _PENALTY, solver="newton-cholesky", tol=1e-8
        )
        with threadpool_limits(
            1
        ):  # with several threads, contention makes it a hundred times slower
            self._fitted.fit(self._vectorizer.transform(features), labels)

    def probabilities(
        self, rows: "pd.DataFrame | Sequence[Fields]"
    ) -> "npt.NDArray[np.float64]":
        """P(yes) (n,), in [0, 1], of n rows; unseen categories are ignored."""
        import numpy as np
        from threadpoolctl import threadpool_limits

        if self._constant is not None:
            return np.full(len(rows), self._constant)
        if hasattr(rows, "to_dict"):
            records = rows.to_dict("records")
        else:
            records = rows
        features = self._vectorizer.transform(
            [self._features(values) for values in records]
        )
        with threadpool_limits(1):
            return np.asarray(self._fitted.predict_proba(features)[:, 1], np.float64)

    def _features(self, values: Mapping[Any, Any]) -> dict[str, float]:
        features = {}
        for name, scale in self._scales.items():
            if scale is None:
                features[f"{name}={values[name]}"] = (
                    0.5  # two categories differ by 1, as in coresets
                )
            else:
                if name in self._ranks:
                    number = self._ranks[name].get(values[name], -1)
                else:
                    number = values[name]
                features[str(name)] = (float(number) - scale[0]) / scale[1]
        return features


def _columns(
    rows: "pd.DataFrame",
) -> tuple[dict[Any, tuple[float, float] | None], dict[Any, dict[Any, int]]]:
    """(mean, scale) of columns, None for categories; ranks of ordered categories."""
    import pandas as pd

    scales: dict[Any, tuple[float, float] | None] = {}
    ranks: dict[Any, dict[Any, int]] = {}
    for name, column in rows.items():
        if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
            ranks[name] = {
                value: rank for rank, value in enumerate(column.cat.categories)
            }
            column = column.cat.codes
        numeric = pd.api.types.is_numeric_dtype(
            column
        ) and not pd.api.types.is_bool_dtype(column)
        if numeric:
            spread = float(column.std(ddof=0))
        else:
            spread = 0.0
        scales[name] = (float(column.mean()), spread or math.inf) if numeric else None
    return scales, ranks


class Baseline(FromTable):
    """The logistic regression as a `Model`."""

    name = NAME

    def __init__(self) -> None:
        self.parameters = {"penalty": _PENALTY}
        self._fitted: WeakKeyDictionary[Training, TableModel] = WeakKeyDictionary()

    async def ask_row(self, messages: Messages, asked: RowContext) -> Reply:
        """Answer for the row, with P(yes); the messages are ignored."""
        training = asked.training()
        if training not in self._fitted:
            self._fitted[training] = TableModel(training.rows, training.labels)
        p = float(self._fitted[training].probabilities([asked.values])[0])
        p = min(max(p, _SUREST), 1 - _SUREST)
        return Reply(
            text=likelier(p),
            finish_reason="stop",
            p_yes=p,
            usage=Usage(),
            model=f"{NAME} (logistic regression)",
        )
