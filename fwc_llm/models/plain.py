"""Plain models of a table, to set beside a language model: logistic regression and gradient boosting.

Both learn from rows as `one_hot` encodes them, with a scale that the training rows alone decide.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    import pandas as pd

LOGISTIC, BOOSTING = "logistic regression", "gradient boosting"
Floats = npt.NDArray[np.float64]
Probabilities = Callable[["pd.DataFrame"], Floats]
_MOST_COLUMNS = {LOGISTIC: 1000, BOOSTING: 300}


def has_boosting() -> bool:
    """Whether scikit-learn is there."""
    return find_spec("sklearn") is not None


def require_boosting(what: str) -> None:
    """Refuse, with the command that installs it, where scikit-learn is missing."""
    if not has_boosting():
        raise FwcError(f"{what} needs scikit-learn: pip install 'fwc-llm[reference]'")


def fit_plain(model: str, rows: "pd.DataFrame", labels: npt.NDArray[np.int8]) -> Probabilities:
    """Fit `LOGISTIC` or `BOOSTING` on features (`features_frame`); return what gives rows their P(yes).

    The same rows give the same model. Labels that are all alike give a constant.
    """
    from fwc_llm.coreset.problem.encoding import Encoder
    from fwc_llm.coreset.problem.one_hot import frequent, one_hot

    if labels.min() == labels.max():
        constant = float(labels[0])
        return lambda asked: np.full(len(asked), constant)
    encoder = Encoder.fit(rows)[0]
    encoded = one_hot(encoder, rows)
    used = frequent(encoded, _MOST_COLUMNS[model])
    if model == LOGISTIC:
        from fwc_llm.metrics.logistic import fit_logistic, logistic_probability

        beta = fit_logistic(encoded[:, used], labels)
        return lambda asked: logistic_probability(beta, one_hot(encoder, asked)[:, used])
    require_boosting(model)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    fitted = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    # Threads that wait for each other on a busy machine take a hundred times as long as one.
    with threadpool_limits(1):
        fitted.fit(encoded[:, used].toarray().astype(np.float32), labels)

    def probabilities(asked: "pd.DataFrame") -> Floats:
        dense = one_hot(encoder, asked)[:, used].toarray().astype(np.float32)
        with threadpool_limits(1):
            return np.asarray(fitted.predict_proba(dense)[:, 1], np.float64)

    return probabilities
