"""Models of other packages, found by their entry points, and functions named by their module.

docs/providers.md says how to write one.
"""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Model
from fwc_llm.models.client import Client
from fwc_llm.models.functions import PREFIX, as_model
from fwc_llm.sanitize import as_single_line

ENTRY_POINTS = "fwc_llm.models"
OURS = ("azure:", "baseline", "gguf:", "inspect:", "python:", "replay:", "smollm2", "surrogate")


def provided_model(name: str, client: Client) -> Model | None:
    """The model that an installed package provides for `name`; None where no package has it.

    A package provides the names that equal its entry point's, or begin with it and a colon. `OURS` stay ours.

    Errors: `FwcError` for an entry point that cannot be loaded, a provider that fails, and one that gives no
    model of that name.
    """
    prefix = name.partition(":")[0]
    built_in = prefix in OURS or f"{prefix}:" in OURS
    points = [] if built_in else list(entry_points(group=ENTRY_POINTS, name=prefix))
    if not points:
        return None
    where = f"the model {prefix!r} of {_package(points[0])}, entry point {points[0].value!r},"
    provider = _run(f"{where} cannot be loaded", points[0].load)
    model = _run(f"{where} cannot be opened", lambda: provider(name, client))
    if not isinstance(model, Model) or model.name != name:
        raise FwcError(f"{where} gave no fwc_llm.Model called {name!r}")
    return model


def imported_model(name: str, timeout: float) -> Model:
    """The model, or the function as a model, that `python:MODULE:NAME` names.

    Errors: `FwcError` for a module that cannot be imported or an object that is not a model.
    """
    module_name, _, path = name.removeprefix(PREFIX).partition(":")
    if not module_name or not path:
        raise FwcError(f"{name!r} names no function: write {PREFIX}module:function")
    module = _run(f"{name!r} cannot be imported", lambda: import_module(module_name))
    try:
        value = attrgetter(path)(module)
    except AttributeError:
        raise FwcError(f"{name!r} cannot be found: {module_name} has no {path}") from None
    return as_model(value, timeout=timeout)


def _package(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _run(what: str, call: Callable[[], Any]) -> Any:
    """The value of others' code. What it raises is an error that says where; what it prints is no output."""
    try:
        with redirect_stdout(sys.stderr):
            return call()
    except FwcError:
        raise
    except (Exception, SystemExit) as error:
        raise FwcError(f"{what}: {as_single_line(f'{type(error).__name__}: {error}')}") from None
