"""Where every mark of the charts of P(yes) stands: calibration per group, rates and gap by threshold.

As in charts.py nothing here is markup, and colours are an arm's; groups differ by shape and by dash.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fwc_llm.report.html.charts import WIDTH, Axis, axis

DASHES = ("", "7 3", "2 3", "8 3 2 3")
_HEIGHT, _TOP, _BOTTOM, _LEFT = 330, 14, 288, 46
_MOST = len(DASHES)  # groups in one chart


def shown_groups(found: Mapping[str, Any]) -> list[str]:
    """The groups that the charts show: all, or the largest where there are more than dashes."""
    names = [group["group"] for group in found["groups"]]
    if len(names) <= _MOST:
        return names
    sizes = {group["group"]: group["n"] for group in found["groups"]}
    largest = sorted(names, key=lambda name: -sizes[name])[:_MOST]
    return [name for name in names if name in largest]


def calibration_by_group(arm: Mapping[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    """Return the chart of one arm's stated against true shares: a mark a group and tenth, with its limits."""
    x, y = _percent(0.0, 1.0, True), axis(0.0, 1.0, _BOTTOM, _TOP, percent=True)
    marks = []
    for shape, name in enumerate(groups):
        bins = arm["probabilities"]["calibration_by_group"].get(name, {}).get("bins")
        if bins is None:
            continue
        most = max(bins["questions"])
        marks += [
            {
                "shape": shape,
                "x": x.at(mean),
                "y": y.at(share),
                "ends": (y.at(low), y.at(high)),
                "size": round(5 + 7 * (count / most) ** 0.5, 1),
            }
            for mean, share, low, high, count in zip(
                *(bins[key] for key in ("mean", "share", "low", "high", "questions")), strict=True
            )
        ]
    return {"width": WIDTH, "height": _HEIGHT, "x": x, "y": y, "marks": marks}


def by_threshold(arm: Mapping[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    """Return the chart of one arm's rates per group, accuracy and gap at every threshold, as steps."""
    thresholds = arm["probabilities"]["thresholds"]
    curve = thresholds["curve"]
    # The last threshold is infinite; where it is reached does not matter, so it stands at the right end.
    finite = [value for value in curve["threshold"] if value is not None]
    low, high = min([*finite, 0.5]), max([*finite, 0.5])
    margin = max(0.02, 0.04 * (high - low))
    x = _percent(max(0.0, low - margin), min(1.0, high + margin))
    y = axis(0.0, 1.0, _BOTTOM, _TOP, percent=True)
    places = [x.at(value) if value is not None else x.end for value in curve["threshold"]]

    def steps(values: Iterable[float | None]) -> list[tuple[float, float]]:
        """A threshold answers as the next value of P(yes) does: each step reaches to the left."""
        found, before = [], x.start
        for place, value in zip(places, values, strict=True):
            if value is not None:
                found += [(before, y.at(value)), (place, y.at(value))]
            before = place
        return found

    gap = steps(curve["demographic_parity_difference"])
    least = thresholds["chosen"]["least_gap_keeping_half"]
    return {
        "width": WIDTH,
        "height": _HEIGHT,
        "x": x,
        "y": y,
        "rates": [
            {"dash": DASHES[shape], "points": steps(curve["rates"][name]), "name": name}
            for shape, name in enumerate(groups)
            if name in curve["rates"]
        ],
        "accuracy": steps(curve["accuracy"]),
        "gap": [(gap[0][0], y.start), *gap, (gap[-1][0], y.start)] if gap else [],
        "half": x.at(0.5),
        "least": None if least is None else x.at(least["threshold"]),
    }


def _percent(low: float, high: float, percent: bool = False) -> Axis:
    return axis(low, high, _LEFT, WIDTH - 14, percent=percent)
