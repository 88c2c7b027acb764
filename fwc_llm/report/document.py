"""The document behind all report formats: statistics, examples, prompts, cost."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.gates.decide import as_gates, by_arm, checked, limits_of
from fwc_llm.metrics.records import CHANGED_ATTRIBUTE, NAMES
from fwc_llm.metrics.sampling_design import Unread
from fwc_llm.report import local_law_144 as ll144
from fwc_llm.report import sections
from fwc_llm.report.compare import against_first
from fwc_llm.report.cost import cost
from fwc_llm.report.impact import selected, who_was_selected
from fwc_llm.report.narrative import (
    Subject,
    findings,
    limits,
    low_coverage,
    overall,
    step_of,
    what_was_run,
)
from fwc_llm.report.probability_sections import probabilities
from fwc_llm.report.provenance import DECISIONS, costs, provenance, record
from fwc_llm.report.rows import rows_of_run
from fwc_llm.report.table_model import Section
from fwc_llm.report.threshold_section import at_threshold, threshold_section
from fwc_llm.report.tuning import read_tuning
from fwc_llm.runs.folder import GROUP_FILE
from fwc_llm.runs.recorded_run import Run, read_runs
from fwc_llm.sanitize import Fields, Json
from fwc_llm.version import __version__

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-report/2"
_UNUSABLE = (
    "the run's task file does not fit the data found here (pass the file with "
    "--task to see why)"
)


def make_document(
    paths: Sequence[str | Path],
    with_rows: bool = False,
    unread: Unread | None = None,
    of_law: bool = False,
) -> Json:
    """Read runs of one task; return the content of their report.

    Keys: `format`, `task`, `title`, `simulated`, `reference`, `findings` (sentences on several
    runs; the first is the answer), and `runs` with one dict per run:

    label       the run's name
    about       settings, versions and other keys of run.json
    api         the protocol
    rows        rows lost before the run
    unread      a sentence on the most frequent replies without an answer
    records     all numbers (`metrics.records`)
    statistics  facts beside them (`metrics.statistics.Statistics`)
    audit       facts on selection by group (`metrics.adverse_impact.Impact`)
    provenance  see `provenance`
    paragraph   the description of the run
    findings    sentences
    limits      the conditions that are not to be met
    outcomes    within, outside or cannot say, by arm
    gates       the checks of its gates, and of the target of `tune` (`gates.Check`)
    examples    examples of each arm
    prompts     one full prompt of each arm
    cost        requests, tokens and dollars
    tuning      the section on how `tune` chose the examples
    threshold   how the run's threshold was chosen, else None
    browser     with `with_rows`: all rows, for the page (`rows_of_run`)

    `unread` is the treatment of unread replies.
    `of_law`: `audit` is for Local Law 144, as in `impact_tables`. Raises `FwcError` as `read_runs`.
    """
    runs = read_runs(paths, unread)
    described = [describe_run(run, of_law) for run in runs]
    if with_rows:
        for run, entry in zip(runs, described, strict=True):
            entry["browser"] = rows_of_run(run)
    models = [subject_of(run) for run in runs]
    return document_of(
        runs[0].task,
        str(runs[0].described.get("title") or runs[0].task),
        described,
        models,
        differences(runs),
    )


def subject_of(run: Run) -> Subject:
    """A run as one of several models."""
    marks = " (simulated)" * run.simulated_answers + " (reference)" * run.reference
    asked_with = run
    if is_file(run.folder.parent / GROUP_FILE):  # a next step asks all models again
        asked_with = replace(run, folder=run.folder.parent)
    name = f"{run.label}{marks}"
    return Subject(name, run.statistics, limits(run), asked_with)


def differences(runs: Sequence[Run]) -> list[str]:
    """Sentences on whether the answers of other runs differ from the first's."""
    return [line for one in against_first(runs) for line in one["findings"]]


def document_of(
    task: str,
    title: str,
    runs: Sequence[Fields],
    subjects: Sequence[Subject],
    others: Sequence[str],
) -> Json:
    """The document of described runs, with an answer on several, and `others` after it; see
    `make_document`.
    """
    step, _ = step_of(subjects)
    following = f"Next: {step}."
    findings = [overall(subjects), *others, following]
    if len(runs) == 1:
        (only,) = runs
        runs = [{**only, "findings": [*only["findings"], following]}]
        findings = []
    return {
        "format": FORMAT,
        "task": task,
        "title": title,
        "simulated": any(run["simulated"] for run in runs),
        "reference": any(run["reference"] for run in runs),
        "findings": findings,
        "runs": list(runs),
    }


def models_of(document: Fields) -> sections.Models:
    """The runs of several models; none of one run, and of audits by several attributes."""
    runs = document["runs"]
    if len(runs) == 1 or DECISIONS in runs[0]["about"]:
        return []
    return [(run["label"], run["statistics"], run["limits"]) for run in runs]


