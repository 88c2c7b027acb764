"""The registry of strategies: built-in ones, and `module:function`."""

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

from fwc_llm.errors import FwcError, check_type, did_you_mean, near
from fwc_llm.sanitize import Fields
from fwc_llm.shots.base import Request, Shots, Strategy
from fwc_llm.user_code import import_named


def strategies() -> tuple[str, ...]:
    """Return the names of the built-in strategies."""
    return BUILT_IN


# The places of built-in strategies.
_BUILT_IN = {
    "zero": "baselines:zero",
    "random": "baselines:uniform",
    "balanced": "baselines:balanced",
    "fwc": "coresets:fwc",
    "fwc-counter": "coresets:fwc_counter",
    "strata": "baselines:strata",
    "nearest": "coresets:nearest",
    "kmeans": "coresets:kmeans",
    "kmedoids": "coresets:kmedoids",
    "ids": "baselines:ids",
}
BUILT_IN = tuple(_BUILT_IN)
ONLY_BY_NAME = frozenset({"ids"})  # run only when named: it needs row ids

_F = TypeVar("_F", bound=Callable[..., Shots])


def find_strategy(name: str) -> Strategy:
    """The strategy `name`, which may be `module:function`."""
    if name in _BUILT_IN:
        return _load(name, f"fwc_llm.shots.{_BUILT_IN[name]}", import_module)
    if ":" in name:
        return _load(name, name, import_named)
    raise FwcError(
        f"unknown strategy {name!r} (your own: module:function){did_you_mean(name, strategies())}"
    )


def strategy(per_row: bool = False, **defaults: Any) -> Callable[[_F], Strategy]:
    """Turn `function(request, **options)` into a strategy.

    `defaults` are its options with default values; the function's annotations are their types.
    `per_row`: whether every queried row gets new examples. Other options and types are refused.
    """

    def decorate(function: _F) -> Strategy:
        types = {name: function.__annotations__.get(name) for name in defaults}

        def run(request: Request) -> Shots:
            for name, value in request.options.items():
                if name not in types:
                    takes = ", ".join(types) or "none"
                    of_request = [field.name for field in fields(Request)]
                    meant = near(name, [*types]) or near(name, of_request)
                    raise FwcError(
                        f"the strategy has no option {name!r}: it takes {takes}{meant}"
                    )
                check_type(value, types[name], name)
            return function(request, **(defaults | dict(request.options)))

        run.__name__, run.__doc__, run.__module__ = (
            function.__name__,
            function.__doc__,
            function.__module__,
        )
        run.per_row, run.options = per_row, types  # type: ignore[attr-defined]
        return run

    return decorate


def is_per_row(name: str) -> bool:
    """Whether the strategy chooses new examples for each queried row (its attribute `per_row`)."""
    return bool(getattr(find_strategy(name), "per_row", False))


def accepted_options(name: str) -> Fields | None:
    """The types of the strategy's options by name; None if a plugin does not declare them."""
    return cast("Fields | None", getattr(find_strategy(name), "options", None))


def _load(name: str, target: str, import_it: Callable[[str], ModuleType]) -> Strategy:
    module_name, _, attribute = target.partition(":")
    try:
        function = getattr(import_it(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise FwcError(
            f"strategy {name!r} cannot be loaded from {target!r}: {error}"
        ) from None
    if not callable(function) or isinstance(function, type):
        raise FwcError(
            f"strategy {name!r}: {target!r} is not a function from a Request to Shots"
        )
    return cast(Strategy, function)
