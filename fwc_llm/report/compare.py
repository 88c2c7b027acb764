"""Compares two runs of one task: changed settings, and differences of the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group

from fwc_llm.metrics.arm_comparison import COMPARED, ComparedArms, adjust, compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, OF_REFERRALS
from fwc_llm.metrics.records import Record, Records
from fwc_llm.metrics.run_answers import mapped, questions_of, samples_of
from fwc_llm.metrics.statistics import small_groups
from fwc_llm.number_format import DASH, number
from fwc_llm.report.narrative import caveats, differing, lost_lines
from fwc_llm.report.sections import as_words
from fwc_llm.report.table_model import (
    Row,
    Section,
    as_text,
    difference,
    notebook,
    terminal,
)
from fwc_llm.runs.recorded_run import Run, check_same_task
from fwc_llm.sanitize import Fields, Json
from fwc_llm.taskfile import without_key

if TYPE_CHECKING:
    import pandas as pd

BEFORE, AFTER = "the first run", "the second run"


class RunComparison(Json):
    """Changes between two runs; see `compare_runs` for the keys."""

    def to_frame(self) -> "pd.DataFrame":
        """The records as a table, one line per number."""
        frame: pd.DataFrame = self["records"].to_frame()
        return frame

    def __str__(self) -> str:
        return as_text(Group(*map(terminal, comparison_sections(self))))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Changed settings, and accuracy and DP gap before and after."""
        first, second = (self[side]["label"] for side in ("first", "second"))
        return notebook(f"{first} → {second}", *comparison_sections(self))


def compare_runs(first: Run, second: Run) -> RunComparison:
    """The changes from the first run to the second.

    Keys: `first`, `second` (label, folder); `changed` (settings and versions: name, first, second);
    `arms` (arms of both runs); `findings` (whether the answers differ, in words); `records` (each
    arm's values before and after as scopes, and their differences, with verdicts by the smaller
    margin); `notes`. An arm's comparison is `paired`
    if the tables are equal, and at least half of the questions of the smaller run are in both runs;
    unpaired rows still count. Raises `FwcError` for runs of different tasks.
    """
    return against_first([first, second])[0]


def against_first(runs: Sequence[Run]) -> list[RunComparison]:
    """Compare each further run with the first, corrected for all of their differences."""
    first, *others = runs
    found = list[list[_ArmInBoth]]()
    for other in others:
        check_same_task(first, other)
        common = [arm for arm in first.arms if arm in other.answers]
        found.append([_compare_arm(first, other, arm) for arm in common])
    margin = min(run.answered.design.margin for run in runs)
    tests = iter(adjust([one.test for of_run in found for one in of_run], margin))
    return [
        _comparison(first, other, [one._replace(test=next(tests)) for one in of_run])
        for other, of_run in zip(others, found, strict=True)
    ]


class _ArmInBoth(NamedTuple):
    """Whether an arm of both runs is paired, the comparison, and the values of each run."""

    paired: bool
    test: ComparedArms
    values: list[Record]


def _comparison(first: Run, second: Run, found: Sequence[_ArmInBoth]) -> RunComparison:
    """The comparison of two runs from that of their common arms, with verdicts."""
    attribute = first.answered.attribute
    records = [record for one in found for record in one.values]
    for _, test, _ in found:
        of_test = test.records(attribute, first.answered.with_examples)
        records += [
            replace(record, arm=test.second, against=BEFORE) for record in of_test
        ]
    judged = Records(records, attribute)
    shown = [
        judged.find(f"{key}_difference", one.test.second, against=BEFORE)
        for one in found
        for key in (first.statistics.lead, "accuracy")
    ]
    label, other = first.label, second.label
    if label == other:
        label, other = str(first.folder), str(second.folder)
    compared = {
        "task": first.task,
        "first": {"label": label, "folder": str(first.folder)},
        "second": {"label": other, "folder": str(second.folder)},
        "changed": list(_changed(first.described, second.described)),
        "arms": [
            {"arm": of.second, "paired": paired, "of": of.scope, "reason": of.reason}
            for paired, of, _ in found
        ],
        "records": judged,
        "findings": [],
        "notes": list(dict.fromkeys(_warnings(first, second))),
    }
    if found:
        tests = [one.test for one in found]
        compared["findings"] = [differing(tests, shown, other, label)]
    return RunComparison(compared)


def _warnings(first: Run, second: Run) -> Iterator[str]:
    """Yield warnings about other differences and missing replies."""
    runs = first, second
    kept: Json = {
        "versions of the table": [run.described.get("fingerprint") for run in runs],
        "protected attributes": [run.described.get("protected") for run in runs],
        "base parities": [run.described["settings"].get("base_parity") for run in runs],
        "task files": [
            without_key(str(run.described.get("task_file") or ""), "use_protected")
            for run in runs
        ],
    }
    if not all(kept["task files"]):  # in older runs
        del kept["task files"]
    differ = [name for name, (before, after) in kept.items() if before != after]
    if differ:
        yield (
            f"The two runs have different {' and '.join(differ)}: their gaps may be of other "
            "groups or populations."
        )
    yield from caveats(
        first.simulated or second.simulated, first.reference or second.reference
    )
    for run in runs:
        yield from lost_lines(run.results.get("rows"))
        if run.missing:
            yield f"{run.label} is incomplete: {run.missing}"
    if any(small_groups(run.answered) for run in runs):
        yield (
            "Gaps here count all groups, including groups that a report does not judge (too few "
            "rows)."
        )
    if not set(first.arms) & set(second.arms):
        yield "The runs have no arm in common."
    for side, run, other in ((BEFORE, first, second), (AFTER, second, first)):
        only = [arm for arm in run.arms if arm not in other.answers]
        if only:
            yield f"Only in {side}: {', '.join(only)}."


