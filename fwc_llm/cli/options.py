"""What all options have in common: how help shows them, and what the shell completes."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import HAS_RICH, TyperCommand, TyperGroup
from typer.models import ArgumentInfo, ParameterInfo

from fwc_llm.cli.pairs import read_pairs
from fwc_llm.cli.words import words
from fwc_llm.options import SERVICE, Options, default_words, extended, facts_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_F = TypeVar("_F", bound=Callable[..., Any])
_O = TypeVar("_O", bound=Options)
_PAIRS = {"option", "param"}  # KEY=VALUE, whatever their type


def tasks(incomplete: str) -> Iterator[str]:
    """The built-in tasks, and the task files here."""
    from fwc_llm.tasks import task_names

    yield from _matching([*task_names(), *_files("*.toml")], incomplete)


def copied(incomplete: str) -> Iterator[str]:
    """The tasks whose file can be copied."""
    from fwc_llm.tasks import layout_names, task_names

    yield from _matching([*(name for name in task_names() if name != "census"), *layout_names()], incomplete)


def strategies(incomplete: str) -> Iterator[str]:
    """The next strategy of a list, or a file of saved shots."""
    from fwc_llm.shots.registry import strategies as all_strategies

    yield from _next_of([*all_strategies(), *_files("*.json")], incomplete)


def models(incomplete: str) -> Iterator[str]:
    """The next model of a list: those of this process, of installed packages, and those with a price."""
    from datetime import date
    from importlib.metadata import entry_points

    from fwc_llm.models.openai.prices import ending_of, priced
    from fwc_llm.models.providers import ENTRY_POINTS, OURS

    prefixes = {"azure", "gguf", "inspect", "python"}
    ours = (f"{name}:" if name in prefixes else name for name in sorted(OURS))
    others = sorted(point.name for point in entry_points(group=ENTRY_POINTS) if point.name not in OURS)
    today = date.today()
    sold = (name for name in priced() if (end := ending_of(name)) is None or not end.soon(today))
    yield from _next_of([*ours, *others, *sold], incomplete)


def templates(incomplete: str) -> Iterator[str]:
    """The template sets that come with the package."""
    from fwc_llm.resources import resource_dir

    folders = (path.name for path in resource_dir("prompts").iterdir() if path.is_dir())
    yield from _matching(sorted(folders), incomplete)


def orders(incomplete: str) -> Iterator[str]:
    """The next order of a list."""
    yield from _next_of(("alternate", "random", "by-weight", "given"), incomplete)


def formats(incomplete: str) -> Iterator[str]:
    """The formats of a report."""
    from fwc_llm.report.write import FORMATS

    yield from _matching(FORMATS, incomplete)


def experiments(incomplete: str) -> Iterator[str]:
    """The TOML files here."""
    yield from _matching(_files("*.toml"), incomplete)


CancelBatch = Annotated[
    bool,
    typer.Option(
        "--cancel-batch",
        help="Cancel the folder's batches that are under way and ask their open questions live. [default: "
        "wait for them]",
        rich_help_panel=SERVICE,
    ),
]
_COMPLETED: dict[str, Callable[[str], Iterator[str]]] = {
    "experiment": experiments,
    "task": tasks,
    "shots": strategies,
    "strategy": strategies,
    "template": templates,
    "order": orders,
    "format": formats,
    "weights": lambda incomplete: _matching(("show", "hide"), incomplete),
    "redraw": lambda incomplete: _matching(("once", "per-row"), incomplete),
    "api": lambda incomplete: _matching(("chat", "decisions", "systemone"), incomplete),
    "model": models,
    "undecided": lambda incomplete: _matching(("fail", "pass"), incomplete),
}


def shown(command: _F) -> _F:
    """Prepare the options of a command's function for help and completion; return the function.

    Placeholders are in upper case, square brackets in help are text and not markup, and the shell completes
    what `_COMPLETED` knows by an option's name.
    """
    for name, parameter in inspect.signature(command).parameters.items():
        for note in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(note, ParameterInfo):
                kind = None if isinstance(note, ArgumentInfo) else parameter.annotation.__origin__
                note.metavar = note.metavar or _placeholder(name, kind)
                if HAS_RICH and note.help:
                    note.help = re.sub(r"(?<!\\)\[", r"\[", note.help)  # commands share options
                if name in _COMPLETED and note.autocompletion is None:
                    note.autocompletion = _COMPLETED[name]
    return command


def _placeholder(name: str, kind: Any) -> str:
    kinds = {kind, *get_args(kind)}
    if bool in kinds:
        return ""
    if list[str] in kinds and name in _PAIRS:
        return "KEY=VALUE"
    known = (word for one, word in ((int, "N"), (float, "X"), (Path, "PATH")) if one in kinds)
    return next(known, name.upper().replace("_", "-"))


def _matching(words: Iterable[str], incomplete: str) -> Iterator[str]:
    return (word for word in words if word.startswith(incomplete))


def _next_of(words: Iterable[str], incomplete: str) -> Iterator[str]:
    """Complete the last word of a comma-separated list; what is in the list is not offered again."""
    begun, comma, last = incomplete.rpartition(",")
    taken = set(begun.split(","))
    return (f"{begun}{comma}{word}" for word in _matching(words, last) if word not in taken)


def _files(pattern: str) -> list[str]:
    return sorted(path.name for path in Path().glob(pattern))


def takes(*models: type[Options], names: Sequence[str] = ()) -> Callable[[_F], _F]:
    """Give a command with `**options` a flag for every field of the models, or for those with these `names`.

    `read` makes the models' values of what the command then gets.
    """

    def decorate(command: _F) -> _F:
        flags = [
            _flag(name, field)
            for model in models
            for name, field in model.model_fields.items()
            if facts_of(field)["flag"] != "" and (not names or name in names or model is not models[0])
        ]
        return extended(command, flags)

    return decorate


def _flag(name: str, field: "FieldInfo") -> inspect.Parameter:
    """A field as a parameter of a command. Not given it is None; a word for no value is `none`."""
    kinds = {field.annotation, *get_args(field.annotation)}
    kind: Any = str
    if get_origin(field.annotation) is Mapping:
        kind = list[str]
    elif type(None) not in kinds or field.default is None:
        kind = next(
            (kind for kind in (bool, Path, int, float) if kind in kinds and not kinds & {str} - {kind}), str
        )
    flag = facts_of(field)["flag"] or name
    info = typer.Option(
        f"--{flag.replace('_', '-')}",
        help=f"{field.description}{default_words(field)}",
        rich_help_panel=facts_of(field)["panel"],
        show_default=False,
    )
    return inspect.Parameter(
        flag, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )


def read(model: type[_O], options: Mapping[str, Any], **others: Any) -> _O:
    """Return the value of a model that flags give, with `others` by their fields' names.

    Errors: `FwcError` for a flag's value that makes no sense.
    """
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        flag = facts_of(field)["flag"] or name
        value = options.get(flag)
        if value is None:
            continue
        if isinstance(value, list):
            value = read_pairs(value, f"--{flag}")
        elif get_origin(field.annotation) is tuple:
            value = words(value)
        elif isinstance(value, str) and value.strip().lower() == "none" and field.default is not None:
            value = None if type(None) in get_args(field.annotation) else value
        found[name] = value
    return model(**found | others)


class _Plain:
    """Help in which a flag, `--help` itself included, has no placeholder."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, ready to be shown."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in params:
            if one.metavar is None and getattr(one, "is_flag", False):
                one.metavar = ""
        return params


class Command(_Plain, TyperCommand):
    """A command."""


class Group(_Plain, TyperGroup):
    """A command that has commands."""
