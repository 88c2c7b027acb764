"""Sections on P(yes): ranking, calibration by group, results at common thresholds."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.metrics.predicted_probabilities import LEAST_CERTAIN
from fwc_llm.report.number_format import DASH, interval, number, percent
from fwc_llm.report.table_model import Row, Scale, Section, TableCell, difference

Stats = Mapping[str, Any]
_THRESHOLDS = ("Yes from", "Accuracy %", "DP gap", "Rate of yes, %", "Per group, %", "Ties")
_NAMES = {
    "one_half": "one half",
    "most_accurate": "most accurate",
    "base_rate": "share of yes = base rate",
}


def probabilities(stats: Stats) -> Section:
    """The section on P(yes); empty if no arm has P(yes)."""
    intro = (
        "The model also gave its probability of yes. Coverage is the share of rows with a known "
        "P(yes): it "
        "is unknown if yes and no together have less than 5 % probability. An AUC of 0.5 is "
        "chance; a "
        "constant P(yes) of 0.5 has a Brier score of 0.25."
    )
    rows = [
        [
            arm["arm"],
            *(number(p[key], 3) for key in ("auc", "brier")),
            DASH if is_clipped(arm) else number(p["calibration_error"], 3),
            number(p["mean_probability_gap"], 3),
            f"{p['n']:,}",
            percent(p["coverage"]),
        ]
        for arm, p in _arms(stats)
    ]
    headings = [
        "Arm",
        "AUC",
        "Brier score",
        "Calibration error",
        "Gap of mean P(yes)",
        "Answers",
        "Coverage",
    ]
    if rows:
        parts = [calibration(stats), thresholds(stats)]
    else:
        parts = []
    return Section(
        "Probabilities", headings, rows, notes(stats), intro, name="probabilities", parts=parts
    )


def calibration(stats: Stats) -> Section:
    """Calibration of P(yes) by arm and group; the group "all" comes first."""
    rows = [
        [
            arm["arm"],
            group,
            f"{figures['n']:,}",
            number(figures["mean"], 1, 100),
            number(figures["share"], 1, 100),
            difference(figures, 1, 100),
            number(figures["error"], 3),
        ]
        for arm, p in _arms(stats)
        if not is_clipped(arm)
        for group, figures in (("all", p["calibration_of_all"]), *p["calibration_by_group"].items())
    ]
    intro = (
        "The difference is mean P(yes) less the true share of yes, with 95 % intervals over rows: "
        "above 0, "
        "P(yes) is too high. The calibration error uses ten bins; noise raises it, most with few "
        "rows."
    )
    headings = [
        *("Arm", "Group", "Answers", "Mean P(yes), %", "Share of yes, %", "Difference, points"),
        "Calibration error",
    ]
    scales = {5: Scale(-0.5, 0.5, 0.0, factor=100.0)}
    title = "Calibration of P(yes) per group"
    return Section(title, headings, rows, (), intro, 2, "calibration", scales=scales)


def thresholds(stats: Stats) -> Section:
    """The results of each arm at candidate thresholds, such as the most accurate."""
    rows = [row for arm, p in _arms(stats) for row in _chosen(arm["arm"], p["thresholds"])]
    intro = (
        "The answer is yes if P(yes) is at least the threshold; ties are rows exactly at it. In "
        "brackets the "
        "95 % interval, for the threshold that was not chosen on these rows."
    )
    headings = ["Arm", "Threshold", *_THRESHOLDS]
    return Section(
        "Results at one threshold for all groups", headings, rows, (), intro, 2, "thresholds"
    )


def _chosen(arm: str, thresholds: Mapping[str, Any]) -> Iterator[Row]:
    limits = thresholds["one_half_limits"]
    for key, name in _NAMES.items():
        point = thresholds["chosen"][key]
        accuracy = TableCell(number(point["accuracy"], 2, 100))
        gap = TableCell(number(point["dp_gap"], 3))
        if key == "one_half":
            ends = interval(limits["dp_gap"], 3)
            accuracy = TableCell(accuracy.text, interval(limits["accuracy"], 1, 100))
            gap = TableCell(gap.text, "" if ends == DASH else ends)
        yield [
            *(arm, name, "never" if point["threshold"] is None else f"{point['threshold']:.6g}"),
            *(accuracy, gap, number(point["share"], 1, 100)),
            ", ".join(f"{group} {number(rate, 1, 100)}" for group, rate in point["rates"].items()),
            f"{point['ties']:,}",
        ]


def notes(stats: Stats) -> list[str]:
    """Caveats on thresholds and calibration; [] without P(yes)."""
    arms = list(_arms(stats))
    if not arms:
        return []
    lines = [
        "Thresholds other than 0.5 are chosen on these rows, and look better here than on new rows."
    ]
    if any(p["labels_fixed"] for _, p in arms):
        lines.append(
            "The design fixed the share of yes among these rows: calibration holds for them, not "
            "for a "
            "population."
        )
    for arm, p in arms:
        own = []
        if p["thresholds"]["different_values"] == 1:
            own.append("P(yes) is the same for all rows: it does not depend on the row.")
        elif ties := p["thresholds"]["chosen"]["one_half"]["ties"]:
            own.append(f"{ties:,} of {p['n']:,} answers are exactly 0.5 and count as yes.")
        if is_clipped(arm):
            own.append(
                f"P(yes) is below {LEAST_CERTAIN} or above {1 - LEAST_CERTAIN} in "
                f"{percent(p['clipped'])} of "
                "the answers: too extreme to assess calibration."
            )
        if p["coverage"] < 1:
            shares = ", ".join(
                f"{name} {percent(share)}" for name, share in p["coverage_by_group"].items()
            )
            own.append(
                f"not every row has P(yes) ({shares}); rows without P(yes) are left out here."
            )
        lines += [f"{arm['arm']}: {line}" for line in own]
    return lines


def is_clipped(arm: Mapping[str, Any]) -> bool:
    """Whether most P(yes) are too near 0 or 1 to show calibration."""
    return bool(arm["probabilities"]["clipped"] > 0.5)


def _arms(stats: Stats) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return ((arm, arm["probabilities"]) for arm in stats["arms"] if arm["probabilities"])
