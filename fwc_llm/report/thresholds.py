"""The answers at the run's threshold beside those that were given (docs/protocol.md, "A threshold")."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fwc_llm.report.numbers import DASH, interval, number, percent, signed
from fwc_llm.report.read import Run, read_run
from fwc_llm.runs.thresholds import NEVER

HEADINGS = (
    *("Arm", "Threshold", "Pool rows", "Accuracy %, as given", "at the threshold", "Difference", "Interval"),
    *("DP gap, as given", "at the threshold", "Difference", "Interval", "Ties", "Coverage"),
)
_METRICS = (("accuracy", 1, 100.0), ("demographic_parity_difference", 3, 1.0))
_RULES = {
    "fit": "the most accurate",
    "base-rate": "that at which, as nearly as can be, as many are answered yes as have the label yes",
}


def threshold_section(run: Run) -> dict[str, Any] | None:
    """What the run's threshold changes, as plain values; None for a run without one.

    `rule`, `words` how it was chosen, and per arm: its thresholds as results.json has them, and for accuracy
    and DP gap both values with intervals and the difference with its own, paired row by row.
    """
    rule = run.results.get("threshold")
    if rule is None or not run.at_threshold:
        return None
    said = {arm["arm"]: arm.get("threshold") for arm in run.results["arms"]}
    arms = [_arm(run, arm, said[arm]) for arm in run.arms if said.get(arm)]
    return {"rule": rule, "words": _words(rule, arms), "arms": arms} if arms else None


def _arm(run: Run, arm: str, said: Mapping[str, Any]) -> dict[str, Any]:
    from fwc_llm.metrics.answers import samples_of
    from fwc_llm.metrics.contrasts import contrast
    from fwc_llm.metrics.estimates import estimate

    given = run.answered.answers[arm]
    moved = run.at_threshold[arm]
    both = {"given": given, "moved": _with_examples(moved, given.examples)}
    samples = samples_of(both, run.groups, run.answered.labels_fixed)
    first, second = (estimate(samples[name]) for name in both)
    found: dict[str, Any] = {"arm": arm, **{k: said.get(k) for k in ("per_repeat", "ties", "unknown")}}
    if not samples["moved"].parsed.any() or not samples["given"].parsed.any():
        return found
    tested = contrast(first, second)
    found["coverage"] = second.coverage.value
    for metric, one in (
        ("accuracy", tested.accuracy_of_these),
        ("demographic_parity_difference", tested.parity_of_these),
    ):
        found[metric] = {
            "given": _estimate(getattr(first, metric)),
            "at_threshold": _estimate(getattr(second, metric)),
            "difference": one.difference,
            "low": one.low,
            "high": one.high,
        }
    return found


def _with_examples(answers: Any, examples: Any) -> Any:
    from dataclasses import replace

    return replace(answers, examples=examples)


def _estimate(one: Any) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


def _words(rule: float | str, arms: Sequence[Mapping[str, Any]]) -> str:
    how = "set beforehand"
    if str(rule) in _RULES:
        how = (
            "chosen on rows of the pool that were asked first and are neither test rows nor examples: "
            f"{_RULES[str(rule)]}{_shares(arms) if rule == 'base-rate' else ''}"
        )
    return (
        f"Here the answer is yes where P(yes) is at least the threshold, one for all groups, {how}. "
        "Everything else is about the answers as they were given. Intervals take the threshold as it is, and "
        "speak of these examples. Ties are test rows exactly at the threshold."
    )


def _shares(arms: Sequence[Mapping[str, Any]]) -> str:
    """For every arm both shares, a mean over its repeats; ties can keep them far apart."""
    said = []
    for arm in arms:
        found = [one for one in arm["per_repeat"] or () if one.get("share_of_yes") is not None]
        if found:
            yes, label = (fmean(one[name] for one in found) for name in ("share_of_yes", "base_rate"))
            said.append(f"{arm['arm']} {percent(yes)} against {percent(label)}")
    return f" ({'; '.join(said)})" if said else ""


def threshold_rows(section: Mapping[str, Any] | None) -> list[list[str]]:
    """Return one row per arm, under `HEADINGS`; none for a run without a threshold."""
    rows = []
    for arm in section["arms"] if section else ():
        cells = [arm["arm"], _thresholds(arm["per_repeat"]), _held(arm["per_repeat"])]
        for metric, digits, scale in _METRICS:
            cells += _compared(arm.get(metric), digits, scale)
        rows.append([*cells, str(arm["ties"]), percent(arm.get("coverage"))])
    return rows


def _compared(one: Mapping[str, Any] | None, digits: int, scale: float) -> list[str]:
    if one is None:
        return [DASH] * 4
    values = [_with_ends(one[side], digits, scale) for side in ("given", "at_threshold")]
    ends = interval((one["low"], one["high"]), digits, scale)
    return [*values, signed(one["difference"], digits, scale), ends]


def _with_ends(one: Mapping[str, float], digits: int, scale: float) -> str:
    ends = interval((one["low"], one["high"]), digits, scale)
    return number(one["value"], digits, scale) + ("" if ends == DASH else f" ({ends})")


def _thresholds(found: Sequence[Mapping[str, Any]]) -> str:
    """The threshold, or the lowest and highest of several repeats."""
    values = [one["threshold"] for one in found]
    known = sorted({value for value in values if value is not None})
    if not known:
        return DASH
    shown = ["never yes" if value >= NEVER else number(value, 3) for value in (known[0], known[-1])]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _held(found: Sequence[Mapping[str, Any]]) -> str:
    """The held rows over all repeats, and how many of them have no P(yes)."""
    rows = sum(one.get("rows") or 0 for one in found)
    unknown = rows - sum(one.get("known") or 0 for one in found)
    return (f"{rows:,}" + (f", {unknown:,} without P(yes)" if unknown else "")) if rows else DASH


def threshold_table(folder: str | Path) -> RenderableType | None:
    """The answers at the threshold for rich to print, a line a value; None for a run without one."""
    section = threshold_section(read_run(folder))
    rows = threshold_rows(section)
    if section is None or not rows:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(("", *(row[0] for row in rows))):
        table.add_column(Text(heading), justify="right" if place else "left", overflow="fold")
    metric = ""
    for place, heading in enumerate(HEADINGS[1:], 1):
        metric = heading.partition(",")[0] if "," in heading else metric
        name = (
            heading
            if place < 4 or "," in heading or heading in {"Ties", "Coverage"}
            else f"{metric}, {heading}"
        )
        table.add_row(Text(name), *(Text(row[place]) for row in rows))
    title = Text(f"By P(yes), --threshold {section['rule']}", style="bold")
    return Group(title, table, Text(section["words"], style="dim"))
