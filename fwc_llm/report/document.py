"""One document for every output: what was run, what it shows, the examples, the prompts, the cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.metrics.sampling_design import Unread
from fwc_llm.metrics.statistics import plain, statistics
from fwc_llm.report import local_law_144 as ll144
from fwc_llm.report import sections
from fwc_llm.report.cost import cost
from fwc_llm.report.impact import audit_tables, selected, who_was_selected
from fwc_llm.report.narrative import (
    findings,
    keeping,
    low_coverage,
    missed,
    next_step,
    what_was_run,
    wording_lines,
)
from fwc_llm.report.probability_sections import probabilities
from fwc_llm.report.provenance import DECISIONS, costs, provenance, record
from fwc_llm.report.reference_models import add_references, references_of
from fwc_llm.report.rows import rows_of_run
from fwc_llm.report.table_model import Section
from fwc_llm.report.threshold_section import at_threshold, threshold_section
from fwc_llm.report.tuning import read_tuning, tuned
from fwc_llm.runs.recorded_run import Run, assisted, read_runs
from fwc_llm.version import __version__

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-report/1"
_UNUSABLE = "the run's task file does not fit the data found here (pass the file with --task to see why)"


def make_document(
    paths: Sequence[str | Path],
    task: "str | Path | Task | None" = None,
    data_dir: str | Path | None = None,
    with_rows: bool = False,
    reference: bool = False,
    assist: bool = False,
    unread: Unread | None = None,
) -> dict[str, Any]:
    """Read runs of one task and return everything that a report says about them, ready for JSON.

    `task` is a task, or names one, where the runs' own record is not to be used. Keys: `format`, `task`,
    `title`, `simulated`, `reference`, and `runs`, one object each: `label`, `about` (settings, versions,
    hashes), `api`, `wordings` (each arm's contradictions), `rows` (lost before the run), `audit` (see
    `impact_tables`), `provenance`, `paragraph`, `findings`, `statistics` (see there), `examples`, `prompts`,
    `cost`, and `missing`, which says why what needs the data is not there; `tuning` where `tune` chose the
    examples, and `threshold` where the run has one, else None. `with_rows` adds `browser`, every row for the
    page (`rows_of_run`). `reference` adds reference lines to runs that lack them; `assist` makes every value
    with predictions for the rows that were not asked about; `unread` says what replies without an answer are
    taken for. Raises `FwcError` as `read_runs` does, and for options that need a missing table.
    """
    runs = read_runs(paths, unread)
    table, missing = find_task(runs[0], task, data_dir)
    if reference:
        if table is None:
            raise FwcError(f"reference lines need the table: {missing}")
        add_references([run.folder for run in runs], table)
    if assist:
        runs = [assisted(run, table, missing) for run in runs]
    described = [describe_run(run, table, missing) for run in runs]
    if with_rows:
        for run, entry in zip(runs, described, strict=True):
            entry["browser"] = rows_of_run(run)
    return document_of(runs[0].task, str(runs[0].described.get("title") or runs[0].task), described)


def document_of(task: str, title: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document of described runs; see `make_document`."""
    return {
        "format": FORMAT,
        "task": task,
        "title": title,
        "simulated": any(run["simulated"] for run in runs),
        "reference": any(run["reference"] for run in runs),
        "runs": list(runs),
    }


def sections_of(run: Mapping[str, Any]) -> list[Section]:
    """Return the sections of one entry of a document's `runs`, in the order of every output; none is empty.

    An audit of decisions from elsewhere has no examples, no cost and no way of asking.
    """
    stats, is_run = run["statistics"], DECISIONS not in run["about"]
    shown = [
        first_section(run),
        sections.results(stats),
        sections.rates(stats),
        sections.further(stats),
        sections.comparisons(stats),
        sections.paper(stats),
        sections.attributes(stats),
        who_was_selected(run["audit"], shown=_opens_with_groups(run)),
        sections.coverage(stats),
        sections.lost(run["rows"]),
        sections.flips(stats),
        *sections.probes(stats),
        probabilities(stats),
        at_threshold(run["threshold"]),
        tuned(run["tuning"]),
        sections.references(stats),
        sections.repetition(stats),
        *([costs(run)] if is_run else []),
        *([ll144.sections(run["ll144"])] if run.get("ll144") else []),
        record(run),
    ]
    return [section for section in shown if section]


