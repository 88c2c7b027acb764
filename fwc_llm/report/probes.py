"""What the options --counterfactual and --logprobs asked for, as columns of the terminal's tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.report.numbers import DASH, interval, number, percent

MOST_DIRECTIONS = 4
FLIPS = "If only the protected attribute changed: answers that changed, %, with 95 % intervals"
PROBABILITIES = "P(yes): how well it ranks and how true it is"
NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to judge"
)
Columns = list[tuple[str, list[str]]]


def probes(found: Mapping[str, Any]) -> Iterator[tuple[str, Columns, str]]:
    """Yield a title, headings with a cell for each arm, and a note, for each probe that has an answer."""
    arms: Sequence[Mapping[str, Any]] = found["arms"]
    if any(arm["flips"] for arm in arms):
        yield FLIPS, *_flips(arms)
    if any(arm["probabilities"] for arm in arms):
        note = "AUC 0.5 is chance; a Brier score of 0.25 is a coin's; the report has the curves."
        yield PROBABILITIES, _probabilities(arms), note


def _flips(arms: Sequence[Mapping[str, Any]]) -> tuple[Columns, str]:
    """A column a direction: those that change most, where there are many."""
    by_arm = [{(flip["group"], flip["told_as"]): flip for flip in arm["flips"]} for arm in arms]
    largest: dict[tuple[str, str], float] = {}
    for flips in by_arm:
        for direction, flip in flips.items():
            largest[direction] = max(largest.get(direction, 0.0), flip["rate"] or 0.0)
    shown = sorted(largest, key=lambda direction: -largest[direction])[:MOST_DIRECTIONS]
    columns = [
        (f"{group} told as {told_as}", [_flip(flips.get((group, told_as))) for flips in by_arm])
        for group, told_as in sorted(shown, key=list(largest).index)
    ]
    left = len(largest) - len(shown)
    note = "+ became yes, − became no."
    return columns, f"{note} The report has {left} more directions, which change less." if left else note


def _flip(flip: Mapping[str, Any] | None) -> str:
    if flip is None or flip["rate"] is None:
        return DASH
    ends = interval(flip["interval"], 1, 100)
    return f"{number(flip['rate'], 1, 100)} ({ends}) +{flip['to_yes']} −{flip['to_no']}"


def _probabilities(arms: Sequence[Mapping[str, Any]]) -> Columns:
    columns: Columns = [
        (heading, [number(p[key], 3) if (p := arm["probabilities"]) else DASH for arm in arms])
        for key, heading in (
            ("auc", "AUC"),
            ("brier", "Brier score"),
            ("calibration_error", "calibration error"),
            ("mean_probability_gap", "gap of mean P(yes)"),
        )
    ]
    known = [percent(p["coverage"]) if (p := arm["probabilities"]) else percent(0.0) for arm in arms]
    return [*columns, ("answers with P(yes)", known)]
