"""Helpers of commands: flags from option models, completion, lists, JSON."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import typer

from fwc_llm.cli.console import notes, write
from fwc_llm.cli.program import EVERYDAY, GROUPS, IN_FILES, PANELS, Command
from fwc_llm.errors import FwcError
from fwc_llm.files import json_text
from fwc_llm.options import (
    COST,
    EXPERIMENT,
    OUTPUT,
    SERVICE,
    Options,
    default_words,
    extended,
    facts_of,
)
from fwc_llm.sanitize import Fields, Json, parse_json

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from fwc_llm.tasks import Task

_F = TypeVar("_F", bound=Callable[..., Any])
_O = TypeVar("_O", bound=Options)
ARMS = "zero,balanced,fwc"


def option(
    help: str, *names: str, default: Any = None, panel: str | None = None, **others: Any
) -> Any:
    """Declare an option, as a parameter's default value; required if `default` is `...`."""
    return typer.Option(
        default, *names, help=_as_text(help), rich_help_panel=panel, **others
    )


def switch(help: str, *names: str, panel: str | None = None) -> Any:
    """Declare a boolean option, off by default."""
    return option(help, *names, default=False, panel=panel, show_default=False)


def argument(help: str, default: Any = ..., **others: Any) -> Any:
    """Declare a positional argument, which is required unless `default` is given."""
    return typer.Argument(default, help=_as_text(help), **others)


def _as_text(help: str) -> str:
    """The help with opening brackets escaped, which rich would read as markup."""
    return help.replace("[", r"\[")


# Options that commands share; their help has the default.
TASK: str | None = option(
    "A built-in task (`fwc-llm tasks`) or a task file (.toml). [default: adult, or the simulated "
    "census "
    "where adult's data is not on this machine]",
    panel=EXPERIMENT,
)
PROTECTED: str | None = option(
    "Protected attributes, comma-separated and crossed (see `fwc-llm tasks`). "
    "[default: the task's own choice]",
    panel=EXPERIMENT,
)
DATA_DIR: Path | None = option(
    "Folder with the data. [default: $FWC_LLM_DATA, the cache, then the UCI repository]",
    panel=EXPERIMENT,
)
ALLOW_CHANGED: bool = switch(
    "Accept saved examples although the table has changed.",
    "--allow-changed-data",
    panel=EXPERIMENT,
)
DRY_RUN: bool = switch(
    "Print the number of requests and their cost in dollars; send none.",
    "--dry-run",
    panel=COST,
)
NO_ROWS: bool = switch(
    "Leave rows, prompts and replies out of reports.", "--no-rows", panel=OUTPUT
)
FIGURES: Path | None = option(
    "Folder to write the figure to, as SVG and PDF (extra [plot]).",
    panel=OUTPUT,
    metavar="DIR",
)
FORCE: bool = switch("Overwrite the files that are written.", "--force", panel=OUTPUT)
JSON: bool = switch(
    "Print one JSON document; notes go to standard error.", "--json", panel=OUTPUT
)
VERBOSE: bool = switch("Print every table and note.", "--verbose", "-v", panel=OUTPUT)
APPENDIX: bool = switch(
    "Expand all sections of the HTML report when printed on paper.",
    "--appendix",
    panel=OUTPUT,
)
CANCEL_BATCH: bool = switch(
    "Cancel the folder's pending batches and send their requests live. [default: wait]",
    "--cancel-batch",
    panel=SERVICE,
)
EXAMPLES = {
    "eval": "fwc-llm eval --task my.toml --model smollm2 --shots zero,balanced,fwc --out runs/mine",
    "shots": "fwc-llm shots --strategy fwc --m 16 -o shots.json",
    "tune": "fwc-llm tune --task adult --model gpt-6-luna --target-dp 0.1 --max-loss 3 --out "
    "runs/tuned",
    "prompt": "fwc-llm prompt --task census --shots balanced --row 3",
    "tasks": "fwc-llm tasks --json",
    "power": "fwc-llm power --task adult --n-test 200 --repeats 5 --detect 0.1",
    "report": "fwc-llm report runs/luna runs/mini -o both.md",
    "compare": "fwc-llm compare runs/luna runs/mini",
    "audit": "fwc-llm audit predictions.csv --answer said --label was --protected sex,race",
    "gate": 'fwc-llm gate runs/luna --fail-if "dp_gap[fwc] > 0.1" --junit gates.xml',
    "monitor": "fwc-llm monitor decisions.parquet --answer approved --protected sex --key id "
    "--state s.db "
    '--fail-if "dp_gap > 0.1"',
    "rescore": "fwc-llm rescore runs/luna",
    "verify": "fwc-llm verify runs/luna",
    "warm-up": "fwc-llm warm-up",
    "task init": "fwc-llm task init data.csv --protected sex --outcome income",
    "task check": "fwc-llm task check data.toml",
    "task copy": "fwc-llm task copy adult -o mine.toml",
    "task freeze": "fwc-llm task freeze my.toml -o task.json",
    "template init": "fwc-llm template init wording --from paper",
}


