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
    """List the built-in tasks: rows, protected attribute, outcome, and where their data lies."""
    from rich.table import Table
    from rich.text import Text

    from fwc_llm.cli.console import out
    from fwc_llm.tasks import load_task, task_names

    if as_json:
        print_json(
            {"format": "fwc-llm-tasks/1", "tasks": [_described(load_task(n, data_dir)) for n in task_names()]}
        )
        return
    listing = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("task", "rows", "protected", "outcome"):
        listing.add_column(title, justify="right" if title == "rows" else "left", overflow="fold")
    sources = []
    for name in task_names():
        task = load_task(name, data_dir)
        files = task.locate()
        here = files is not None
        levels = f" ({', '.join(task.groups)})" if here else ""
        rows = f"{len(task.table):,}" if here else ""
        listing.add_row(*map(Text, (name, rows, f"{', '.join(task.protected)}{levels}", task.title)))
        if task.simulated:
            where = "simulated, needs no data"
        else:
            where = f"in {files[0].parent}" if files else "not here yet, downloaded when it is first used"
        sources.append(f"{name}: {where}; {task.licence}; {task.citation}")
    out.print(listing)
    out.print()
    for source in sources:
        out.print(Text(source), soft_wrap=True)


def _described(task: "Task") -> dict[str, Any]:
    """A task as plain values; what only its table says is None where that is not here."""
    files = task.locate()
    return {
        "task": task.name,
        "title": task.title,
        "outcome": task.outcome,
        "protected": list(task.protected),
        "groups": list(task.groups) if files is not None else None,
        "rows": len(task.table) if files is not None else None,
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
