"""Sections on P(yes): ranking, calibration by group."""

from collections.abc import Iterator

from fwc_llm.metrics.predicted_probabilities import LEAST_CERTAIN
from fwc_llm.metrics.statistics import ArmFacts, Statistics
from fwc_llm.number_format import number, percent
from fwc_llm.report.table_model import Cells, Row, Scale, Section, difference, valued


def probabilities(stats: Statistics) -> Section:
    """The section on P(yes); empty if no arm has P(yes)."""
    source = (
        "The model also gave its probability of yes. Coverage is the share of rows with a known "
        "P(yes): it is unknown if yes and no together have less than 5 % probability."
    )
    if stats.stated:
        source = (
            "P(yes) is stated: the number in the model’s reply. Coverage is the share of rows with "
            "such a number."
        )
    chance = (
        "An AUC of 0.5 is chance; a constant P(yes) of 0.5 has a Brier score of 0.25."
    )
    intro = f"{source} {chance}"
    rows: list[Row] = []
    for arm in _arms(stats):
        auc, brier, error, gap, coverage = (
            stats.of(metric, arm.arm)
            for metric in (
                "auc",
                "brier",
                "calibration_error",
                "mean_p_yes_gap",
                "p_yes_coverage",
            )
        )
        calibrated = "–" if _is_clipped(stats, arm) else number(error.value)
        cells: Cells = [
            valued(auc, 3, 1),
            number(brier.value),
            calibrated,
            number(gap.value),
        ]
        rows.append([arm.arm, *cells, f"{brier.n:,}", percent(coverage.value)])
    headings = [
        *(
            "Arm",
            "AUC",
            "Brier score",
            "Calibration error",
            "Gap of mean P(yes)",
            "Answers",
        ),
        "Coverage",
    ]
    parts = [calibration(stats)] if rows else []
    return Section(
        "Stated probabilities" if stats.stated else "Probabilities",
        headings,
        rows,
        notes(stats),
        intro,
        name="probabilities",
        parts=parts,
    )


def calibration(stats: Statistics) -> Section:
    """Calibration of P(yes) by arm and group; the group "all" comes first."""
    rows: list[Row] = []
    for arm in _arms(stats):
        for group in ("", *(group.group for group in stats.groups)):
            found = stats.of("calibration", arm.arm, group)
            if found.known and not _is_clipped(stats, arm):
                mean, share, error = (
                    stats.of(metric, arm.arm, group).value
                    for metric in ("mean_p_yes", "base_rate", "calibration_error")
                )
                numbers: Cells = [
                    number(mean, 1, 100),
                    number(share, 1, 100),
                    difference(found),
                ]
                rows.append(
                    [arm.arm, group or "all", f"{found.n:,}", *numbers, number(error)]
                )
    intro = (
        "The difference is mean P(yes) less the true share of yes, with 95 % intervals over rows: "
        "above 0, P(yes) is too high. The calibration error uses ten bins; noise raises it, most "
        "with few rows."
    )
    headings = [
        *(
            "Arm",
            "Group",
            "Answers",
            "Mean P(yes), %",
            "Share of yes, %",
            "Difference, points",
        ),
        "Calibration error",
    ]
    scales = {5: Scale(-0.5, 0.5, 0.0, factor=100.0)}
    title = f"Calibration of {'stated ' * stats.stated}P(yes) per group"
    return Section(title, headings, rows, (), intro, 2, "calibration", scales=scales)


def notes(stats: Statistics) -> list[str]:
    """Caveats on calibration; [] without P(yes)."""
    arms = list(_arms(stats))
    lines = list[str]()
    if arms and stats.labels_fixed:
        lines.append(
            "The design fixed the share of yes among these rows: calibration holds for them, not "
            "for a population."
        )
    for arm in arms:
        n = stats.of("brier", arm.arm).n or 0
        if _is_clipped(stats, arm):
            clipped = percent(stats.of("p_yes_clipped", arm.arm).value)
            lines.append(
                f"{arm.arm}: P(yes) is below {LEAST_CERTAIN} or above {1 - LEAST_CERTAIN} in "
                f"{clipped} of the answers: too extreme to assess calibration."
            )
        if n < arm.n:
            known = {
                group.group: stats.of("p_yes_coverage", arm.arm, group.group).value
                for group in stats.groups
            }
            shares = ", ".join(
                f"{name} {percent(share)}" for name, share in known.items()
            )
            lines.append(
                f"{arm.arm}: not every row has P(yes) ({shares}); rows without P(yes) are left out "
                "here."
            )
    return lines


def _is_clipped(stats: Statistics, arm: ArmFacts) -> bool:
    """Whether most P(yes) are too near 0 or 1 to show calibration."""
    return stats.of("p_yes_clipped", arm.arm).value > 0.5


def _arms(stats: Statistics) -> Iterator[ArmFacts]:
    return (arm for arm in stats.arms if stats.of("brier", arm.arm).known)
