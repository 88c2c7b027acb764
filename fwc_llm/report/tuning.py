"""Sections on a tuning: its candidates on the pool rows."""

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from fwc_llm.files import read_text
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.number_format import interval, number
from fwc_llm.report.table_model import Section
from fwc_llm.sanitize import Fields, parse_json

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


def tuning_goal(folder: Path) -> Fields:
    """The tuning goal of a run: `metric`, `target`; {} without a tuning."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        goal = parse_json(read_text(folder / FILE_NAME))["goal"]
        return {"metric": str(goal["metric"]), "target": float(goal["target"])}
    return {}


def read_tuning(folder: Path) -> Section:
    """The section on a run's tuning; empty without a complete tuning."""
    with suppress(
        OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration
    ):
        tuning = parse_json(read_text(folder / FILE_NAME))
        if tuning["front"] and tuning["verdict"]:
            note = f"On the pool rows, with 95 % intervals. {_DROPPED}"
            headings = _headings(tuning)
            front = Section("All candidates", headings, _rows(tuning), intro=note)
            intro = f"{tuning['verdict']}. {_assumed(tuning)}".strip()
            return Section("How the examples were tuned", intro=intro, parts=[front])
    return Section("")


def _headings(tuning: Fields) -> list[str]:
    metric = BY_KEY[tuning["goal"]["metric"]]
    return ["Candidate", "Seed", "Rows", "Accuracy %", metric.title, "Status"]


def _assumed(tuning: Fields) -> str:
    return ASSUMED if str(tuning.get("model")).startswith("surrogate") else ""


def _rows(tuning: Fields) -> list[list[str]]:
    """The rows of all candidates, named by what varies between them."""
    front = tuning["front"]
    varied = [
        key for key in _TOLD if len({line.get(key) for line in front} - {None, 0}) > 1
    ]
    return [_candidate(line, varied, tuning["goal"]["metric"]) for line in front]


def _candidate(line: Fields, varied: Collection[str], metric: str) -> list[str]:
    """The cells of a candidate; `varied` keys are part of its name."""
    varying = "".join(
        _TOLD[key].format(line[key])
        for key in varied
        if line.get(key) not in (None, 0, "given")
    )
    how_written = BY_KEY[metric].digits, BY_KEY[metric].scale
    values = {"accuracy": (1, 100), "metric": how_written}
    measured = (
        f"{number(line[name], *how)} ({interval(line[f'{name}_interval'], *how)})"
        for name, how in values.items()
    )
    return [
        f"{kind_words(str(line['kind']))}{varying}",
        str(line.get("seed", "")),
        str(int(line["rows"])),
        *measured,
        next((status for status in ("chosen", "dropped") if line[status]), ""),
    ]


def kind_words(kind: str) -> str:
    """A candidate's kind as text, with slots as "Female 0:8" (no:yes)."""
    return _SLOTS.sub(r"\1 \2:\3", kind).replace(",", ", ").replace(",  ", ", ")


def candidates(tuning: Fields, folder: Path, verbose: bool = False) -> Section:
    """The candidates for the terminal: those that answered all rows, or all."""
    mark = ", SIMULATED" * bool(tuning.get("simulated"))
    title = f"Candidates on the pool rows ({tuning['calls']:,} questions){mark}"
    rows = [row for row in _rows(tuning) if verbose or row[-1] != "dropped"]
    where = f"All {len(tuning['front'])} are in {folder / FILE_NAME}."
    notes = [*filter(None, [_assumed(tuning)]), where]
    return Section(title, _headings(tuning), rows, notes)
