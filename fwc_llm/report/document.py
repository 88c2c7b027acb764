"""One document for every output: what was run, what it shows, the examples, the prompts, the cost."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.metrics.statistics import plain, statistics
from fwc_llm.report.browser.collect import rows_of_run
from fwc_llm.report.cost import cost
from fwc_llm.report.impact import audit_tables
from fwc_llm.report.lines import add_references, references_of
from fwc_llm.report.provenance import provenance
from fwc_llm.report.read import KEY, Run, read_runs
from fwc_llm.report.thresholds import threshold_section
from fwc_llm.report.tuning import (
    FRONT_HEADINGS,
    front_rows,
    metric_name,
    read_tuning,
    validation_headings,
    validation_rows,
)
from fwc_llm.report.wordings import wording_lines
from fwc_llm.report.words import findings, what_was_run

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-report/1"
_UNUSABLE = "the run's task file and the data found here do not fit together (--task with the file says why)"


def make_document(
    paths: Sequence[str | Path],
    task: "str | Path | Task | None" = None,
    data_dir: str | Path | None = None,
    with_rows: bool = False,
    template: str | Path | None = None,
    reference: bool = False,
) -> dict[str, Any]:
    """Read runs of one task and return everything that a report says about them, ready for JSON.

    `task` is a task, or names one, where the runs' own record is not to be used. Keys: `format`, `task`,
    `title`, `simulated`, `reference`, and `runs`, one object each: `label`, `about` (settings, versions,
    hashes), `api`, `wordings` (each arm's contradictions), `rows` (lost before the run), `audit` (see
    `impact_tables`), `provenance`, `paragraph`, `findings`, `statistics` (see there), `examples`, `prompts`,
    `cost`, and `map` with `missing` saying why what needs the data is not there; `tuning` where `tune` chose
    the examples, and `threshold` where the run has one, else None. `with_rows` adds `browser`, every row for
    the page (`rows_of_run`); `template` is the runs' own folder of templates. `reference` adds reference
    lines to runs that lack them. Raises `FwcError` as `read_runs` does, and for reference lines that cannot
    be made.
    """
    runs = read_runs(paths)
    table, missing = _find_task(runs[0], task, data_dir)
    if reference:
        if table is None:
            raise FwcError(f"reference lines need the table: {missing}")
        add_references([run.folder for run in runs], table)
    return document_of(runs, table, missing, with_rows, template)


def document_of(
    runs: Sequence[Run],
    table: "Task | None" = None,
    missing: str = "",
    with_rows: bool = False,
    template: str | Path | None = None,
) -> dict[str, Any]:
    """Return the document of runs, see `make_document`; `missing` says why there is no `table`."""
    # The views of an audit are of the same rows: the last, all attributes crossed, has them.
    last = runs[-1].folder
    shown = {run.folder for run in runs if with_rows and (KEY not in run.described or run.folder == last)}
    return {
        "format": FORMAT,
        "task": runs[0].task,
        "title": str(runs[0].described.get("title") or runs[0].task),
        "simulated": any(run.simulated for run in runs),
        "reference": any(run.reference for run in runs),
        "runs": [
            _describe(run, table, missing)
            | ({"browser": rows_of_run(run, table, missing, template)} if run.folder in shown else {})
            for run in runs
        ],
    }


def _find_task(
    run: Run, given: "str | Path | Task | None", data_dir: str | Path | None
) -> "tuple[Task | None, str]":
    """The task with its data, or why there is none. A report downloads nothing.

    The run's own record comes before a built-in task of its name. What a record makes of files is not
    told: it may be anybody's, and name any file.
    """
    from fwc_llm.tasks import Task, load_task, recorded_task

    if KEY in run.described:  # decisions from elsewhere have no task
        return None, ""
    text = run.described.get("task_file") if given is None else None
    folder = run.described.get("task_folder")
    try:
        if isinstance(given, Task):
            task = given
        elif text:
            beside = run.folder / folder if folder else None
            task = recorded_task(text, run.task, beside, data_dir, _data(run))
        else:
            task = load_task(given or run.task, data_dir)
        if task.locate() is None:
            return None, "the data is not here: name its folder with --data-dir or FWC_LLM_DATA"
        task.pool()
    except FwcError as error:
        return None, _UNUSABLE if text else str(error)
    if text and task.fingerprint != run.described.get("fingerprint"):
        return None, "the data found here is not the table that the run was made with"
    return task, ""


def _data(run: Run) -> str:
    """The files that took the place of those that the task file names; empty where none did."""
    data = run.described.get("data")
    return str(run.folder / data) if data and isinstance(data, str) else ""


def _describe(run: Run, task: "Task | None", missing: str) -> dict[str, Any]:
    from fwc_llm.report.reference import table_statistics

    found = dict(statistics(run.answered, references_of(run)) if run.found is None else run.found)
    found["notes"] += wording_lines(run.results)
    drawn: dict[str, Any] | None = None
    if task is not None:
        try:
            extra = table_statistics(run, task)
            found["context"] += extra["context"]
            drawn = extra["map"]
        except FwcError as error:
            missing = str(error)
    described: dict[str, Any] = plain(
        {
            "label": run.label,
            "folder": run.folder.resolve().name,
            "simulated": run.simulated,
            "simulated_answers": run.simulated_answers,
            "reference": run.reference,
            "api": run.results.get("api", "chat"),
            "wordings": {arm["arm"]: arm.get("wordings") or {} for arm in run.results["arms"]},
            "rows": run.results.get("rows"),
            "audit": audit_tables(run, task),
            "provenance": provenance(run, task),
            "about": {
                "command": "",
                **run.described,
                "returned_models": run.results.get("returned_models", []),
            },
            "paragraph": what_was_run(run, found),
            "findings": findings(found),
            "statistics": found,
            "map": drawn,
            "missing": missing if drawn is None else "",
            "examples": {arm: _examples(run, arm) for arm in run.arms},
            "prompts": {arm: run.prompt(arm) for arm in run.arms},
            "cost": cost(run.results),
            "tuning": _tuning(run),
            "threshold": threshold_section(run),
        }
    )
    return described


def _tuning(run: Run) -> dict[str, Any] | None:
    """How the run's examples were tuned; None for a run without tuning."""
    tuning = read_tuning(run.folder)
    if tuning is None:
        return None
    return {
        "verdict": tuning["verdict"],
        "headings": [metric_name(tuning) if name == "Metric" else name for name in FRONT_HEADINGS],
        "front": front_rows(tuning),
        "validation_headings": validation_headings(tuning),
        "validation": validation_rows(tuning, run.results),
    }


def _examples(run: Run, arm: str) -> list[dict[str, Any]]:
    """Each repeat's examples, with their exact and displayed weights and the selection's certificate."""
    found = []
    samples = int(run.described["settings"].get("samples") or 1)
    for repeat, shots in run.shots(arm).items():
        if repeat % samples:
            continue  # the same examples, asked again
        displayed = {example.row: weight for example, weight in shots.shown()}
        found.append(
            {
                "repeat": repeat // samples,
                "strategy": shots.strategy,
                "seed": shots.seed,
                "options": dict(shots.options),
                "fingerprint": shots.fingerprint,
                "certificate": shots.certificate,
                "examples": [
                    asdict(example) | {"displayed": displayed.get(example.row)} for example in shots.examples
                ],
            }
        )
    return found
