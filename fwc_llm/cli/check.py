"""`fwc-llm task check`: what a task makes of its table, before anything is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.as_json import Json, print_json
from fwc_llm.cli.defaults import PROTECTED_HELP

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_FEW = 30  # rows of a group, below which its rates say little


def check(
    task: Annotated[str, typer.Argument(help="A task file (.toml), or a built-in task.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Look for data here first.", show_default=False)
    ] = None,
    protected: Annotated[str | None, typer.Option(help=PROTECTED_HELP)] = None,
    template: Annotated[str, typer.Option(help="Template set whose prompts are shown.")] = "default",
    as_json: Json = False,
) -> None:
    """Show the rows kept and lost, groups, answers and two rows as prompts show them; say what is refused."""
    from rich.text import Text

    from fwc_llm.cli.console import out, working
    from fwc_llm.report.lost import lost_lines, lost_table
    from fwc_llm.tasks import load_task

    found = load_task(task, data_dir, protected=protected)
    with working("reading the table"):
        found.pool()
    if as_json:
        print_json(_as_json(found, template))
        return
    out.print(Text(f"{found.name}: {found.title}", style="bold"))
    for note in found.notes:
        out.print(Text(f"  {note}"), soft_wrap=True)
    rows = found.rows.as_json() if found.rows else None
    if rows and rows["lost"]:
        out.print(Text("Rows lost, by group and reason", style="bold"))
        out.print(_listing(*lost_table(rows)))
        for line in lost_lines(rows)[1:]:
            out.print(Text(f"  {line}"), soft_wrap=True)
    out.print(Text(f"Groups by {' & '.join(found.protected)}, and answers by {found.outcome}", style="bold"))
    out.print(_listing(["group", "rows", "no", "yes", "yes %"], list(_cells(found))))
    sample = f", in a sample of {len(found.whole.sample):,} rows" if found.whole else ""
    out.print(Text(f"Columns{sample}", style="bold"))
    for line in _columns(found):
        out.print(Text(f"  {line}"), soft_wrap=True)
    out.print(Text("Two rows as a prompt shows them", style="bold"))
    for line in _shown(found, template):
        out.print(Text(f"  {line}"), soft_wrap=True)
    out.print(Text("What to know, and what will be refused", style="bold"))
    for line in _findings(found):
        out.print(Text(f"  {line}"), soft_wrap=True)


def _as_json(task: "Task", template: str) -> dict[str, Any]:
    names = ("group", "rows", "no", "yes")
    return {
        "format": "fwc-llm-task-check/1",
        "task": task.name,
        "title": task.title,
        "notes": list(task.notes),
        "rows": task.rows.as_json() if task.rows else None,
        "protected": list(task.protected),
        "outcome": task.outcome,
        "groups": [dict(zip(names, counts, strict=True)) for counts in _counts(task)],
        "columns": list(_columns(task)),
        "prompts": list(_shown(task, template)),
        "findings": list(_findings(task)),
    }


def _listing(headings: list[str], body: list[list[str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    listing = Table(box=None, padding=(0, 2), header_style="bold")
    for place, heading in enumerate(headings):
        listing.add_column(Text(heading), justify="right" if place else "left")
    for row in body:
        listing.add_row(*map(Text, row))
    return listing


def _counts(task: "Task") -> Iterator[tuple[str, int, int, int]]:
    """Every group with its rows, and those of them whose answer is no and yes."""
    for group, (no, yes) in zip(task.groups, task.cells_of(task.table).tolist(), strict=True):
        yield group, no + yes, no, yes


def _cells(task: "Task") -> Iterator[list[str]]:
    for group, rows, no, yes in _counts(task):
        yield [group, f"{rows:,}", f"{no:,}", f"{yes:,}", f"{100 * yes / rows:.1f}"]


def _columns(task: "Task") -> Iterator[str]:
    from fwc_llm.taskfile import parse_taskfile

    table = task.table
    for column in task.features:
        values = table[column.name]
        if column.kind == "numeric":
            said = f"{values.min():,.10g} to {values.max():,.10g}, median {values.median():,.10g}"
        else:
            counts = values.value_counts()
            said = ", ".join(
                f"{' '.join(str(value).split())} ({count:,})" for value, count in counts.head(6).items()
            )
            said += f" and {len(counts) - 6:,} more" if len(counts) > 6 else ""
        yield f"{column.name} ({column.kind}): {said}"
    if task.text:
        fields = parse_taskfile(task.text, Path(f"{task.name}.toml")).fields
        used = {column.name for column in task.columns}
        if left_out := [item.name for item in fields if item.use != "column" and item.name not in used]:
            yield f"left out: {', '.join(left_out)}"


def _shown(task: "Task", template: str) -> Iterator[str]:
    from fwc_llm.prompts import Prompt
    from fwc_llm.runs.plan import rows_of

    yield f"Question: {task.question}"
    prompt = Prompt(task, None, template)
    for answer in ("yes", "no"):
        row, values = next(rows_of(task.test()[task.test()[task.outcome] == answer].head(1)))
        yield f"{row}, whose answer is {answer}:"
        yield from (f"  {line}" for line in prompt.build(values)[-1]["content"].splitlines())


def _findings(task: "Task") -> Iterator[str]:
    """What moves, what is thin, and what is refused, each with what to do."""
    from fwc_llm.errors import FwcError
    from fwc_llm.models import open_model, traits
    from fwc_llm.prompts import templates
    from fwc_llm.runs.counts import whole_step
    from fwc_llm.runs.defaults import fit_defaults
    from fwc_llm.runs.plan import bare_prompt
    from fwc_llm.runs.settings import Settings

    settings, notes = fit_defaults(task, Settings())
    parity = "as they fall" if settings.base_parity is None else f"base parity {settings.base_parity:g}"
    yield f"by default a repeat asks about {settings.n_test} rows ({parity}), with {settings.m} examples"
    yield from notes
    if settings.base_parity is not None:
        step = whole_step(task.groups, settings.base_parity)
        yield f"refused: --n-test that is no multiple of {step}, unless with --base-parity none"
    for group, (no, yes) in zip(task.groups, task.cells_of(task.pool()).tolist(), strict=True):
        for answer, count in (("no", no), ("yes", yes)):
            if count == 0:
                yield f"refused: --shots balanced and fwc: {group} has no {answer}; merge it by a map"
        if no + yes < _FEW:
            yield f"{group} has only {no + yes} rows: its rates will say little; a map can merge groups"
    try:
        traits(open_model("surrogate")).check(bare_prompt(task, "default"))
    except FwcError:
        yield "refused: --model surrogate, which knows only adult and census; use --model baseline"
    for name in templates():
        try:
            bare_prompt(task, name)
        except FwcError as error:
            yield f"refused: --template {name}: {error}"
