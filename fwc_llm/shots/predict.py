"""What the features of a row predict, by logistic regression: for strategies that look for surprises."""

from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.shots.examples import features_frame

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


def predict(task: "Task", pool: "pd.DataFrame", codes: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Probabilities (n, classes) of each class 0, 1, … of `codes` (n,), learned on the rows `train`.

    One class against the rest; the features are those of FWC, without protected attributes.
    """
    from fwc_llm.metrics.logistic import fit_logistic, logistic_probability

    x, classes = _table(features_frame(task, pool)), int(codes.max()) + 1
    found = np.zeros((len(x), classes))
    for level in range(classes):
        own = codes[train] == level
        if own.all() or not own.any():
            found[:, level] = own.mean()
        else:
            found[:, level] = logistic_probability(fit_logistic(x[train], own), x)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-12))


def _table(frame: "pd.DataFrame") -> np.ndarray:
    """The features (n, p) for a logistic regression: z-scored numbers and ranks, indicators of categories."""
    import pandas as pd

    ranked = frame.assign(
        **{
            name: frame[name].cat.codes
            for name in frame.columns
            if isinstance(frame[name].dtype, pd.CategoricalDtype)
        }
    )
    numbers = pd.get_dummies(ranked).to_numpy(float)
    spread = numbers.std(axis=0)
    return np.asarray((numbers - numbers.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
