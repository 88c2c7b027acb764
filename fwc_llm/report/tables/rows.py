"""The report's tables as text: the same cells for the page and for Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fwc_llm.report.numbers import DASH, interval, mean_and_sd, number, p_value, percent, signed

HEADINGS = {
    "accuracy": "Accuracy %",
    "demographic_parity_difference": "DP gap",
    "demographic_parity_ratio": "DP ratio",
    "equalized_odds_difference": "EO gap",
}
COMPARISON_HEADINGS = (
    *("Arms", "Accuracy, points", "Interval", "p (Holm)", "Significant"),
    *("DP gap", "Interval", "p (Holm)", "Significant", "Speaks of", "Answers"),
)
PAPER_HEADINGS = ("Arm", "Accuracy %", "DP gap", "DP ratio", "EO gap")
FLIP_HEADINGS = ("Arm", "Change", "Changed %", "Interval", "No → yes", "Yes → no", "Rows")
ATTRIBUTE_HEADINGS = (
    *("Arm", "Attribute", "DP gap", "Interval", "Noise floor (95 %)", "EO gap", "Interval"),
    *("Rates of yes", "Smallest group"),
)
PROBABILITY_HEADINGS = (
    *("Arm", "AUC", "Brier score", "Calibration error", "Gap of mean P(yes)"),
    *("Equal rates: accuracy %", "Equal rates: DP gap", "Answers", "Coverage"),
)
_DIGITS = {"accuracy": (2, 100.0), "demographic_parity_ratio": (2, 1.0)}
_DEFAULT = (3, 1.0)
_GROUPS_IN_TABLE = 4


@dataclass(frozen=True)
class Cell:
    """One cell: its text, a second, smaller line, and a mark (an adverb in one word, or nothing)."""

    text: str
    small: str = ""
    mark: str = ""


def main_rows(found: Mapping[str, Any]) -> list[tuple[str, list[Cell]]]:
    """Return the main table: per arm the metrics with intervals and marks, coverage, rates per group.

    More than four groups are too wide for it: `rate_rows` has them then.

    Marks: `≠` differs significantly from the first arm, `≈` not, `?` cannot be told; on the DP gap `~` when
    it is within the noise floor.
    """
    wide = len(found["groups"]) <= _GROUPS_IN_TABLE
    return [
        (arm["arm"], [*_metric_cells(arm, found), *(_group_cells(arm) if wide else [])])
        for arm in found["arms"]
    ]


def main_headings(found: Mapping[str, Any]) -> list[str]:
    """Return the headings of the main table, that of the arm left out; each group with its rows."""
    groups = found["groups"] if len(found["groups"]) <= _GROUPS_IN_TABLE else []
    return [*HEADINGS.values(), "Coverage", *(f"Yes | {group['group']} ({group['n']:,})" for group in groups)]


def rate_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the rates per arm and group where there are too many groups for the main table."""
    if len(found["groups"]) <= _GROUPS_IN_TABLE:
        return []
    return [
        [
            arm["arm"],
            name,
            number(group["rate"], 3),
            interval((group["low"], group["high"]), 2),
            str(group["n"]),
        ]
        for arm in found["arms"]
        for name, group in arm["groups"].items()
    ]


def _metric_cells(arm: Mapping[str, Any], found: Mapping[str, Any]) -> list[Cell]:
    pair = (found["arms"][0]["arm"], arm["arm"])
    test: Mapping[str, Any] = next(
        (one for one in found["comparisons"] if (one["first"], one["second"]) == pair), {}
    )
    cells = []
    for metric in HEADINGS:
        value, (digits, scale) = arm[metric], _DIGITS.get(metric, _DEFAULT)
        mark = _mark(test.get(metric))
        chance = value.get("p_value")
        if metric == "demographic_parity_difference" and chance is not None and chance >= 0.05:
            mark += "~"
        ends = interval((value["low"], value["high"]), digits if scale == 1 else 1, scale)
        cells.append(Cell(number(value["value"], digits, scale), "" if ends == DASH else ends, mark))
    cells.append(Cell(percent(arm["coverage"])))
    return cells


