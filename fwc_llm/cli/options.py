"""What commands share: flags made from models, their help, completion, lists, examples, `--json`."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from typer.core import HAS_RICH, TyperCommand, TyperGroup
from typer.models import ArgumentInfo, ParameterInfo

from fwc_llm.errors import FwcError
from fwc_llm.options import SERVICE, Options, default_words, extended, facts_of
from fwc_llm.untrusted import parse_json

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from fwc_llm.tasks import Task

_F = TypeVar("_F", bound=Callable[..., Any])
_O = TypeVar("_O", bound=Options)
ARMS = "zero,balanced,fwc"
TASK_HELP = (
    "A built-in task (`fwc-llm tasks`) or a task file (.toml). [default: adult, or the simulated census "
    "where adult's data is not on this machine]"
)
PROTECTED_HELP = (
    "Which of the task's attributes are protected, comma-separated: those are crossed (`fwc-llm tasks` lists "
    "what a task offers). [default: the task's own choice]"
)
Json = Annotated[
    bool, typer.Option("--json", help="Print everything as one JSON document; notes go to standard error.")
]
EXAMPLES: dict[str, tuple[str, ...]] = {
    "eval": (
        "fwc-llm eval",
        "fwc-llm eval --model gpt-6-luna --shots zero,balanced,fwc --repeats 5 --dry-run",
        "fwc-llm eval --task my.toml --model smollm2 --shots zero,fwc --out runs/mine",
        "fwc-llm eval experiment.toml --json",
    ),
    "shots": (
        "fwc-llm shots --strategy fwc --m 16 -o shots.json",
        "fwc-llm shots --task census --compare",
    ),
    "tune": ("fwc-llm tune --task adult --model gpt-6-luna --target-dp 0.1 --max-loss 3 --out runs/tuned",),
    "prompt": ("fwc-llm prompt --task census --shots balanced --row 3",),
    "tasks": ("fwc-llm tasks", "fwc-llm tasks --json"),
    "power": ("fwc-llm power --task adult --n-test 200 --repeats 5 --detect 0.1",),
    "runs": ("fwc-llm runs", "fwc-llm runs archive --json"),
    "report": ("fwc-llm report runs/luna", "fwc-llm report runs/luna runs/mini -o both.md"),
    "compare": ("fwc-llm compare runs/luna runs/mini",),
    "audit": (
        "fwc-llm audit predictions.csv --answer said --label was --protected sex,race",
        "fwc-llm audit scored.parquet --p-yes p --label was --protected sex --report audit.html",
    ),
    "gate": ('fwc-llm gate runs/luna --fail-if "dp[fwc] > 0.1" --junit gates.xml',),
    "rescore": ("fwc-llm rescore runs/luna",),
    "serve-surrogate": ("fwc-llm serve-surrogate --port 8000",),
    "warm-up": ("fwc-llm warm-up",),
    "doctor": ("fwc-llm doctor", "fwc-llm doctor --base-url http://127.0.0.1:8000/v1"),
    "task init": ("fwc-llm task init data.csv --protected sex --outcome income",),
    "task check": ("fwc-llm task check data.toml",),
    "task copy": ("fwc-llm task copy adult -o mine.toml",),
    "template init": ("fwc-llm template init wording --from paper",),
}
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
    elif type(None) not in kinds or not facts_of(field)["none"]:
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
        elif isinstance(value, str) and value.strip().lower() == "none" and facts_of(field)["none"]:
            value = None if type(None) in get_args(field.annotation) else value
        found[name] = value
    return model(**found | others)


def words(text: str | None) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def read_pairs(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """The pairs that `flag` was given: a value that is JSON is read as such, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise FwcError(f"a {flag} is not KEY=VALUE")  # it may be a key: it is not repeated
        try:
            found[key] = parse_json(value, strict=True)
        except ValueError as error:
            if value[:1] in {"{", "["} and "nested" in str(error):
                raise FwcError(f"{flag} {key}: its value cannot be sent: {error}") from None
            found[key] = value
    return found


def open_task(
    name: str | None,
    data_dir: Path | None,
    protected: str | None = None,
    weight: str | None = None,
    data: str | None = None,
) -> "Task":
    """The task called `name`, else the default of every command; says when the census stands in.

    `weight` is the column that says for how many a row stands, "none" for none; None: as the task says.
    `data` are files that take the place of those of the task.
    """
    from fwc_llm.cli.console import err
    from fwc_llm.tasks import default_task, load_task

    column = "" if weight == "none" else weight
    if name is not None:
        return load_task(name, data_dir, protected=protected, weight=column, data=data)
    if data is not None:
        raise FwcError("--data names the rows of a task: name the task too, with --task")
    task = default_task(data_dir)
    if protected is not None or column is not None:
        task = load_task(task.name, data_dir, protected=protected, weight=column)
    if task.simulated:
        err.print(
            "adult's data is not on this machine: the simulated census stands in (--task adult downloads it)",
            soft_wrap=True,
        )
    return task


def print_json(document: Mapping[str, Any]) -> None:
    """Print the document; what is no number (NaN, infinity) is null."""
    import json

    from fwc_llm.cli.console import write
    from fwc_llm.metrics.statistics import plain

    write(json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n", is_json=True)


def epilog(command: str) -> str:
    """The end of a command's help: one line an example, its brackets as text and not as markup."""
    lines = (line.replace("[", r"\[") for line in EXAMPLES[command])
    return "\n\n".join(("Examples:" if len(EXAMPLES[command]) > 1 else "Example:", *lines))


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
