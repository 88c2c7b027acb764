"""The error for an estimator that is used before its fit, which scikit-learn's tools know as theirs."""

import sys
from functools import cache
from typing import Any

from fwc_llm.errors import InputError


class NotFittedError(InputError, AttributeError):
    """The estimator has not been fitted; where scikit-learn is loaded, also its error of this name."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (str(self),)


def check_fitted(estimator: Any) -> None:
    """Refuse an estimator without fitted attributes."""
    if not hasattr(estimator, "n_features_in_"):
        name = type(estimator).__name__
        raise _made(f"This {name} instance is not fitted yet. Call 'fit' before this method.")


def _made(message: str) -> NotFittedError:
    # Whoever catches scikit-learn's class has imported it.
    loaded = sys.modules.get("sklearn.exceptions")
    return NotFittedError(message) if loaded is None else _both(loaded.NotFittedError)(message)


@cache
def _both(theirs: type[Exception]) -> type[NotFittedError]:
    return type("NotFittedError", (NotFittedError, theirs), {})
