"""What `tune` tried and chose, as tables: the front, and validation beside the test."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fwc_llm.report.numbers import interval, number

FILE_NAME = "tuning.json"
FRONT_HEADINGS = ("Candidate", "Seed", "Rows", "Accuracy %", "Metric", "Status")
_SLOTS = re.compile(r"([^,:=]+):no=(\d+),\1:yes=(\d+)")  # shown as "Female 0:8", no to yes
_METRICS = {
    "dp": ("DP gap", "demographic_parity_difference"),
    "eo": ("EO gap", "equalized_odds_difference"),
    "dp_ratio": ("DP ratio", "demographic_parity_ratio"),
}


def read_tuning(folder: Path) -> dict[str, Any] | None:
    """What a folder says of its tuning; None for a run that was not tuned, or not to its end."""
    try:
        found = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        complete = isinstance(found["front"], list) and isinstance(found["verdict"], str)
        rows = front_rows(found) if complete else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if rows else None


def metric_name(tuning: Mapping[str, Any]) -> str:
    """The metric that was aimed at, as tables name it."""
    return _METRICS[tuning["goal"]["metric"]][0]


def front_rows(tuning: Mapping[str, Any]) -> list[list[str]]:
    """One row per candidate: those asked about all rows first, nearest to the target first."""
    return [
        [
            kind_words(str(line["kind"])),
            str(line.get("seed", "")),
            str(int(line["rows"])),
            f"{number(line['accuracy'], 1, 100)} ({interval(line['accuracy_interval'], 1, 100)})",
            f"{number(line['metric'], 3)} ({interval(line['metric_interval'], 3)})",
            _status(line),
        ]
        for line in tuning["front"]
    ]


def kind_words(kind: str) -> str:
    """How a candidate was chosen, its slots in words."""
    return _SLOTS.sub(r"\1 \2:\3", kind).replace(",", ", ").replace(",  ", ", ")


def _status(line: Mapping[str, Any]) -> str:
    if line["chosen"]:
        return "chosen"
    if line["dropped"]:
        return "dropped"
    return "front" if line["front"] else ""


def validation_rows(tuning: Mapping[str, Any], results: Mapping[str, Any]) -> list[list[str]]:
    """Accuracy and metric of the winner, zero-shot and balanced on the pool rows, and on the test rows."""
    key = _METRICS[tuning["goal"]["metric"]][1]
    tested = {arm["arm"]: arm for arm in results["arms"]}
    chosen = next((line for line in tuning["front"] if line["chosen"]), None)
    pool = {line["candidate"]: line for line in tuning["front"]}
    rows = []
    for arm, line in (("tuned", chosen), *((name, pool.get(name)) for name in ("zero", "balanced", "fwc"))):
        if arm not in tested:
            continue
        cells = [number(None), number(None)]
        if line is not None:
            cells = [number(line["accuracy"], 1, 100), number(line["metric"], 3)]
        rows.append([arm, *cells, number(tested[arm]["accuracy"], 1, 100), number(tested[arm][key], 3)])
    return rows


def validation_headings(tuning: Mapping[str, Any]) -> list[str]:
    """The headings of `validation_rows`."""
    name = metric_name(tuning)
    return [
        "Arm",
        "Accuracy %, pool rows",
        f"{name}, pool rows",
        "Accuracy %, test rows",
        f"{name}, test rows",
    ]


def front_table(tuning: Mapping[str, Any], most: int) -> RenderableType:
    """The first `most` candidates for rich to print."""
    headings = [metric_name(tuning) if name == "Metric" else name for name in FRONT_HEADINGS]
    rows = front_rows(tuning)
    more = [Text(f"… and {len(rows) - most} more in {FILE_NAME}", style="dim")] if len(rows) > most else []
    title = f"Candidates on the pool rows ({tuning['calls']:,} questions)"
    if tuning.get("simulated"):
        title += ", SIMULATED"
    return Group(_table(title, headings, rows[:most]), *more)


def validation_table(tuning: Mapping[str, Any], results: Mapping[str, Any]) -> RenderableType:
    """Validation and test side by side for rich to print."""
    title = "Where it was chosen, and where it was tested: the difference is the optimism of choosing"
    return _table(title, validation_headings(tuning), validation_rows(tuning, results))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=Text(title), title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
