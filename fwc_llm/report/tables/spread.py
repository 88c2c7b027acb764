"""Where the spread comes from, and how often a model agrees with itself, as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.report.numbers import interval, number, percent

TITLE = "Where the spread comes from"
CAPTION = (
    "Standard deviation of one repeat’s value that each source gives it, with 95 % intervals; accuracy in "
    "points, the DP gap (with its sign) as a share."
)
AGAIN_TITLE = "The same prompt asked again"
AGAIN_HEADINGS = (
    *("Arm", "Same answer twice %", "Interval", "Prompts with both answers %", "Prompts"),
    *("AUC", "Brier score", "Calibration error"),
)
AGAIN_NOTE = (
    "Ranking and calibration are of P(yes) from samples: the share of yes among a prompt’s answers. With few "
    "samples that share is coarse, which adds to the Brier score and to the calibration error."
)
_PARTS = (
    ("rows", "Test rows"),
    ("examples", "Examples"),
    ("order", "Order"),
    ("wording", "Wording"),
    ("order_and_wording", "Order × wording"),
    ("repetition", "Asked again"),
)
_METRICS = (("accuracy", "accuracy", 2, 100.0), ("demographic_parity_difference", "DP gap", 3, 1.0))
NOT_MEASURED = "not measured"


def spread_headings(found: Mapping[str, Any]) -> list[str]:
    """The headings of `spread_rows`."""
    return ["Arms", "Value", *(heading for _, heading in _shown(found))]


def spread_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Two rows per family of arms: the standard deviations that rows, examples and ways of asking give."""
    return [
        [family, name, *(_cell(split[metric], part, digits, scale) for part, _ in _shown(found))]
        for family, split in _families(found).items()
        for metric, name, digits, scale in _METRICS
    ]


def spread_notes(found: Mapping[str, Any]) -> Iterator[str]:
    """What the parts are, and where the share of what was not measured stands."""
    yield (
        "Test rows: other rows of the same design. Examples: another draw of them, what is left of the "
        "spread over repeats; for arms without examples it only shows how rough this is. Order, wording: "
        "another of those that were asked, with the same rows and examples. Asked again: the same prompts. "
        "Where there is no interval, there are too few to give one."
    )
    if not _measured(found, "repetition"):
        yield (
            "Nothing was asked again (--samples): whether the model answers the same twice is not measured. "
            "If it does not, that is in the test rows, and in order and wording."
        )


def again_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """One row per arm whose prompts were asked again: its agreement with itself, and P(yes) from samples."""
    rows = []
    for arm in found["arms"]:
        if again := arm.get("repetition"):
            p = again["probabilities"] or {}
            rows.append(
                [
                    arm["arm"],
                    number(again["self_agreement"], 1, 100),
                    interval((again["low"], again["high"]), 1, 100),
                    percent(again["changed"]),
                    f"{again['prompts']:,}",
                    *(number(p.get(name), 3) for name in ("auc", "brier", "calibration_error")),
                ]
            )
    return rows


def was_varied(found: Mapping[str, Any]) -> bool:
    """Whether the run asked in several ways, or several times."""
    return any(_measured(found, part) for part in ("order", "wording", "repetition"))


def _families(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        (arm.get("variation") or {"family": arm["arm"]})["family"]: arm["variance"] for arm in found["arms"]
    }


def _shown(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts that have a column: that of order and wording together only where both were varied."""
    both = _measured(found, "order_and_wording")
    return [(part, heading) for part, heading in _PARTS if part != "order_and_wording" or both]


def _measured(found: Mapping[str, Any], part: str) -> bool:
    return any(arm["variance"]["accuracy"].get(part) is not None for arm in found["arms"])


def _cell(split: Mapping[str, Any], part: str, digits: int, scale: float) -> str:
    if split.get(part) is None:
        return NOT_MEASURED
    shown = number(split[part] ** 0.5, digits, scale)
    ends = split["intervals"][part]
    return shown if ends is None else f"{shown} ({interval([end**0.5 for end in ends], digits, scale)})"
