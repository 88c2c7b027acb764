"""Sections on a tuning: its candidates, and results on pool rows and test rows."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fwc_llm.files import read_text
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.number_format import interval, number
from fwc_llm.report.table_model import Section
from fwc_llm.sanitize import parse_json

FILE_NAME = "tuning.json"
# Forms of the surrogate with equal fit to recordings disagree about the sign (evals/surrogate.md).
ASSUMED = (
    "The surrogate is a simulation: even the sign of the effect of examples on its gap is an "
    "assumption, so neither the winner nor the test says anything about another model."
)
_MOST_BEST = 3  # most candidates in the terminal without --verbose
_TOLD = {
    "order": "@{}",
    "m": ", m={}",
    "template": ", {}",
}  # formats of keys that distinguish candidates
_SLOTS = re.compile(
    r"([^,:=]+):no=(\d+),\1:yes=(\d+)"
)  # shown as "Female 0:8" (no:yes)


def tuning_goal(folder: Path) -> Mapping[str, Any]:
    """The tuning goal of a run: `metric`, `target`; {} without a tuning."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        goal = parse_json(read_text(folder / FILE_NAME))["goal"]
        return {"metric": str(goal["metric"]), "target": float(goal["target"])}
    return {}


def read_tuning(folder: Path, stats: Statistics) -> dict[str, Any] | None:
    """A run's tuning as texts (see `describe_tuning`); None without a complete tuning."""
    try:
        tuning = parse_json(read_text(folder / FILE_NAME))
        if tuning["front"] and tuning["verdict"]:
            return describe_tuning(tuning, stats)
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None


def describe_tuning(
    tuning: Mapping[str, Any], stats: Statistics | None = None
) -> dict[str, Any]:
    """The verdict on a tuning, a caution, and two tables, as texts."""
    metric = BY_KEY[tuning["goal"]["metric"]]
    titles = "Accuracy %", metric.title
    where = [f"{title}, {rows}" for rows in ("pool", "test") for title in titles]
    tested = {arm.arm for arm in stats.arms} if stats else set()
    pool = {line["candidate"]: line for line in tuning["front"]}
    chosen = next((line for line in tuning["front"] if line["chosen"]), None)
    templates = {line.get("template") for line in pool.values()} - {None}
    if len(templates) > 1:
        # not comparable: the test uses the winner's wording in every arm, the tuning did not
        pool = {}
    pool["tuned"] = chosen
    values = {
        key: {line.get(key) for line in tuning["front"]} - {None, 0} for key in _TOLD
    }
    varied = [key for key in _TOLD if len(values[key]) > 1]
    validation = []
    for arm in ("tuned", "zero", "balanced", "fwc"):
        if stats and arm in tested:
            line = pool.get(arm) or {"accuracy": None, "metric": None}
            sides = (
                (line["accuracy"], line["metric"]),
                (stats.of("accuracy", arm).value, stats.of(metric.key, arm).value),
            )
            cells = [
                text for a, gap in sides for text in (number(a, 1, 100), number(gap, 3))
            ]
            validation.append([arm, *cells])
    return {
        "verdict": str(tuning["verdict"]),
        "assumed": ASSUMED if str(tuning.get("model")).startswith("surrogate") else "",
        "headings": ["Candidate", "Seed", "Rows", "Accuracy %", metric.title, "Status"],
        "front": [_candidate(line, varied) for line in tuning["front"]],
        "validation_headings": ["Asked", *where],
        "validation": validation,
    }


def _candidate(line: Mapping[str, Any], varied: Collection[str]) -> list[str]:
    """The cells of a candidate; `varied` keys are part of its name."""
    how = "".join(
        _TOLD[key].format(line[key])
        for key in varied
        if line.get(key) not in (None, 0, "given")
    )
    return [
        f"{kind_words(str(line['kind']))}{how}",
        str(line.get("seed", "")),
        str(int(line["rows"])),
        f"{number(line['accuracy'], 1, 100)} ({interval(line['accuracy_interval'], 1, 100)})",
        f"{number(line['metric'], 3)} ({interval(line['metric_interval'], 3)})",
        next((status for status in ("chosen", "dropped", "front") if line[status]), ""),
    ]


def kind_words(kind: str) -> str:
    """A candidate's kind as text, with slots as "Female 0:8" (no:yes)."""
    return _SLOTS.sub(r"\1 \2:\3", kind).replace(",", ", ").replace(",  ", ", ")


def tuned(described: Mapping[str, Any] | None) -> Section:
    """The return value of `read_tuning` as a section; empty for None."""
    title = "How the examples were tuned"
    if described is None:
        return Section(title)
    note = (
        "On the pool rows, with 95 % intervals. Front: no other candidate that answered all rows "
        "is "
        "better in accuracy and gap. Dropped: clearly worse, or not among the best, on the rows "
        "asked until "
        "then."
    )
    front = Section(
        "All candidates", described["headings"], described["front"], intro=note
    )
    intro = f"{described['verdict']}. {described['assumed']}".strip()
    return Section(title, intro=intro, parts=[validation(described), front])


def validation(described: Mapping[str, Any]) -> Section:
    """Accuracy and metric on the pool rows, on which the winner was chosen, and on the test
    rows.
    """
    title = (
        "Pool rows (used for the choice) and test rows: their difference is the optimism of the "
        "choice"
    )
    return Section(title, described["validation_headings"], described["validation"])


def candidates(
    tuning: Mapping[str, Any], folder: Path, verbose: bool = False
) -> Section:
    """The candidates for the terminal: the best three, zero and balanced, or all."""
    described = describe_tuning(tuning)
    mark = ", SIMULATED" * bool(tuning.get("simulated"))
    title = f"Candidates on the pool rows ({tuning['calls']:,} questions){mark}"
    notes = list(filter(None, [described["assumed"]]))
    where = f"All {len(described['front'])} are in {folder / FILE_NAME}."
    if verbose:
        return Section(
            title, described["headings"], described["front"], [*notes, where]
        )
    fixed = [
        row
        for row in described["front"]
        if row[0] in ("zero", "balanced") and not row[1]
    ]
    best = [
        row
        for row in described["front"]
        if row[5] in ("chosen", "front") and row not in fixed
    ]
    rows = [[row[0], row[3], row[4], row[5]] for row in (*best[:_MOST_BEST], *fixed)]
    for row, (name, seed, *_) in zip(rows, best[:_MOST_BEST], strict=False):
        row[0] = f"{name}, seed {seed}" if name == "balanced" else name
    headings = [described["headings"][column] for column in (0, 3, 4, 5)]
    if any(row[3] == "front" for row in rows):
        where = f"front: no other candidate is better in accuracy and gap. {where}"
    return Section(title, headings, rows, [*notes, where])