def command(
    name: str,
    *models: type[Options],
    names: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Callable[[_F], _F]:
    """Decorator: register a command such as "task init", with flags as in `takes`."""

    def register(function: _F) -> _F:
        takes(function, *models, names=names, without=without)
        IN_FILES[name] = frozenset(without)
        group, _, last = name.rpartition(" ")
        text = _as_text(inspect.getdoc(function) or "")
        epilog = f"Example:\n\n{_as_text(EXAMPLES[name])}"
        if name in EVERYDAY:
            epilog += f"\n\n`fwc-llm {name} --help-all` shows every option."
        panel = PANELS.get(name)
        registered = GROUPS[group].command(
            last, cls=Command, help=text, epilog=epilog, rich_help_panel=panel
        )
        registered(function)
        return function

    return register


def takes(
    function: _F,
    *models: type[Options],
    names: Sequence[str] = (),
    without: Sequence[str] = (),
) -> _F:
    """Flags for the fields of `models` replace a command's `**options`.

    `names`, if any, are the fields of the first model that become flags; fields in `without` become
    none. `read` converts the flags to models.
    """
    flags = [
        _flag(name, field)
        for model in models
        for name, field in model.model_fields.items()
        if facts_of(field)["flag"] != ""
        and name not in without
        and (not names or name in names or model is not models[0])
    ]
    return extended(function, flags)


def flag_names(names: Sequence[str], *models: type[Options]) -> set[str]:
    """The names of fields on the command line and in experiment files."""
    return {
        facts_of(field)["flag"] or name
        for model in models
        for name, field in model.model_fields.items()
        if name in names
    }


def _flag(name: str, field: "FieldInfo") -> inspect.Parameter:
    """A field as a command's parameter; the word `none` can be its value."""
    kinds = {field.annotation, *get_args(field.annotation)}
    kind: Any = str
    help = f"{field.description}{default_words(field)}"
    choices = [one for one in kinds if get_origin(one) is Literal]
    if get_origin(field.annotation) is Mapping:
        kind = list[str]
        help += " As KEY=VALUE; repeatable."
    elif choices:
        (kind,) = choices
    elif type(None) not in kinds or not facts_of(field)["none"]:
        kind = next(
            (kind for kind in (bool, int, float) if kind in kinds and str not in kinds),
            str,
        )
    name = facts_of(field)["flag"] or name
    declared = option(
        help,
        f"--{name.replace('_', '-')}",
        default=... if field.is_required() else None,
        panel=facts_of(field)["panel"] or None,
        show_default=False,
        metavar=facts_of(field)["metavar"],
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=kind | None
    )


def read(model: type[_O], options: Fields, **others: Any) -> _O:
    """Convert flags, or values of an experiment file, to an options model.

    `others` are further values by field.
    """
    values: Json = {}
    for name, field in model.model_fields.items():
        flag = facts_of(field)["flag"] or name
        value = options.get(flag)
        if value is None:
            continue
        kind = get_origin(field.annotation)
        if kind is Mapping and isinstance(value, list):
            value = read_pairs(value, f"--{flag}")
        elif kind is tuple and isinstance(value, str):
            value = words(value)
        values[name] = value
    return model(**values | others)


def given(options: Fields) -> Json:
    """The flags that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def words(text: str | None) -> tuple[str, ...]:
    """The words of a comma-separated list; double quotes enclose a word with a comma."""
    found = re.findall(r'\s*"([^"]+)"\s*(?:,|$)|([^,]+)', text or "")
    return tuple(word.strip() for pair in found if (word := "".join(pair)).strip())


def read_pairs(pairs: list[str] | None, flag: str) -> Json:
    """Parse the pairs of `flag`: values are JSON if valid, else text."""
    by_name: Json = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise FwcError(
                f"a {flag} is not KEY=VALUE"
            )  # does not repeat the text, which may be an API key
        try:
            by_name[key] = parse_json(value, strict=True)
        except ValueError as error:
            if value[:1] in {"{", "["} and "nested" in str(error):
                raise FwcError(
                    f"{flag} {key}: its value cannot be sent: {error}"
                ) from None
            by_name[key] = value
    return by_name


def open_task(
    name: str | None,
    data_dir: Path | None,
    protected: str | None = None,
    weight: str | None = None,
) -> "Task":
    """Load a task, by default the default one; the weight "none" means no weights."""
    from fwc_llm.tasks import default_task, load_task

    if name is None:
        task = default_task(data_dir)
        name = task.name
        if task.simulated:
            missing = "adult's data is not on this machine"
            notes(
                f"{missing}: the simulated census is used instead (--task adult downloads adult's "
                f"data)"
            )
    column = "" if weight == "none" else weight
    return load_task(name, data_dir, protected=protected, weight=column)


def print_json(document: Fields) -> None:
    """Print a document as JSON; NaN and infinities become null."""
    from fwc_llm.metrics.counts import plain

    write(json_text(plain(document)), is_json=True)