def _mark(test: Mapping[str, Any] | None) -> str:
    if test is None or test["difference"] is None:
        return ""
    return {True: "≠", False: "≈"}.get(test["distinguishable"], "?")


def paper_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the paper's summary: per arm the mean ± standard deviation of each repeat's own metrics."""
    if len(found["arms"][0]["accuracy"]["per_repeat"]) < 2:
        return []
    rows = []
    for arm in found["arms"]:
        cells = [arm["arm"]]
        for metric in HEADINGS:
            summary, (digits, scale) = arm[metric]["paper_summary"], _DIGITS.get(metric, _DEFAULT)
            cells.append(mean_and_sd(summary["mean"], summary["sd"], scale, digits))
        rows.append(cells)
    return rows


def _group_cells(arm: Mapping[str, Any]) -> list[Cell]:
    cells = []
    for group in arm["groups"].values():
        ends = interval((group["low"], group["high"]), 2)
        mark = " few" if group["small"] else ""
        cells.append(Cell(number(group["rate"], 3), "" if ends == DASH else ends, mark))
    return cells


def comparison_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return every pair of arms: differences, intervals, p-values, verdicts, and what they speak of."""
    rows = []
    for test in found["comparisons"]:
        accuracy, gap = test["accuracy"], test["demographic_parity_difference"]
        rows.append(
            [
                f"{test['second']} vs {test['first']}",
                *_difference(accuracy, test, 1, 100),
                *_difference(gap, test, 3, 1),
                test["of"],
                f"{test['n']}",
            ]
        )
    return rows


def _difference(one: Mapping[str, Any], test: Mapping[str, Any], digits: int, scale: float) -> list[str]:
    known = one["difference"] is not None and test["reason"]
    return [
        signed(one["difference"], digits, scale),
        interval((one["low"], one["high"]), digits, scale),
        p_value(one["p_adjusted"]),
        "cannot be told" if known else verdict(one),
    ]


def chance_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm the signed gap of two groups, the DP gap, and what chance alone would show."""
    rows = []
    for arm in found["arms"]:
        gap, signed_gap = arm["demographic_parity_difference"], arm["signed_gap"]
        rows.append([arm["arm"], *([] if signed_gap is None else _signed_cells(signed_gap))])
        values = (gap["value"], gap["noise_expected"], gap["noise_95"])
        rows[-1] += [*(number(value, 3) for value in values), p_value(gap["p_value"])]
    return rows


def chance_headings(found: Mapping[str, Any]) -> list[str]:
    """Return the headings of `chance_rows`."""
    signed_gap = found["arms"][0]["signed_gap"]
    of = [] if signed_gap is None else [signed_gap["of"], "Interval"]
    return ["Arm", *of, "DP gap", "Mean by noise", "Noise floor (95 %)", "p"]


def _signed_cells(gap: Mapping[str, Any]) -> list[str]:
    return [signed(gap["value"], 3), interval((gap["low"], gap["high"]), 3)]


def verdict(test: Mapping[str, Any]) -> str:
    """Return whether a test is significant, in a word."""
    return {True: "yes", False: "no"}.get(test["distinguishable"], "undefined")


def context_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return what needs no language model, beside the arms: name, accuracy %, DP gap, EO gap."""
    return [
        [
            row["name"],
            number(row["accuracy"], 2, 100),
            number(row["demographic_parity_difference"], 3),
            number(row["equalized_odds_difference"], 3),
        ]
        for row in found["context"]
    ]


