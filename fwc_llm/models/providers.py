"""Models of other packages, found by the entry points that these declare (docs/providers.md)."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Model
from fwc_llm.models.client import Client
from fwc_llm.models.functions import PREFIX, as_model
from fwc_llm.models.returned import kind, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "fwc_llm.models"
OURS = frozenset({"surrogate", "baseline", "azure", "inspect", "python", "gguf", "smollm2"})

Provider: TypeAlias = Callable[[str, Client], Model]


def provided_model(name: str, client: Client, notice: Callable[[str], None] | None = None) -> Model | None:
    """The model that an installed package provides for `name`; None where no package has it.

    A package provides the names that equal its entry point's, or begin with it and a colon. Names of ours
    stay ours, which is said.

    Errors: `FwcError` for two packages with one name, an entry point that cannot be loaded, a provider that
    fails, and one that gives no model of that name.
    """
    prefix = name.partition(":")[0]
    found = [point for point in _entry_points() if point.name == prefix]
    if not found:
        return None
    if prefix in OURS:
        if notice is not None:
            notice(
                f"{_package(found[0])} offers a model {prefix!r}, which is a name of ours: it is not asked"
            )
        return None
    if len(found) > 1:
        raise FwcError(
            f"several packages offer a model {prefix!r} ({', '.join(map(_package, found))}): uninstall all "
            "but one"
        )
    point = found[0]
    where = f"the model {prefix!r} of {_package(point)}, entry point {point.value!r},"
    provider = _called(f"{where} cannot be loaded", point.load)
    if not callable(provider) or isinstance(provider, type):
        raise FwcError(f"{where} is no function of a name and a Client that returns a model")
    model = _called(f"{where} cannot be opened", lambda: provider(name, client))
    if not isinstance(model, Model) or isinstance(model, type):
        raise FwcError(f"{where} gave {kind(model)}, which lacks members of fwc_llm.Model")
    if model.name != name:
        raise FwcError(f"{where} gave a model called {str(model.name)[:100]!r} for {name!r}: they must agree")
    return model


def imported_model(name: str, timeout: float) -> Model:
    """The model, or the function as a model, that `python:MODULE:NAME` names.

    Errors: `FwcError` for a module that cannot be imported and what is no model.
    """
    module_name, _, path = name.removeprefix(PREFIX).partition(":")
    if not module_name or not path:
        raise FwcError(f"{name!r} names no function: write {PREFIX}module:function")
    found: Any = _called(f"{name!r} cannot be imported", lambda: import_module(module_name))
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise FwcError(f"{name!r} cannot be found: {module_name} has no {path}")
        found = getattr(found, attribute)
    model: Model = as_model(found, timeout=timeout)
    return model


def _entry_points() -> "list[EntryPoint]":
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINTS))


def _package(point: "EntryPoint") -> str:
    dist = point.dist
    return "an installed package" if dist is None else f"{dist.metadata['Name']} {dist.version}"


def _called(what: str, call: Callable[[], Any]) -> Any:
    """The value of others' code; whatever it raises is an error that says where."""
    try:
        return call()
    except FwcError:
        raise
    except Exception as error:
        raise FwcError(f"{what}: {one_line(f'{type(error).__name__}: {error}')}") from None
