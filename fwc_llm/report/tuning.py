"""Sections on a tuning: its candidates, and results on pool rows and test rows."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fwc_llm.files import read_text
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.records import Record
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
_DROPPED = "Dropped: not among the best on the rows asked until then."
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
    tuning: Mapping[str, Any], stats: Statistics | None = None, verbose: bool = True
) -> dict[str, Any]:
    """The verdict on a tuning, a caution, and two tables, as texts.

    Unless `verbose`, without the candidates that were dropped.
    """
    metric = BY_KEY[tuning["goal"]["metric"]]
    front = tuning["front"]
    where = ("pool", "test")
    titles = [f"{of}, {rows}" for of in ("Accuracy %", metric.title) for rows in where]
    pool: dict[str, Any] = {}
    # Not comparable else: the test uses the winner's wording in every arm.
    if len({line.get("template") for line in front} - {None}) < 2:
        pool = {line["candidate"]: line for line in front}
    pool["tuned"] = next((line for line in front if line["chosen"]), {})
    validation = []
    for arm in ("tuned", "zero", "balanced", "fwc"):
        line = pool.get(arm, {})
        right = stats.of("accuracy", arm) if stats else Record()
        if stats and right.known:
            gap = stats.of(metric.key, arm)
            shares = (number(x, 1, 100) for x in (line.get("accuracy"), right.value))
            gaps = (number(x, 3) for x in (line.get("metric"), gap.value))
            validation.append([arm, *shares, *gaps])
    varied = [
        key for key in _TOLD if len({line.get(key) for line in front} - {None, 0}) > 1
    ]
    return {
        "verdict": str(tuning["verdict"]),
        "assumed": ASSUMED if str(tuning.get("model")).startswith("surrogate") else "",
        "headings": ["Candidate", "Seed", "Rows", "Accuracy %", metric.title, "Status"],
        "front": [
            _candidate(line, varied) for line in front if verbose or not line["dropped"]
        ],
        "validation_headings": ["Asked", *titles],
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
        next((status for status in ("chosen", "dropped") if line[status]), ""),
    ]


def kind_words(kind: str) -> str:
    """A candidate's kind as text, with slots as "Female 0:8" (no:yes)."""
    return _SLOTS.sub(r"\1 \2:\3", kind).replace(",", ", ").replace(",  ", ", ")


def tuned(described: Mapping[str, Any] | None) -> Section:
    """The return value of `read_tuning` as a section; empty for None."""
    title = "How the examples were tuned"
    if described is None:
        return Section(title)
    note = f"On the pool rows, with 95 % intervals. {_DROPPED}"
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
    """The candidates for the terminal: those that answered all rows, or all."""
    described = describe_tuning(tuning, verbose=verbose)
    mark = ", SIMULATED" * bool(tuning.get("simulated"))
    title = f"Candidates on the pool rows ({tuning['calls']:,} questions){mark}"
    where = f"All {len(tuning['front'])} are in {folder / FILE_NAME}."
    notes = [*filter(None, [described["assumed"]]), where]
    return Section(title, described["headings"], described["front"], notes)