def first_section(run: Mapping[str, Any]) -> Section:
    """Return the table that a page opens with: the arms of a run, the groups of an audit."""
    if _opens_with_groups(run):
        return selected(run["audit"]["attributes"][-1])
    return sections.first(run["statistics"])


def _opens_with_groups(run: Mapping[str, Any]) -> bool:
    return DECISIONS in run["about"] and len(run["statistics"]["arms"]) == 1


def find_task(
    run: Run, named: "str | Path | Task | None", data_dir: str | Path | None
) -> "tuple[Task | None, str]":
    """Return the task with its data, or the reason why that is missing. A report downloads nothing.

    The run's own record comes before a built-in task of its name. What a record makes of files is not
    told: it may be anybody's, and name any file.
    """
    from fwc_llm.tasks import Task, load_task, recorded_task

    text = run.described.get("task_file") if named is None else None
    beside, data = (run.described.get(name) for name in ("task_folder", "data"))
    try:
        if isinstance(named, Task):
            task = named
        elif text:
            folder = run.folder / beside if beside else None
            task = recorded_task(text, run.task, folder, data_dir, str(run.folder / data) if data else "")
        else:
            task = load_task(named or run.task, data_dir)
        if task.locate() is None:
            return None, "the data is not here: name its folder with --data-dir or FWC_LLM_DATA"
        task.pool()
    except FwcError as error:
        return None, _UNUSABLE if text else str(error)
    if task.fingerprint != run.described.get("fingerprint"):
        return None, "the data found here is not the table that the run was made with"
    return task, ""


def describe_run(run: Run, task: "Task | None" = None, missing: str = "") -> dict[str, Any]:
    """Return one run as an entry of a document's `runs`; `missing` says why there is no `task` with data."""
    stats = statistics(run.answered, references_of(run))
    stats["notes"] += wording_lines(run.results)
    kept = keeping(run)
    return entry(
        run.label,
        run.arms,
        folder=run.folder.resolve().name,
        simulated=run.simulated,
        simulated_answers=run.simulated_answers,
        reference=run.reference,
        api=run.results.get("api", "chat"),
        wordings={arm["arm"]: arm.get("wordings") or {} for arm in run.results["arms"]},
        rows=run.results.get("rows"),
        audit=audit_tables(run, task),
        provenance=provenance(run, task),
        about={"command": "", **run.described, "returned_models": run.results.get("returned_models", [])},
        paragraph=what_was_run(run, stats),
        findings=[
            *(
                {"arm": "", "text": f"Check column {name}: {told}."}
                for name, told in run.table_checks.items()
                if name
            ),
            *low_coverage(run.results["arms"], run.described["settings"]["min_coverage"]),
            *findings(stats, run.created, kept),
            *({"arm": "", "text": text} for text in missed(stats)),
            {"arm": "", "text": next_step(stats, kept, run)},
        ],
        statistics=stats,
        missing=missing,
        examples={arm: _examples(run, arm) for arm in run.arms},
        prompts={arm: run.prompt(arm) for arm in run.arms},
        cost=cost(run.results),
        tuning=read_tuning(run.folder, run.results),
        threshold=threshold_section(run),
    )


def entry(label: str, arms: Sequence[str], **described: Any) -> dict[str, Any]:
    """Return an entry of a document's `runs` as plain values; what is not `described` is empty."""
    made: dict[str, Any] = {"label": label, "folder": "", "api": "chat", "missing": ""}
    made |= dict.fromkeys(("simulated", "simulated_answers", "reference"), False)
    made |= dict.fromkeys(("rows", "map", "tuning", "threshold"))  # "map" is of earlier versions
    made |= {"wordings": {arm: {} for arm in arms}}
    made |= {name: {arm: [] for arm in arms} for name in ("examples", "prompts")}
    made = plain(made | described)
    made["provenance"]["report_version"] = __version__
    return made


def _examples(run: Run, arm: str) -> list[dict[str, Any]]:
    """Each repeat's examples, with their exact and displayed weights and the selection's certificate."""
    from fwc_llm.shots.storage import shots_json

    samples = int(run.described["settings"].get("samples") or 1)
    draws = [
        {**shots_json(shots), "repeat": repeat // samples}
        for repeat, shots in run.shots(arm).items()
        if not repeat % samples  # else the same examples, asked again
    ]
    for draw in draws:
        draw["examples"] = [{"altered": "", **example} for example in draw["examples"]]
    return draws
