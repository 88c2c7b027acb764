"""Notices: what no error says and somebody should know; and how messages name options.

The library gives notices as `warnings` of the categories below, and facts by `logging` (logger
"fwc_llm"). The command line prints both. Messages are written with the flags of the command line;
`spoken` turns them into arguments in Python, and into --set in a command without the flag.
"""

import logging
import re
import sys
import warnings
from ast import literal_eval
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from shlex import quote
from typing import Any, NamedTuple, TypeAlias

from fwc_llm.sanitize import redact, replace_invisible

LOG = logging.getLogger("fwc_llm")
Say: TypeAlias = Callable[[str], None]


class FwcWarning(UserWarning):
    """A notice of this package; base of all categories."""


class DataWarning(FwcWarning):
    """A table was read in a way that its owner may not expect."""


class RunWarning(FwcWarning):
    """A run differs from what was asked for, or lacks replies or answers."""


class ScaleWarning(FwcWarning):
    """Columns of an array differ so much in scale that few columns decide the distances."""


class SampleWarning(FwcWarning):
    """The sample of a table in blocks lacks rows that contribute much to the objective."""


# Flags whose arguments in Python have other names, and flags without a value.
ARGUMENTS = {"option": "strategy_options", "param": "params", "shots": "arms"}
SWITCHES = (
    "allow_changed_data",
    "assist",
    "batch",
    "cancel_batch",
    "counterfactual",
    "finish_live",
    "force",
    "logprobs",
    "no_watch",
    "strict",
)
_WORDS = (
    "none|json|word|auto|chat|decisions|systemone|fit|base-rate|as-no|default|surrogate"
)
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUE = rf"[\d.]*\d\b|{_WORDS}|[A-Z]{{3,}}\b|{_QUOTED}|[^\s:;,']*/[^\s:;,']*"
_SETTING = re.compile(r"--set (')?(\w+)=((?(1)[^']+|[\w.-]+))(?(1)')")
_PARAMETER = re.compile(r"--param ([\w.]+)(?:=(\w+|…))?")
_FLAG = re.compile(
    r"(?P<command>`[^`]*`)|(?<!install )--(?P<name>[a-z](?:[a-z\d-]*[a-z\d])?)"
    rf"(?:[ =](?P<value>{_VALUE}))?"
)
# Returns the options that the running command takes by --set alone; None in Python.
_without_flag: ContextVar[Callable[[], Collection[str]] | None] = ContextVar(
    "without_flag", default=None
)


def spoken(text: str) -> str:
    """A message with options as the caller writes them: `--epsilon 0`, `--set epsilon=0`, or
    `epsilon=0` in Python.
    """
    without_flag = _without_flag.get()
    if without_flag is not None:
        return _FLAG.sub(partial(_in_command, without_flag()), text)
    text = _SETTING.sub(_setting, text.replace("the same command", "the same call"))
    return _FLAG.sub(_argument, _PARAMETER.sub(_parameter, text))


def _in_command(without_flag: Collection[str], flag: re.Match[str]) -> str:
    name = (flag["name"] or "").replace("-", "_")
    value = flag["value"] or ""
    if name in without_flag:
        usual = "true" if name in SWITCHES else "…"
        return f"--set {name}={value or usual}"
    if value[:1] in ("'", '"'):
        return flag[0].replace(value, quote(literal_eval(value)))
    return flag[0]


def _setting(flag: re.Match[str]) -> str:
    return f"{flag[2]}={True if flag[3] == 'true' else flag[3]!r}"


def _parameter(flag: re.Match[str]) -> str:
    return f"params[{flag[1]!r}]{'' if flag[2] is None else f' = {flag[2]!r}'}"


def _argument(flag: re.Match[str]) -> str:
    if flag["command"]:
        return flag[0]
    name = ARGUMENTS.get(flag["name"], flag["name"].replace("-", "_"))
    value = flag["value"]
    if value is None:
        return f"{name}=True" if name in SWITCHES else name
    if value == "none":
        return f"{name}=None"
    if value[0] in ("'", '"'):
        goes_on = flag.string.startswith(" --", flag.end())
        return f"{name}={value}{',' * goes_on}"
    if value[0].isdigit() or value[0].isupper():
        return f"{name}={value}"
    return f"{name}={value!r}"


class Place(NamedTuple):
    """A line of code, as `warnings.warn_explicit` takes it."""

    filename: str
    lineno: int
    module: str
    registry: dict[Any, Any]


_place: ContextVar[Place | None] = ContextVar("place", default=None)


def tell(text: str, category: type[FwcWarning] = RunWarning) -> None:
    """Give a notice to whoever called the package."""
    place = _place.get() or outside()
    warnings.warn_explicit(redact(replace_invisible(spoken(text))), category, *place)


def outside() -> Place:
    """The line that called the package."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("fwc_llm."):
        frame = frame.f_back
    variables = frame.f_globals
    registry = variables.setdefault("__warningregistry__", {})
    name = variables.get("__name__", "?")
    return Place(frame.f_code.co_filename, frame.f_lineno, name, registry)


def context_of_caller() -> Context:
    """A copy of the context for another thread or loop, where notices name the caller's line."""
    context = copy_context()
    if _place.get() is None:
        context.run(_place.set, outside())
    return context


@contextmanager
def to_command_line(
    show: Say, without_flag: Callable[[], Collection[str]] = tuple
) -> Iterator[None]:
    """Within the block messages name flags, and `show` prints notices, each once.

    `without_flag` returns the options that the running command takes by --set alone.
    """
    seen = set[str]()
    token = _without_flag.set(without_flag)
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def print_notice(
            message: Warning | str, category: type[Warning], *location: object
        ) -> None:
            if not issubclass(category, FwcWarning):
                usual(message, category, *location)  # type: ignore[arg-type]
            elif str(message) not in seen:
                seen.add(str(message))
                show(str(message))

        warnings.simplefilter("always", FwcWarning)
        warnings.showwarning = print_notice  # type: ignore[assignment]
        handler = logging.Handler()
        handler.emit = lambda record: show(record.getMessage())  # type: ignore[method-assign]
        LOG.addHandler(handler)
        try:
            yield
        finally:
            LOG.removeHandler(handler)
            _without_flag.reset(token)
