"""P(yes) as a section: ranking, calibration per group, and the answers at one threshold for all."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.metrics.probability import LEAST_CERTAIN
from fwc_llm.report.format import DASH, interval, number, percent
from fwc_llm.report.tables import Cell, Row, Section, difference

Stats = Mapping[str, Any]
_THRESHOLDS = ("Yes from", "Accuracy %", "DP gap", "Rate of yes, %", "Per group, %", "Answers just at it")
_NAMES = {
    "one_half": "one half",
    "most_accurate": "most accurate",
    "base_rate": "as many yes as labels",
    "least_gap_keeping_half": "least gap, half the gain",
    "held_out": "the same, held out",
    "least_gap": "least gap of all",
}


def probabilities(stats: Stats) -> Section:
    """Return all that P(yes) says; empty where no arm gave it."""
    intro = (
        "The model also gave its probability of yes, for the share of the rows shown as coverage; it is "
        "unknown where yes and no together are less than 5 % of what the model may say. A threshold per "
        "group, fitted on one half of the rows and used on the other, equalises the rates at the accuracy "
        "shown. An AUC of 0.5 is chance, a Brier score of 0.25 a coin's."
    )
    rows = [
        [
            arm["arm"],
            *(number(p[key], 3) for key in ("auc", "brier")),
            DASH if is_clipped(arm) else number(p["calibration_error"], 3),
            number(p["mean_probability_gap"], 3),
            number(p["equal_rate_thresholds"]["accuracy"], 2, 100),
            number(p["equal_rate_thresholds"]["demographic_parity_difference"], 3),
            f"{p['n']:,}",
            percent(p["coverage"]),
        ]
        for arm, p in _arms(stats)
    ]
    headings = [
        *("Arm", "AUC", "Brier score", "Calibration error", "Gap of mean P(yes)"),
        *("Equal rates: accuracy %", "Equal rates: DP gap", "Answers", "Coverage"),
    ]
    parts = [calibration(stats), thresholds(stats)] if rows else []
    return Section("Probabilities", headings, rows, notes(stats), intro, name="probabilities", parts=parts)


def calibration(stats: Stats) -> Section:
    """Return per arm and group how P(yes) compares with the labels, all groups together first."""
    rows = [
        [
            arm["arm"],
            group,
            f"{figures['n']:,}",
            number(figures["mean"], 1, 100),
            number(figures["share"], 1, 100),
            difference(figures, 1, 100),
            *(number(figures[name], 3) for name in ("error", "expected", "noise_95")),
        ]
        for arm, p in _arms(stats)
        if not is_clipped(arm)
        for group, figures in (("all", p["calibration_of_all"]), *p["calibration_by_group"].items())
    ]
    intro = (
        "Mean P(yes) less the true share of yes, with 95 % intervals over rows: above 0, yes is overstated. "
        "The calibration error is that of ten bins; beside it stands what P(yes) that is right would show."
    )
    headings = [
        *("Arm", "Group", "Answers", "Mean P(yes), %", "Share of yes, %", "Difference, points"),
        *("Calibration error", "By noise: mean", "By noise: 95 %"),
    ]
    return Section("Is P(yes) right, in each group?", headings, rows, (), intro, 2, "calibration")


def thresholds(stats: Stats) -> Section:
    """Return per arm what the thresholds that somebody may want would answer."""
    rows = [row for arm, p in _arms(stats) for row in _chosen(arm["arm"], p["thresholds"])]
    intro = (
        "Yes where P(yes) is at the threshold or above. In brackets the 95 % interval, where the threshold "
        "was not chosen on these rows."
    )
    headings = ["Arm", "Threshold", *_THRESHOLDS]
    return Section("What one threshold for all would answer", headings, rows, (), intro, 2, "thresholds")


def _chosen(arm: str, thresholds: Mapping[str, Any]) -> Iterator[Row]:
    limits, points = thresholds["one_half_limits"], thresholds["chosen"]
    for key, name in _NAMES.items():
        if key == "held_out":
            threshold = thresholds[key]
            accuracy, gap = number(threshold["accuracy"], 2, 100), threshold["demographic_parity_difference"]
            yield [arm, name, DASH, accuracy, number(gap, 3), *[DASH] * 3]
        elif points[key] is None:
            yield [arm, name, *[DASH] * len(_THRESHOLDS)]
        elif key == "one_half":
            start, accuracy, gap, *rest = _point(points[key])
            ends = interval(limits["demographic_parity_difference"], 3)
            wide = Cell(accuracy, interval(limits["accuracy"], 1, 100))
            yield [arm, name, start, wide, gap if ends == DASH else Cell(gap, ends), *rest]
        else:
            yield [arm, name, *_point(points[key])]


def _point(point: Mapping[str, Any]) -> list[str]:
    return [
        "never" if point["threshold"] is None else f"{point['threshold']:.6g}",
        number(point["accuracy"], 2, 100),
        number(point["demographic_parity_difference"], 3),
        number(point["share"], 1, 100),
        ", ".join(f"{group} {number(rate, 1, 100)}" for group, rate in point["rates"].items()),
        f"{point['ties']:,}",
    ]


def notes(stats: Stats) -> list[str]:
    """Return what to know before believing thresholds and calibration; nothing without P(yes)."""
    arms = list(_arms(stats))
    if not arms:
        return []
    lines = [
        "Thresholds but that of one half are chosen on these very rows, and look better here than elsewhere; "
        "held out: chosen on one half of the rows and used on the other."
    ]
    if any(p["labels_fixed"] for _, p in arms):
        lines.append(
            "These rows were drawn with shares of yes that the design chose: calibration speaks of them, not "
            "of a population."
        )
    for arm, p in arms:
        if p["thresholds"]["different_values"] == 1:
            lines.append(f"{arm['arm']}: P(yes) is the same for all rows; it depends on nothing in them.")
        elif ties := p["thresholds"]["chosen"]["one_half"]["ties"]:
            lines.append(
                f"{arm['arm']}: {ties:,} of {p['n']:,} answers lie just at one half and count as yes."
            )
        if is_clipped(arm):
            lines.append(
                f"{arm['arm']}: P(yes) is below {LEAST_CERTAIN} or above {1 - LEAST_CERTAIN} in "
                f"{percent(p['clipped'])} of the answers, which says too little to show a calibration."
            )
        if p["coverage"] < 1:
            shares = ", ".join(f"{name} {percent(share)}" for name, share in p["coverage_by_group"].items())
            lines.append(f"{arm['arm']}: not every row has P(yes) ({shares}); the rest is left out here.")
    return lines


def is_clipped(arm: Mapping[str, Any]) -> bool:
    """Return whether most of an arm's P(yes) lies next to 0 or 1, so that no calibration is shown."""
    return bool(arm["probabilities"]["clipped"] > 0.5)


def _arms(stats: Stats) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return ((arm, arm["probabilities"]) for arm in stats["arms"] if arm["probabilities"])