_SHOWN_ELSEWHERE = {
    "created",
    "command",
    "settings",
    "versions",
    "calls",
    "arms",
    "sources",
    "reference",
    "rows",
    "task_file",
    "task_folder",
}


def _compare_arm(first: Run, second: Run, arm: str) -> _ArmInBoth:
    """Compare an arm of both runs, without verdicts."""
    before = first.answered.answers[arm]
    after = second.answered.answers[arm]
    asked, asked_after = (
        set(questions.tolist()) for questions in questions_of([before, after])
    )
    versions = {run.described.get("fingerprint") for run in (first, second)}
    same_table = len(versions) == 1
    fewest = min(len(asked), len(asked_after))
    is_paired = same_table and len(asked & asked_after) >= 0.5 * fewest
    if not same_table:  # row ids of different tables must not match
        after = replace(after, row=mapped(after.row, "other:{}".format))
    designs = [replace(run.answered.design, min_group=1) for run in (first, second)]
    fixed = all(design.labels_fixed for design in designs)
    designs = [replace(design, labels_fixed=fixed) for design in designs]
    groups = tuple(dict.fromkeys((*first.groups, *second.groups)))
    samples = samples_of({"first": before, "second": after}, groups, designs[0])
    estimates = [
        ArmEstimates(replace(sample, design=design))
        for sample, design in zip(samples.values(), designs, strict=True)
    ]
    aligned = same_table and asked == asked_after
    test = compare(
        (estimates[0], estimates[1]), BEFORE, arm, aligned, one_strategy=True
    )
    if set(first.groups) != set(second.groups):
        # Gaps of each run are by its own groups, without differences.
        alone = zip((first, second), (before, after), strict=True)
        estimates = [
            ArmEstimates(samples_of({"": answers}, run.groups, designs[0])[""])
            for run, answers in alone
        ]
    keys = [key for key in COMPARED if designs[0].refers or key not in OF_REFERRALS]
    values = []
    for of_run, scope in zip(estimates, (BEFORE, AFTER), strict=True):
        for key in keys:
            attribute = "" if key == "accuracy" else first.answered.attribute
            where: Json = {"arm": arm, "attribute": attribute, "scope": scope}
            values.append(Record(metric=key, value=of_run[key].value, **where))
    return _ArmInBoth(is_paired, test, values)


def _changed(first: Fields, second: Fields) -> Iterator[dict[str, str]]:
    """Yield the keys of run.json with different values, except those shown elsewhere."""
    sections = [
        (first.get(name) or {}, second.get(name) or {})
        for name in ("settings", "versions")
    ]
    for before, other in ((first, second), *sections):
        for name in sorted({*before, *other} - _SHOWN_ELSEWHERE):
            if before.get(name) != other.get(name):
                words = [as_words(side.get(name)) or DASH for side in (before, other)]
                yield {"name": name, "first": words[0], "second": words[1]}


def comparison_sections(compared: Fields) -> tuple[Section, Section]:
    """The section of changes, and the section with every arm before and after."""
    first, second = (compared[side]["label"] for side in ("first", "second"))
    changed = [tuple(entry.values()) for entry in compared["changed"]]
    intro = [*compared["findings"]]
    intro += [] if changed else ["Nothing changed in settings or versions."]
    rows: list[Row] = []
    records: Records = compared["records"]
    for arm in compared["arms"]:
        name = arm["arm"]
        for metric in (BY_KEY[key] for key in COMPARED):
            sides = [
                records.find(metric.key, name, scope=scope) for scope in (BEFORE, AFTER)
            ]
            if any(side.known for side in sides):
                test = records.find(f"{metric.key}_difference", name, against=BEFORE)
                verdict = test.verdict or test.reason or "undefined"
                values = (number(side.value, 1, 100) for side in sides)
                rows.append([name, metric.title, verdict, difference(test), *values])
    headings = ["Asked", "Metric", "Verdict", "Difference", "First", "Second"]
    of_changes = ["What changed", first, second] if changed else ()
    head = Section("", of_changes, changed, intro=" ".join(intro))
    return head, Section("", headings, rows, list(_notes(compared)), keys=2)


def _notes(compared: Fields) -> Iterator[str]:
    arms = compared["arms"]
    yield "Gaps and differences are in points, with 95 % intervals."
    if any(arm["paired"] for arm in arms):
        yield "Paired on the rows that both runs asked about."
    for of in dict.fromkeys(arm["of"] for arm in arms):
        names = ", ".join(arm["arm"] for arm in arms if arm["of"] == of)
        yield f"Differences of {names} hold for {of}."
    yield from (f"{arm['arm']}: {arm['reason']}." for arm in arms if arm["reason"])
    if any(not arm["paired"] for arm in arms):
        yield "The runs asked about different rows: compared as independent samples."
    yield from compared["notes"]
