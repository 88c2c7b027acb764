"""Tidy CSV: one line a number, so that any tool can group, filter and plot it."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.metrics.cells import METRICS
from fwc_llm.report.tables.tidy_audit import audit_lines

COLUMNS = (
    "run",
    "task",
    "model",
    "simulated",
    "arm",
    "repeat",
    "group",
    "metric",
    "value",
    "low",
    "high",
    "n",
    "reference",
    "attribute",
    "against",
    "basis",
    "note",
)


def tidy_csv(document: Mapping[str, Any]) -> str:
    """Return the document's numbers as CSV with the columns `COLUMNS`; an undefined value is empty.

    `repeat` is empty for the mean over repeats, `group` for a number of all rows. Text that a spreadsheet
    would read as a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in document["runs"]:
        head = {
            "run": harmless(run["label"]),
            "task": harmless(document["task"]),
            "model": harmless(run["about"]["model"]),
            "simulated": str(run["simulated"]).lower(),
            "reference": str(run["reference"]).lower(),
        }
        for line in _rows(run["rows"] or {"groups": ()}):
            writer.writerow(head | line)
        for arm in run["statistics"]["arms"]:
            for line in _numbers(arm):
                writer.writerow(head | {"arm": harmless(arm["arm"])} | line)
        for line in audit_lines(run["audit"]):
            writer.writerow(head | {name: harmless(value) for name, value in line.items()})
        for line in _lines(run["statistics"]):
            writer.writerow(head | line)
    return out.getvalue()


def _lines(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The reference lines, in the place of an arm."""
    n = found["arms"][0]["n"]
    for one in (found.get("reference_lines") or {"lines": ()})["lines"]:
        for metric in METRICS:
            value = {name: one[metric][name] for name in ("value", "low", "high")}
            yield {"arm": harmless(one["line"]), "metric": metric, "n": n, "reference": "true", **value}


def _rows(rows: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of each group before the run; of no arm."""
    for one in rows["groups"]:
        of = {"group": harmless(one["group"]), "n": one["read"]}
        yield from (of | {"metric": f"rows_{name}", "value": one[name]} for name in ("read", "kept", "lost"))
        for reason, count in one["reasons"].items():
            yield of | {"metric": f"rows_lost: {reason}", "value": count}


def _numbers(arm: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    n = arm["n"]
    for metric in METRICS:
        value = arm[metric]
        yield {"metric": metric, "value": value["value"], "low": value["low"], "high": value["high"], "n": n}
        for repeat, single in enumerate(value["per_repeat"]):
            yield {"metric": metric, "repeat": repeat, "value": single, "n": n // len(value["per_repeat"])}
    yield {"metric": "coverage", "value": arm["coverage"], "n": n}
    gap = arm["demographic_parity_difference"]
    yield {"metric": "noise_floor_expected", "value": gap["noise_expected"], "n": n}
    yield {"metric": "noise_floor_95", "value": gap["noise_95"], "n": n}
    for name, group in arm["groups"].items():
        of = {"group": harmless(name), "n": group["n"]}
        yield of | {"metric": "rate", "value": group["rate"], "low": group["low"], "high": group["high"]}
        yield of | {"metric": "true_positive_rate", "value": group["true_positive_rate"]}
        yield of | {"metric": "false_positive_rate", "value": group["false_positive_rate"]}
        ends = {"low": group["coverage_low"], "high": group["coverage_high"]}
        yield of | {"metric": "coverage", "value": group["coverage"]} | ends
    yield from _probabilities(arm["probabilities"] or {"calibration_by_group": {}})


def _probabilities(p: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """How far the mean P(yes) of each group is from its share of yes, and the error of its bins."""
    for name, one in p["calibration_by_group"].items():
        of = {"group": harmless(name), "n": one["n"]}
        ends = {"low": one["low"], "high": one["high"]}
        yield of | {"metric": "mean_probability", "value": one["mean"]}
        yield of | {"metric": "calibration_difference", "value": one["difference"]} | ends
        yield of | {"metric": "calibration_error", "value": one["error"]}
        yield of | {"metric": "calibration_error_by_noise_95", "value": one["noise_95"]}


def harmless(text: Any) -> Any:
    """Return text with an apostrophe in front where a spreadsheet would read a formula; else the value."""
    if not isinstance(text, str):
        return text
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