def sections_of(run: Fields) -> list[Section]:
    """The non-empty sections of one entry of a document's `runs`, in order."""
    stats = run["statistics"]
    is_run = DECISIONS not in run["about"]
    made = [
        *first_sections(run),
        sections.results(stats),
        sections.rates(stats),
        sections.comparisons(stats),
        sections.paper(stats),
        sections.attributes(stats),
        who_was_selected(
            run["audit"], stats.records, after_first=_opens_with_groups(run)
        ),
        sections.coverage(stats, run["unread"]),
        sections.lost(run["rows"]),
        *(sections.changed(stats, scope) for scope in (CHANGED_ATTRIBUTE, NAMES)),
        probabilities(stats),
        at_threshold(run["threshold"], stats),
        run["tuning"],
        sections.repetition(stats),
        *([costs(run)] if is_run else []),
        *([ll144.sections(run["ll144"])] if run.get("ll144") else []),
        record(run),
    ]
    return [section for section in made if section]


def first_sections(run: Fields) -> list[Section]:
    """Who gets how much, and of an audit with one arm the groups' impact ratios."""
    found = [sections.first(run["statistics"], run["limits"])]
    if _opens_with_groups(run):
        found.append(selected(run["audit"], run["statistics"].records))
    return found


def _opens_with_groups(run: Fields) -> bool:
    return DECISIONS in run["about"] and len(run["statistics"].arms) == 1


def find_task(
    run: Run, given: "str | Path | Task | None", data_dir: str | Path | None
) -> "tuple[Task | None, str]":
    """The task with its data, or None and the reason; never downloads.

    Without `named`, the task that the run recorded is used, else the built-in task of that name.
    Errors of a recorded task are not shown in detail, because an untrusted run may name any file.
    """
    from fwc_llm.tasks import Task, load_task, recorded_task, table_files

    if given is None:
        text = run.described.get("task_file")
    else:
        text = None
    task_folder = run.described.get("task_folder")
    try:
        if isinstance(given, Task):
            task = given
        elif text:
            if task_folder:
                folder = run.folder / task_folder
            else:
                folder = None
            task = recorded_task(text, run.task, folder, data_dir)
        else:
            task = load_task(given or run.task, data_dir)
        if table_files(task) is None:
            return (
                None,
                "the data is not here: name its folder with --data-dir or FWC_LLM_DATA",
            )
        task.pool()
    except FwcError as error:
        return None, _UNUSABLE if text else str(error)
    if task.fingerprint != run.described.get("fingerprint"):
        return None, "the data found here is not the table that the run was made with"
    return task, ""


def describe_run(run: Run, of_law: bool = False) -> Json:
    """A run as an entry of a document; `of_law` as in `make_document`."""
    impact = run.impact(of_law)
    judged = Subject(run.label, run.statistics_with(impact), limits(run))
    checks = run.table_checks.items()
    between = [f"Check column {name}: {text}." for name, text in checks if name]
    between += low_coverage(judged.stats, run.described["settings"]["min_coverage"])
    return entry(
        judged,
        run.created,
        between,
        folder=run.folder.resolve().name,
        simulated=run.simulated,
        simulated_answers=run.simulated_answers,
        reference=run.reference,
        api=run.results.get("api", "chat"),
        rows=run.results.get("rows"),
        unread=run.results.get("unread", ""),
        audit=impact,
        provenance=provenance(run),
        about={
            "command": "",
            **run.described,
            "returned_models": run.results.get("returned_models", []),
        },
        paragraph=what_was_run(run),
        examples={arm: _examples(run, arm) for arm in run.arms},
        prompts={arm: run.prompt(arm) for arm in run.arms},
        cost=cost(run.results, run.described.get("parameters") or {}),
        tuning=read_tuning(run.folder),
        threshold=threshold_section(run),
    )


def entry(
    judged: Subject, created: str, between: Iterable[str], **described: Any
) -> Json:
    """An entry of a document's `runs`, with findings `between` the answer and the others; keys not
    in `described` are empty.
    """
    label, stats, conditions, _ = judged
    checks = checked(stats, conditions)
    made: Json = {"label": label, "folder": "", "api": "chat", "unread": ""}
    made |= dict.fromkeys(("simulated", "simulated_answers", "reference"), False)
    made |= dict.fromkeys(("rows", "threshold"))
    made |= {"statistics": stats, "records": stats.records, "tuning": Section("")}
    made |= {"limits": [limit.text for limit in limits_of(stats, conditions)]}
    made |= {"outcomes": by_arm(checks), "gates": as_gates(label, checks)}
    made["gates"] *= bool(conditions)
    made["findings"] = findings(stats, created, conditions, between)
    of_arms: Json = {arm.arm: [] for arm in stats.arms}
    made |= {"examples": of_arms, "prompts": of_arms}
    made |= described
    made["provenance"]["report_version"] = __version__
    return made


def _examples(run: Run, arm: str) -> list[Json]:
    """The examples of each draw, with exact and displayed weights and the certificate."""
    from fwc_llm.shots.storage import shots_json

    samples = int(run.described["settings"].get("samples") or 1)
    return [
        {**shots_json(shots), "repeat": repeat // samples}
        for repeat, shots in run.shots(arm).items()
        if not repeat % samples  # other repeats have the same examples
    ]
