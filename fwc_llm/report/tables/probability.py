"""What P(yes) says, as text cells: calibration per group, and what one threshold for all would answer."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.report.numbers import DASH, interval, number, percent, signed

CALIBRATION_HEADINGS = (
    *("Arm", "Group", "Answers", "Mean P(yes), %", "Share of yes, %", "Difference, points", "Interval"),
    *("Calibration error", "By noise: mean", "By noise: 95 %"),
)
BIN_HEADINGS = (
    "Arm",
    "Group",
    "P(yes), %",
    "Answers",
    "Rows",
    "Mean P(yes), %",
    "Share of yes, %",
    "Interval",
)
THRESHOLD_HEADINGS = (
    *("Arm", "Threshold", "Yes from", "Accuracy %", "DP gap", "Rate of yes, %", "Per group, %"),
    "Answers just at it",
)
TENTH_HEADINGS = (THRESHOLD_HEADINGS[0], *THRESHOLD_HEADINGS[2:])
ALL = "all"
OPTIMISTIC = (
    "Thresholds but that of one half are chosen on these very rows, so that they look better here than they "
    "will elsewhere. Half the gain: at least half of the accuracy that the most accurate one gains over one "
    "answer for all. Held out: chosen on one half of the rows and used on the other."
)
FIXED_LABELS = (
    "These rows were drawn with shares of yes that the design chose: calibration speaks of them, not of a "
    "population."
)
_NAMES = {
    "one_half": "one half",
    "most_accurate": "most accurate",
    "base_rate": "as many yes as labels",
    "least_gap_keeping_half": "least gap, half the gain",
    "held_out": "the same, held out",
    "least_gap": "least gap of all",
}
_BIN = 0.1


def calibration_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm and group how P(yes) compares with the labels, all groups together first."""
    return [
        [
            arm["arm"],
            group,
            f"{one['n']:,}",
            number(one["mean"], 1, 100),
            number(one["share"], 1, 100),
            signed(one["difference"], 1, 100),
            interval((one["low"], one["high"]), 1, 100),
            *(number(one[name], 3) for name in ("error", "expected", "noise_95")),
        ]
        for arm, p in _arms(found)
        for group, one in ((ALL, p["calibration_of_all"]), *p["calibration_by_group"].items())
    ]


def bin_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm, group and tenth of P(yes) the stated and the true share, with its interval."""
    rows = []
    for arm, p in _arms(found):
        for group, one in p["calibration_by_group"].items():
            bins = one["bins"]
            for place, start in enumerate(bins["start"]):
                rows.append(
                    [
                        arm["arm"],
                        group,
                        f"{100 * start:.0f} to {100 * (start + _BIN):.0f}",
                        f"{bins['questions'][place]:,}",
                        f"{bins['rows'][place]:,}",
                        number(bins["mean"][place], 1, 100),
                        number(bins["share"][place], 1, 100),
                        interval((bins["low"][place], bins["high"][place]), 1, 100),
                    ]
                )
    return rows


def threshold_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm what the thresholds that somebody may want would answer."""
    return [row for arm, p in _arms(found) for row in _thresholds(arm["arm"], p["thresholds"])]


def _thresholds(arm: str, thresholds: Mapping[str, Any]) -> Iterator[list[str]]:
    limits, points = thresholds["one_half_limits"], dict(thresholds["chosen"])
    for name in _NAMES:
        if name == "held_out":
            yield _held_out(arm, thresholds[name])
            continue
        point = points[name]
        if point is None:
            yield [arm, _NAMES[name], *[DASH] * (len(THRESHOLD_HEADINGS) - 2)]
            continue
        cells = _point(point)
        if name == "one_half":
            cells[1] += _in_brackets(interval(limits["accuracy"], 1, 100))
            cells[2] += _in_brackets(interval(limits["demographic_parity_difference"], 3))
        yield [arm, _NAMES[name], *cells]


def tenth_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return per arm what thresholds from 0.1 to 0.9 would answer."""
    return [[arm["arm"], *_point(point)] for arm, p in _arms(found) for point in p["thresholds"]["tenths"]]


def _point(point: Mapping[str, Any]) -> list[str]:
    return [
        "never" if point["threshold"] is None else f"{point['threshold']:.6g}",
        number(point["accuracy"], 2, 100),
        number(point["demographic_parity_difference"], 3),
        number(point["share"], 1, 100),
        ", ".join(f"{group} {number(rate, 1, 100)}" for group, rate in point["rates"].items()),
        f"{point['ties']:,}",
    ]


def _held_out(arm: str, held: Mapping[str, Any]) -> list[str]:
    accuracy, gap = number(held["accuracy"], 2, 100), number(held["demographic_parity_difference"], 3)
    return [arm, _NAMES["held_out"], DASH, accuracy, gap, *[DASH] * 3]


def short_calibration(found: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return names of rows, and headings with their cells, for a narrow screen."""
    rows = calibration_rows(found)
    columns = [
        ("answers", [row[2] for row in rows]),
        ("P(yes) %", [row[3] for row in rows]),
        ("yes %", [row[4] for row in rows]),
        ("difference", [row[5] + _in_brackets(row[6]) for row in rows]),
        ("error", [row[7] for row in rows]),
        ("by noise", [row[9] for row in rows]),
    ]
    return _named(rows, found), columns


def short_thresholds(found: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The same of what thresholds would answer; intervals are in the tables of the whole report."""
    rows = threshold_rows(found)
    headings = ("yes from", "accuracy %", "DP gap", "yes %", "", "just at it")
    cells = [(head, [row[place].split(" (")[0] for row in rows]) for place, head in enumerate(headings, 2)]
    return _named(rows, found), [(head, column) for head, column in cells if head]


def _named(rows: list[list[str]], found: Mapping[str, Any]) -> list[str]:
    return [" · ".join(row[:2]) if len(found["arms"]) > 1 else row[1] for row in rows]


def probability_notes(found: Mapping[str, Any]) -> list[str]:
    """Return what to know before believing thresholds and calibration; nothing without P(yes)."""
    arms = list(_arms(found))
    if not arms:
        return []
    notes = [OPTIMISTIC]
    if any(p["labels_fixed"] for _, p in arms):
        notes.append(FIXED_LABELS)
    for arm, p in arms:
        if p["thresholds"]["different_values"] == 1:
            notes.append(f"{arm['arm']}: P(yes) is the same for all rows; it depends on nothing in them.")
        elif ties := p["thresholds"]["chosen"]["one_half"]["ties"]:
            notes.append(
                f"{arm['arm']}: {ties:,} of {p['n']:,} answers lie just at one half. They count as yes, and "
                "another rule would make them no."
            )
        if p["coverage"] < 1:
            shares = ", ".join(f"{name} {percent(share)}" for name, share in p["coverage_by_group"].items())
            notes.append(f"{arm['arm']}: not every row has P(yes) ({shares}); the rest is left out here.")
    return notes


def _arms(found: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return ((arm, arm["probabilities"]) for arm in found["arms"] if arm["probabilities"])


def _in_brackets(text: str) -> str:
    return "" if text == DASH else f" ({text})"
