"""Metadata routing of scikit-learn, without importing scikit-learn before it asks.

Pipelines and searches ask an estimator by `get_metadata_routing` which arguments its methods want. `fit` and
`score` want `sensitive` unless told otherwise, because hardly anybody who passes it means something else; of
all other arguments scikit-learn demands a word (`set_fit_request(candidates=True)`).
"""

import copy
import inspect
from typing import Any, Self

from fwc_llm.errors import InputError

_ALWAYS = {"self", "X", "y", "progress"}  # passed on in any case, or nothing about the rows
_WANTED = {"sensitive"}


class Routed:
    """What scikit-learn's `BaseEstimator` has for metadata routing."""

    _routed: tuple[str, ...] = ("fit",)
    _metadata_request: Any  # scikit-learn's `clone` copies it

    def get_metadata_routing(self) -> Any:
        """A `MetadataRequest`: which arguments beside X and y the methods of this estimator want."""
        if hasattr(self, "_metadata_request"):
            return copy.deepcopy(self._metadata_request)
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        for method in self._routed:
            for name in self._arguments(method):
                getattr(request, method).add_request(param=name, alias=True if name in _WANTED else None)
        return request

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Says what pipelines and searches pass to `fit`: `set_fit_request(candidates=True)`.

        For each argument: True passes it, False does not, a text passes what goes by that name, and None
        refuses a call that has it.
        """
        return self._request("fit", requests)

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        routing = self.get_metadata_routing()
        for name, alias in requests.items():
            if name not in self._arguments(method):
                known = ", ".join(self._arguments(method))
                raise InputError(f"{method} has no argument {name!r} to be passed on: use {known}")
            getattr(routing, method).add_request(param=name, alias=alias)
        self._metadata_request = routing
        return self

    @classmethod
    def _arguments(cls, method: str) -> list[str]:
        return [name for name in inspect.signature(getattr(cls, method)).parameters if name not in _ALWAYS]
