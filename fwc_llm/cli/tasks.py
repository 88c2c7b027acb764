"""`fwc-llm tasks` lists the built-in tasks; `fwc-llm task init` drafts one for a table of your own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fwc_llm.cli.as_json import Json, print_json
from fwc_llm.cli.check import check as check_command
from fwc_llm.cli.copies import task_copy
from fwc_llm.cli.examples import epilog
from fwc_llm.cli.options import Command, Group, shown

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

task_app = typer.Typer(help="Task files for tables of your own.", no_args_is_help=True, cls=Group)
task_app.command("check", cls=Command, epilog=epilog("task check"))(shown(check_command))
task_app.command("copy", cls=Command, epilog=epilog("task copy"))(shown(task_copy))


def tasks(
    data_dir: Annotated[
        Path | None, typer.Option(help="Look for data here first.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the tasks in groups: rows, what is protected or can be, outcome, source and licence."""
    from rich.table import Table
    from rich.text import Text

    from fwc_llm.cli.console import out
    from fwc_llm.tasks import layout, layout_names, load_task, task_names

    tasks = [load_task(name, data_dir) for name in task_names()]
    copies = [layout(name) for name in layout_names()]
    if as_json:
        listed = [*map(_described, tasks), *(_described(task) | {"group": _COPY} for task in copies)]
        print_json({"format": "fwc-llm-tasks/1", "tasks": listed})
        return
    for group in _GROUPS:
        members = [task for task in tasks if _group(task) == group] + (copies if group == _COPY else [])
        if not members:
            continue
        out.print(Text(_GROUPS[group], style="bold"))
        listing = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        here = group in (_HERE, _SIMULATED)
        for title in ("task", *(["rows"] if here else []), "protected", "outcome"):
            listing.add_column(title, justify="right" if title == "rows" else "left", overflow="fold")
        for task in members:
            levels = f" ({', '.join(task.groups)})" if here else ""
            others = [name for name in task.offered if name not in task.protected]
            offered = f"; or {', '.join(others)}" if others else ""
            rows = [f"{_rows(task):,}"] if here else []
            protected = f"{', '.join(task.protected)}{levels}{offered}"
            listing.add_row(*map(Text, (task.name, *rows, protected, task.title)))
        out.print(listing)
        out.print()
    for task in (*tasks, *copies):
        files = task.locate() if task in tasks else None
        place = f" in {files[0].parent};" if files else ""
        out.print(Text(f"{task.name}:{place} {task.licence}; {task.citation}"), soft_wrap=True)


_HERE, _FETCHED, _SIMULATED, _COPY = "here", "download", "simulated", "copy"
_GROUPS = {
    _HERE: "On this machine",
    _FETCHED: "Downloaded when first used",
    _SIMULATED: "Simulated, needs no data",
    _COPY: "To copy beside a table that you fetch: fwc-llm task copy NAME",
}


def _group(task: "Task") -> str:
    if task.simulated:
        return _SIMULATED
    return _HERE if task.locate() is not None else _FETCHED


def _rows(task: "Task") -> int:
    return int(task.cells_of(task.table).sum())


def _described(task: "Task") -> dict[str, Any]:
    """A task as plain values; what only its table says is None where that is not here."""
    files = task.locate()
    return {
        "task": task.name,
        "group": _group(task),
        "title": task.title,
        "outcome": task.outcome,
        "protected": list(task.protected),
        "offered": list(task.offered),
        "groups": list(task.groups) if files is not None else None,
        "rows": _rows(task) if files is not None else None,
        "simulated": task.simulated,
        "data": str(files[0].parent) if files else None,
        "licence": task.licence,
        "citation": task.citation,
    }


@task_app.command("init", cls=Command, epilog=epilog("task init"))
@shown
def init(
    table: Annotated[
        Path, typer.Argument(help="A CSV file with a header line, JSON lines, a Parquet or an Excel file.")
    ],
    protected: Annotated[list[str], typer.Option(help="The protected attribute's column; may be repeated.")],
    outcome: Annotated[str, typer.Option(help="The outcome's column.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", "--output", help="The task file to write.", show_default="beside the table"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Draft a commented task file for a table of your own, and list what to check in it."""
    from rich.text import Text

    from fwc_llm.cli.console import out
    from fwc_llm.data.sniff import draft_task
    from fwc_llm.errors import FwcError
    from fwc_llm.tasks import load_task

    target = output or table.with_suffix(".toml")
    if target.suffix != ".toml":
        raise FwcError(f"the task file {target} must end in .toml, so that --task recognises it")
    if target.exists() and not force:
        raise FwcError(f"{target} exists already; name another file with -o, or overwrite it with --force")
    draft = draft_task(table, protected, outcome, Path(os.path.realpath(target)).parent)
    try:
        target.write_text(draft.text, encoding="utf-8")
    except OSError as error:
        raise FwcError(f"cannot write {target}: {error.strerror or error}") from error
    out.print(Text(f"wrote {target}; please check:"))
    for check in draft.checks:
        out.print(Text(f"  {check}"))
    task = load_task(target)
    try:
        task.pool()
    except FwcError as error:
        out.print(Text(f"It cannot be used yet: {error}"))
    else:
        out.print(Text(f"It can be read: {'; '.join(task.notes)}; groups {', '.join(task.groups)}"))
        out.print(Text(f"Next: fwc-llm task check {target}"))
