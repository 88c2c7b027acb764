"""`fwc-llm tasks`, `task …` and `template init`: tables and templates."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

from fwc_llm.cli import flags
from fwc_llm.cli.console import lines, notes, out, working
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, failing_as, in_shell, resource_dir, write_whole
from fwc_llm.meaning import values_of
from fwc_llm.number_format import percent
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json, listed
from fwc_llm.taskfile import LAYOUT, checks_of
from fwc_llm.words import ANSWERS, is_known

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_HERE = "here"
_FETCHED = "download"
_SIMULATED = "simulated"
_COPY = "copy"
_GROUPS = {
    _HERE: "On this machine",
    _FETCHED: "Downloaded when first used",
    _SIMULATED: "Simulated, needs no data",
    _COPY: "To copy beside a table that you fetch: fwc-llm task copy NAME",
}
_ANSWER = "positive", "negative", "refer", "others"  # keys of [outcome]
_FEW = 30  # a group with fewer rows has imprecise rates


@flags.command("tasks")
def tasks(data_dir: Path | None = flags.DATA_DIR, as_json: bool = flags.JSON) -> None:
    """List tasks with rows, protected attributes, outcome, source and licence."""
    from fwc_llm.tasks import (
        layout_names,
        load_task,
        recorded_task,
        task_names,
        task_text,
    )

    found = [_described(load_task(name, data_dir)) for name in task_names()]
    copied = (recorded_task(task_text(name), name, None) for name in layout_names())
    found += [_described(task) | {"group": _COPY, "data": None} for task in copied]
    if as_json:
        flags.print_json({"format": "fwc-llm-tasks/1", "tasks": found})
        return
    for group, title in _GROUPS.items():
        tasks = [task for task in found if task["group"] == group]
        if tasks:
            lines(title, style="bold")
        for task in tasks:
            if task["rows"] is None:
                rows = ""
            else:
                rows = f"{task['rows']:,} rows; "
            if task["groups"] is None:
                levels = ""
            else:
                levels = f" ({', '.join(task['groups'])})"
            others = ", ".join(
                name for name in task["offered"] if name not in task["protected"]
            )
            offered = f"{', '.join(task['protected'])}{levels}{f'; or {others}' if others else ''}"
            if task["data"]:
                location = f"in {task['data']}; "
            else:
                location = ""
            lines(f"{task['task']}: {task['title']}; {rows}protected {offered}")
            lines(f"  {location}{task['licence']}; {task['citation']}")


def _described(task: "Task") -> Json:
    """A task as plain values; without the table, its facts are None."""
    from fwc_llm.tasks import table_files

    files = table_files(task)
    return {
        "task": task.name,
        "group": _SIMULATED if task.simulated else _FETCHED if files is None else _HERE,
        "title": task.title,
        "outcome": task.outcome,
        "protected": list(task.protected),
        "offered": list(task.offered),
        "groups": list(task.groups) if files is not None else None,
        "rows": int(task.cells_of(task.table).sum()) if files is not None else None,
        "simulated": task.simulated,
        "data": str(files[0].parent) if files else None,
        "licence": task.rules.licence,
        "citation": task.rules.citation,
    }


@flags.command("task init", AuditOptions, names=(*_ANSWER, "unknown", *LAYOUT))
def init(
    table: Path = flags.argument(
        "CSV with a header line, JSON lines, Parquet or Excel file."
    ),
    protected: list[str] = flags.option(
        "Columns of protected attributes, comma-separated or repeated.", default=...
    ),
    outcome: str = flags.option("Column of the outcome.", default=...),
    output: Path | None = flags.option(
        "Task file to write. [default: beside the table]", "--out", "-o", "--output"
    ),
    force: bool = flags.FORCE,
    **options: Any,
) -> None:
    """Draft a commented task file for your table and list what to check in it."""
    from fwc_llm.data.task_inference import draft_task
    from fwc_llm.tasks import load_task

    target = _new_file(output or table.with_suffix(".toml"), ".toml", force)
    answer = flags.given({name: options.pop(name) for name in _ANSWER})
    text = draft_task(
        table,
        flags.words(",".join(protected)) or protected,
        outcome,
        Path(os.path.realpath(target)).parent,
        flags.words(options.pop("unknown")),
        {
            name: value if name == "others" else [*values_of(value)]
            for name, value in answer.items()
        },
        **flags.given(options),
    )
    write_whole(text, target, "the task file ")
    _print(f"wrote {target}; please check:", *checks_of(text))
    task = load_task(target)
    try:
        task.pool()
    except FwcError as error:
        lines(f"The file cannot be used yet: {error}")
    else:
        lines(
            f"The file can be used: {'; '.join(task.notes)}; groups {', '.join(task.groups)}"
        )
        lines(f"Next: fwc-llm task check {in_shell(target)}")


@flags.command("task check")
def check(
    task: str = flags.argument("A task file (.toml), or a built-in task."),
    data_dir: Path | None = flags.DATA_DIR,
    protected: str | None = flags.PROTECTED,
    template: str = flags.option(
        "Template set of the displayed prompts.", default="default"
    ),
    as_json: bool = flags.JSON,
) -> None:
    """Show rows kept and lost, groups, outcomes, two rows as prompts, and unsupported options."""
    from fwc_llm.report.sections import lost
    from fwc_llm.report.table_model import Section, terminal
    from fwc_llm.tasks import load_task

    opened = load_task(task, data_dir, protected=protected)
    with working("reading the table"):
        opened.pool()
    if opened.rows:
        rows = opened.rows.as_json()
    else:
        rows = None
    cells = zip(opened.groups, opened.cells_of(opened.table).tolist(), strict=True)
    answers = ANSWERS[: 2 + opened.refers]
    names = "rows", *answers
    groups = [
        {"group": group, "rows": sum(of), **dict(zip(answers, of, strict=True))}
        for group, of in cells
    ]
    columns = list(_columns(opened))
    prompts = list(_shown(opened, template))
    findings = list(_findings(opened))
    if as_json:
        document = {
            "format": "fwc-llm-task-check/1",
            "task": opened.name,
            "title": opened.title,
            "notes": list(opened.notes),
            "rows": rows,
            "protected": list(opened.protected),
            "outcome": opened.outcome,
            "groups": groups,
            "columns": columns,
            "prompts": prompts,
            "findings": findings,
        }
        flags.print_json(document)
        return
    counts = [
        [
            counted["group"],
            *(f"{counted[name]:,}" for name in names),
            percent(counted["yes"] / counted["rows"]),
        ]
        for counted in groups
    ]
    title = f"Groups by {' & '.join(opened.protected)}, and answers by {opened.outcome}"
    if rows:
        more = [line for line in (rows["warning"], rows["outcome"]) if line]
    else:
        more = []
    _print(f"{opened.name}: {opened.title}", *opened.notes)
    for table in (lost(rows), Section(title, ("group", *names, "yes %"), counts, more)):
        if table:
            out.print(terminal(table))
    _print("Columns", *columns)
    _print("Two rows as a prompt shows them", *prompts)
    _print("What to know, and what will be refused", *findings)


def _print(title: str, *indented: str) -> None:
    lines(title, style="bold")
    lines(*(f"  {line}" for line in indented))


def _columns(task: "Task") -> Iterator[str]:
    table = task.table
    for column in task.features:
        values = table[column.name]
        if column.kind == "numeric":
            summary = (
                f"{values.min():,.10g} to {values.max():,.10g}, median "
                f"{values.median():,.10g}"
            )
        else:
            counts = list(values.value_counts().items())
            summary = listed(
                counts,
                6,
                lambda pair: f"{' '.join(str(pair[0]).split())} ({pair[1]:,})",
            )
        yield f"{column.name} ({column.kind}): {summary}"
    used = {column.name for column in task.columns}
    left_out = [
        item.name
        for item in task.rules.fields
        if item.use != "column" and item.name not in used
    ]
    if left_out:
        yield f"left out: {', '.join(left_out)}"


def _shown(task: "Task", template: str) -> Iterator[str]:
    from fwc_llm.prompts import Prompt
    from fwc_llm.runs.plan import rows_of

    yield f"Question: {task.question}"
    prompt = Prompt(task, None, template)
    rows = task.test()
    for answer, label in (("yes", 1), ("no", 0)):
        for row, values in rows_of(rows[task.labels(rows) == label].head(1)):
            yield f"{row}, whose answer is {answer}:"
            yield from (
                f"  {line}" for line in prompt.build(values)[-1]["content"].splitlines()
            )


def _findings(task: "Task") -> Iterator[str]:
    """Sentences on adjusted defaults, small groups and unsupported options."""
    from fwc_llm.prompts import templates
    from fwc_llm.runs.defaults import fit_defaults
    from fwc_llm.runs.plan import bare_prompt, default_model
    from fwc_llm.runs.splits import whole_step

    settings, notes = fit_defaults(task, Settings())
    if settings.base_parity is None:
        parity = "base parity none"
    else:
        parity = f"base parity {settings.base_parity:g}"
    yield (
        f"by default a repeat asks about {settings.n_test} rows ({parity}), with {settings.m} "
        f"examples"
    )
    yield from notes
    known = checks_of(task.text)
    found = [one for one in task.checks.sentences if one not in " ".join(known)]
    yield from (f"CHECK: {doubt}" for doubt in [*known, *found])
    if settings.base_parity is not None:
        step = whole_step(task.groups, settings.base_parity)
        yield f"--n-test is rounded to a multiple of {step}, unless with --base-parity none"
    for group, counts in zip(
        task.groups, task.cells_of(task.pool()).tolist(), strict=True
    ):
        if not is_known(group):
            continue
        for answer, count in zip(task.example_labels, counts, strict=False):
            if count == 0:
                yield (
                    f"refused: --shots balanced and fwc: {group} has no {answer}; merge groups by "
                    f"a map"
                )
        if sum(counts) < _FEW:
            yield (
                f"{group} has only {sum(counts)} rows, too few for precise rates; a map can merge "
                f"groups"
            )
    if task.refers:
        yield (
            "refused, because of refer: --model baseline and fitted classifiers, --base-parity, "
            "--threshold, --set assist=true, --answer-format probability"
        )
    elif default_model(task) != "surrogate":
        yield "refused: --model surrogate, which knows only adult and census; use --model baseline"
    for name in templates():
        try:
            bare_prompt(task, name)
        except FwcError as error:
            yield f"refused: --template {name}: {error}"


@flags.command("template init")
def template_init(
    folder: Path = flags.argument("Folder to create."),
    template: str = flags.option(
        "Template set to copy: default, decision, decodingtrust or paper.",
        "--from",
        default="default",
    ),
) -> None:
    """Copy a template set of the package, to edit and use with --template DIR."""
    from fwc_llm.prompts import templates

    if template not in templates():
        raise FwcError(
            f"unknown template set {template!r}: there are {', '.join(templates())}"
        )
    with failing_as(FwcError, f"cannot make the folder {folder}: "):
        copytree(resource_dir("prompts") / template, folder)
    notes(f"wrote the template set {template} to {folder}")
    notes(f"see a prompt with: fwc-llm prompt --template {in_shell(folder)}")


def _new_file(path: Path, ending: str, force: bool) -> Path:
    """The path of a new file; `FwcError` if it exists and `force` is False."""
    if path.suffix != ending:
        raise FwcError(
            f"the task file {path} must end in {ending}, so that --task recognises it"
        )
    check_new(force, path)
    return path


@flags.command("task copy")
def task_copy(
    task: str = flags.argument(
        "Built-in task with a file, or one to copy (`fwc-llm tasks`)."
    ),
    output: Path | None = flags.option(
        "File to write. [default: TASK.toml, here]", "--out", "-o"
    ),
    force: bool = flags.FORCE,
) -> None:
    """Copy the file of a built-in task, to edit and use with --task FILE."""
    from fwc_llm.tasks import layout_names, task_text

    text = task_text(task)
    target = _new_file(output or Path(f"{task}.toml"), ".toml", force)
    write_whole(text, target, "the task file ")
    if task in layout_names():
        notes(
            f"the first lines of {target} name its table: put that table into the same folder"
        )
    notes(f"wrote {target}; look at it with: fwc-llm task check {in_shell(target)}")


@flags.command("task freeze")
def task_freeze(
    task: str = flags.argument("A task file (.toml), or a built-in task."),
    output: Path | None = flags.option(
        "File to write. [default: TASK.json, here]", "--out", "-o"
    ),
    protected: str | None = flags.PROTECTED,
    data_dir: Path | None = flags.DATA_DIR,
    force: bool = flags.FORCE,
) -> None:
    """Save a task without its rows, for applications that build prompts."""
    from fwc_llm.tasks import load_task

    table = load_task(task, data_dir, protected=protected)
    target = _new_file(output or Path(f"{table.name}.json"), ".json", force)
    with working("reading the table"):
        table.freeze(target, force)
    notes(
        f"wrote {target}; see a prompt with: "
        f"fwc-llm prompt --task {in_shell(target)} --record ROW.json"
    )
