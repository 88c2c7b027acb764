"""Parameters by name, as scikit-learn's estimators have them, without importing scikit-learn."""

import inspect
import reprlib
from typing import Any, Self

from fwc_llm.coreset.interface.routing import Routed
from fwc_llm.errors import InputError

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 8
_SHORT.maxstring = _SHORT.maxother = 80


class Parameters(Routed):
    """Parameters by name, as scikit-learn's `BaseEstimator` has them: `clone`, `get_params`, `set_params`."""

    epsilon: float | None

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, with current values; nothing is nested, so `deep` has no effect."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Changes parameters by name; `InputError` for an unknown one."""
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise InputError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}: use one of {names}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The constructor call that makes this estimator, defaults left out and long values shortened."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if parameter.default is inspect.Parameter.empty or repr(value) != repr(parameter.default):
                shown.append(f"{name}={_shortened(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn's tools, which have imported it already."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=self.epsilon is not None),
            input_tags=InputTags(two_d_array=True),  # categories come in DataFrames, never in arrays
        )


def _shortened(value: Any) -> str:
    """A value on one line: an array or table by its shape once it has more than a few entries."""
    shape = getattr(value, "shape", None)
    if shape is not None and sum(shape) > 8:
        return f"<{type(value).__name__} {' × '.join(map(str, shape))}>"
    return " ".join(_SHORT.repr(value).split())