def coverage_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm the coverage of each group and why answers could not be parsed."""
    rows = []
    for arm in found["arms"]:
        reasons = (
            ", ".join(f"{count} {reason}" for reason, count in sorted(arm["unparsed"].items())) or "none"
        )
        groups = []
        for group in arm["groups"].values():
            ends = interval((group["coverage_low"], group["coverage_high"]), 1, 100)
            groups.append(f"{percent(group['coverage'])} ({ends})")
        rows.append([arm["arm"], percent(arm["coverage"]), *groups, reasons])
    return rows


def treatment_rows(found: Mapping[str, Any], metric: str) -> list[list[str]]:
    """Return per arm one metric with unparsed answers dropped, read as no, as yes, and its bounds."""
    digits, scale = _DIGITS.get(metric, _DEFAULT)
    rows = []
    for arm in found["arms"]:
        read = arm["treatments"]
        values = [number(read[name][metric], digits, scale) for name in ("drop", "as-no", "as-yes")]
        rows.append([arm["arm"], *values, interval(read["worst case"][metric], digits, scale)])
    return rows


def flip_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm and direction how often only the protected attribute changed the answer."""
    return [
        [
            arm["arm"],
            f"{flip['group']} told as {flip['told_as']}",
            f"{number(flip['rate'], 1, 100)}",
            interval(flip["interval"], 1, 100),
            str(flip["to_yes"]),
            str(flip["to_no"]),
            str(flip["n"]),
        ]
        for arm in found["arms"]
        for flip in arm["flips"]
    ]


def attribute_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return, with several protected attributes, each attribute by itself."""
    return [
        [
            arm["arm"],
            one["attribute"],
            *_attribute_cells(one),
            ", ".join(f"{level} {number(rate, 3)}" for level, rate in one["rates"].items()),
            f"{min(one['sizes'].values())}",
        ]
        for arm in found["arms"]
        for one in arm["by_attribute"]
    ]


def _attribute_cells(one: Mapping[str, Any]) -> list[str]:
    parity, odds = "demographic_parity_difference", "equalized_odds_difference"
    return [
        number(one[parity], 3),
        interval(one["intervals"][parity], 3),
        number(one["noise_95"], 3),
        number(one[odds], 3),
        interval(one["intervals"][odds], 3),
    ]


def probability_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm with P(yes): ranking, calibration, and what equal-rate thresholds would give."""
    rows = []
    for arm in found["arms"]:
        if p := arm["probabilities"]:
            equal = p["equal_rate_thresholds"]
            rows.append(
                [
                    arm["arm"],
                    number(p["auc"], 3),
                    number(p["brier"], 3),
                    number(p["calibration_error"], 3),
                    number(p["mean_probability_gap"], 3),
                    number(equal["accuracy"], 2, 100),
                    number(equal["demographic_parity_difference"], 3),
                    str(p["n"]),
                    percent(p["coverage"]),
                ]
            )
    return rows


def footnotes(found: Mapping[str, Any]) -> list[str]:
    """Return why values are missing, and what to know before believing the rest."""
    notes = [
        f"{DASH} {HEADINGS[metric]} of {arm['arm']}: {reason}."
        for arm in found["arms"]
        for metric, reason in arm["reasons"].items()
        if metric in HEADINGS
    ]
    return [*notes, *found["notes"]]


def group_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the groups of the test rows: name, rows (flagged when few), true share of yes."""
    return [
        [group["group"], f"{group['n']:,}{' (few)' if group['small'] else ''}", percent(group["base_rate"])]
        for group in found["groups"]
    ]


def certificate_rows(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a selection's certificate without what the table of its examples shows anyway."""
    shown = []
    for name, value in certificate.items():
        if name in {"rows", "weights", "fingerprint", "seed"}:
            continue
        if name == "slots" and isinstance(value, list):
            value = [
                " ".join(map(str, slot.values())) if isinstance(slot, Mapping) else slot for slot in value
            ]
        shown.append((name.replace("_", " "), certificate_text(value)))
    return shown


def certificate_text(value: Any) -> str:
    """Return one entry of a selection's certificate as a reader wants it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {certificate_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(certificate_text(item) for item in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return DASH if value is None else str(value)


def provenance(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what decides a run besides its command: settings, versions, hashes."""
    found = [("Folder's date", certificate_text(about.get("created")))]
    found.append(("Model", certificate_text(about["model"])))
    if about.get("returned_models"):
        found.append(("Model as returned", certificate_text(about["returned_models"])))
    if about.get("parameters"):
        found.append(("Parameters", certificate_text(about["parameters"])))
    settings = {name: value for name, value in about["settings"].items() if value not in (None, [], {})}
    found.append(("Settings", certificate_text(settings)))
    found.append(("Data, sha256", certificate_text(about.get("fingerprint"))))
    found.append(("Versions", certificate_text(about.get("versions", {}))))
    return found
