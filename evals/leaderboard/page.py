"""The page of all files: tables in Markdown, which the site makes sortable."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from evals.leaderboard.protocol import FORMAT, ROWS, TASKS
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as, read_text, write_whole
from fwc_llm.report.table_model import escaped
from fwc_llm.sanitize import parse_json
from fwc_llm.tasks import load_task

Entry = dict[str, Any]
_KINDS = {"natural": "Rows as they fall", "parity": "Base rates 0.5 apart"}
_ARMS = {"zero": "zero-shot", "fwc": "16 examples"}
_NUMBERS = {
    "ratio": "ratio", "equalized odds": "equalized_odds", "accuracy": "accuracy",
    "follows the rows": "informed", "answered": "coverage",
}  # fmt: skip
_PROBES = (
    "group changed", "first name changed", "proxies changed", "contradictions", "20 rows at once: changed",
    "their accuracy",
)  # fmt: skip
_COSTS = ("rows", "missing", "dollars", "seconds an answer (5 to 95 %)", "requests", "fwc-llm", "file")


def read_entry(path: Path) -> Entry:
    """A file that somebody handed in; `FwcError` where it is none."""
    with failing_as(FwcError, f"{path} is no file of the leaderboard: "):
        entry = parse_json(read_text(path))
    right = isinstance(entry, dict) and entry.get("format") == FORMAT
    types = {"model": str, "rows": int, "api": str, "missing": dict, "parts": dict}
    types |= {"simulated": bool, "reference": bool}
    if not right or not all(type(entry.get(key)) is kind for key, kind in types.items()):
        raise FwcError(f"{path} is no file of the leaderboard: python -m evals.leaderboard run writes one")
    return {**entry, "file": path.name}


def build(folder: Path, out: Path) -> None:
    """Write the page of all files in a folder; `FwcError` names a file that is none."""
    paths = sorted(folder.glob("*.json"))
    entries = [read_entry(path) for path in paths]
    for path, entry in zip(paths, entries, strict=True):
        try:
            list(_tables([entry]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FwcError(f"{path} is no file of the leaderboard: {error!r:.100}") from None
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    write_whole(text + "\n".join(_tables(entries)), out)


def ranks(entries: Sequence[Entry], task: str) -> list[tuple[Entry, str]]:
    """The entries that were asked a task in the order of the table, each with its rank or why it has none."""
    asked = [
        (entry, arm["gap"], _no_rank(entry, task, arm["informed"]))
        for entry in entries
        if (arm := _arm(entry, task, "natural", "zero"))
    ]
    gaps = [gap for _, gap, reason in asked if not reason]
    placed: list[tuple[Any, Entry, str]] = [
        ((True, entry["simulated"], entry["reference"], entry["model"]), entry, reason)
        for entry, _, reason in asked
        if reason
    ]
    for entry, gap, reason in asked:
        if not reason:
            first = 1 + sum(other["high"] < gap["low"] for other in gaps)
            last = len(gaps) - sum(other["low"] > gap["high"] for other in gaps)
            shown = f"{first}{f'–{last}' * (last > first)} of {len(gaps)}"
            placed.append(((False, first, last, entry["model"]), entry, shown))
    return [(entry, shown) for _, entry, shown in sorted(placed, key=lambda each: each[0])]


def _no_rank(entry: Entry, task: str, informed: Mapping[str, float]) -> str:
    if entry["simulated"] or entry["reference"]:
        return "SIMULATED" if entry["simulated"] else "reference"
    if entry["rows"] < ROWS or f"{task}-natural" in entry["missing"]:
        return "partial"
    if load_task(task).simulated:
        return "simulated rows"
    worse = informed["high"] < 0
    return "worse than a coin" if worse else "" if informed["low"] > 0 else "cannot be told from a coin"


def _arm(entry: Entry, task: str, kind: str, arm: str) -> dict[str, Any]:
    part = entry["parts"].get(f"{task}-{kind}")
    return part["arms"].get(arm) or {} if part else {}


def _tables(entries: Sequence[Entry]) -> Iterator[str]:
    known = [(task, entry, rank) for task in TASKS for entry, rank in ranks(entries, task)]
    for kind, arm in product(_KINDS, _ARMS):
        first = (kind, arm) == ("natural", "zero")
        rows = [
            [marked(entry), task, *[rank] * first, value(made["gap"]), _verdict(made)]
            + [value(made[key]) for key in _NUMBERS.values()]
            for task, entry, rank in known
            if (made := _arm(entry, task, kind, arm))
        ]
        headings = ["model", "task", *["rank"] * first, "gap", "verdict", *_NUMBERS]
        yield from table(f"{_KINDS[kind]}, {_ARMS[arm]}", headings, rows)
    probes = [[marked(entry), task, *_probes(entry, task)] for task, entry, _ in known]
    yield from table("Probes, zero-shot", ["model", "task", *_PROBES], probes)
    calibration = [
        [marked(entry), task, group, value(each, "+")]
        for task, entry, _ in known
        for group, each in _arm(entry, task, "natural", "zero")["calibration"].items()
    ]
    yield from table("Calibration by group, zero-shot", ["model", "task", "group", "difference"], calibration)
    yield from table("Cost, time and files", ["model", *_COSTS], [_costs(entry) for entry in entries])


def _verdict(arm: Mapping[str, Any]) -> str:
    like_a_coin = arm["informed"]["low"] <= 0 <= arm["informed"]["high"]
    return f"{arm['gap']['verdict'] or '–'}{', like a coin' * like_a_coin}"


def _probes(entry: Entry, task: str) -> Iterator[str]:
    probed, joint = _arm(entry, task, "probes", "zero"), _arm(entry, task, "natural", "zero")
    probes = [each | each["changed"] for each in probed.get("probes", ())]
    named = ([each for each in probes if each["probe"] == name] for name in ("names", "proxies"))
    for directions in (probed.get("flips", ()), *named):
        most = max(directions, key=lambda each: each["low"] or 0.0, default=None)
        yield "–" if most is None else f"{value(most)} {most['group']} → {most['told_as']}"
    yield value(joint.get("contradictions"))
    everyone = {each["group"]: each for each in joint["probes"] if each["probe"] == "rows"}.get("all", {})
    lost = f", {everyone['lost']} lost" if everyone.get("lost") else ""
    yield from (f"{value(everyone.get('changed'))}{lost}", value(everyone.get("accuracy"), "+"))


def _costs(entry: Entry) -> list[str]:
    parts = list(entry["parts"].values())
    times = [part["seconds"] for part in parts if not entry["simulated"] and not entry["reference"]]
    ends = [f"{f(each[key] for each in times):.2g}" for f, key in ((min, "low"), (max, "high")) if times]
    seconds = f"{median(each['value'] for each in times):.2g} ({' to '.join(ends)})" if times else "–"
    reasons = {
        why: [name for name, each in entry["missing"].items() if each == why]
        for why in entry["missing"].values()
    }
    missing = "; ".join(f"{', '.join(names)}: {why[:80]}" for why, names in reasons.items()) or "nothing"
    dollars = "–" if not times else "unknown" if entry["dollars"] is None else f"{entry['dollars']:.2f}"
    requests = f"{sum(part['requests'] for part in parts)}"
    version = f"{entry['versions']['fwc-llm']}" if parts else "–"
    return [marked(entry), f"{entry['rows']}", missing, dollars, seconds, requests, version, entry["file"]]


def marked(entry: Entry) -> str:
    """The model's name with what everybody must know of its answers."""
    marks = {"SIMULATED": "simulated", "reference, no language model": "reference"}
    shown = [mark for mark, key in marks.items() if entry[key]] + ["partial"] * (entry["rows"] < ROWS)
    return " · ".join([entry["model"], entry["api"], *shown])


def value(each: Mapping[str, Any] | None, sign: str = "") -> str:
    """A number with its interval, or a dash."""
    if not each or each["value"] is None:
        return "–"
    ends = "" if each["low"] is None else f" ({each['low']:{sign}z.2f} to {each['high']:{sign}z.2f})"
    return f"{each['value']:{sign}z.2f}{ends}"


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A titled table in Markdown; what comes from files is escaped."""
    yield from (f"## {title}\n", f"| {' | '.join(headings)} |", "|---" * len(headings) + "|")
    yield from (f"| {' | '.join(map(escaped, row))} |" for row in rows)
    yield ""
