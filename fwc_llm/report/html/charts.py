"""Where every mark of the report's charts stands, in the units of its SVG.

The charts are drawn by the templates as inline SVG rather than by a plotting library: they take their
colours from the page (light, dark, print), stay sharp and selectable, and add nothing to install. Each
function returns plain numbers and texts; nothing here is markup.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fwc_llm.report.html.labels import box, place_labels, wrapped

WIDTH = 340.0
_GUTTER = 116.0  # where a chart with a name before every line has its axis
_HEIGHTS = (330.0, 420.0, 520.0, 640.0)  # of the chart whose labels need room


@dataclass(frozen=True)
class Axis:
    """A linear axis: data from `low` to `high` on pixels from `start` to `end`, with ticks."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """Return the place of a value, rounded for the SVG and kept on the axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)


def axis(low: float, high: float, start: float, end: float, percent: bool = False, about: int = 5) -> Axis:
    """Return an axis whose ticks are round numbers."""
    raw = (high - low) / about
    step = 10.0 ** math.floor(math.log10(raw))
    step *= next(factor for factor in (1, 2, 5, 10) if raw <= factor * step * (1 + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if not percent else 0
    plain = Axis(low, high, start, end)
    ticks = tuple(
        (plain.at(place * step), f"{place * step * (100 if percent else 1):.{digits}f}")
        for place in range(first, last + 1)
    )
    return Axis(low, high, start, end, ticks)


def tradeoff(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of accuracy against the DP gap: arms with intervals, frontier, what needs no model.

    It is as high as its labels need to be beside each other.
    """
    chart = None
    for height in _HEIGHTS:
        chart, free = _tradeoff(found, height)
        if free:
            break
    return chart


def _tradeoff(found: Mapping[str, Any], height: float) -> tuple[dict[str, Any] | None, bool]:
    """The chart at a height, and whether every label is free."""
    arms = [
        (place, arm)
        for place, arm in enumerate(found["arms"], start=1)
        if arm["accuracy"]["value"] is not None and arm["demographic_parity_difference"]["value"] is not None
    ]
    if not arms:
        return None, True
    bottom = height - 42
    gaps = [a["demographic_parity_difference"] for _, a in arms]
    context = [
        row
        for row in (*found["context"], *_plain_models(found))
        if row["demographic_parity_difference"] is not None and row["accuracy"] is not None
    ]
    right = max([_known(g["high"], g["value"]) for g in gaps] + [g["noise_95"] or 0 for g in gaps] + [0.1])
    right = min(1.0, 1.08 * max([right, *(row["demographic_parity_difference"] for row in context)]))
    lows = [_known(a["accuracy"]["low"], a["accuracy"]["value"]) for _, a in arms]
    x = axis(0.0, right, 46, WIDTH - 14)
    y = axis(
        max(0.0, min(lows + [row["accuracy"] for row in context]) - 0.06), 1.02, bottom, 14, percent=True
    )
    marks, taken = [], []
    for place, arm in arms:
        accuracy, gap = arm["accuracy"], arm["demographic_parity_difference"]
        mark = {"x": x.at(gap["value"]), "y": y.at(accuracy["value"]), "name": arm["arm"], "arm": place}
        mark["across"] = _ends(x, gap)
        mark["up"] = _ends(y, accuracy)
        marks.append(mark)
        taken.append(box(mark["x"] - 7, mark["y"] - 7, 14, 14))
        if mark["across"] is not None:
            low, high = sorted(mark["across"])
            taken.append((low, mark["y"] - 2, high, mark["y"] + 2))
        if mark["up"] is not None:
            low, high = sorted(mark["up"])
            taken.append((mark["x"] - 2, low, mark["x"] + 2, high))
    quiet = _merge(
        {
            "x": x.at(row["demographic_parity_difference"]),
            "y": y.at(row["accuracy"]),
            "name": row["name"].replace(" regression", ""),
        }
        for row in context
    )
    taken += [box(one["x"] - 5, one["y"] - 5, 10, 10) for one in quiet]
    free = place_labels([*marks, *quiet], taken, (48.0, 4.0, WIDTH - 2, bottom + 2))
    edge = [
        (x.at(gap), y.at(best))
        for gap, best in zip(found["frontier"]["gap"], found["frontier"]["accuracy"], strict=True)
        if best is not None and gap <= right + 0.01
    ]
    floor = max((g["noise_95"] for g in gaps if g["noise_95"] is not None), default=None)
    chart = {
        "width": WIDTH,
        "height": height,
        "bottom": bottom,
        "x": x,
        "y": y,
        "marks": marks,
        "context": quiet,
        "edge": edge,
        "noise": None if floor is None else x.at(floor),
    }
    return chart, free


def _plain_models(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reference lines as the chart's marks."""
    metrics = ("accuracy", "demographic_parity_difference")
    return [
        {"name": one["line"], **{metric: one[metric]["value"] for metric in metrics}}
        for one in (found.get("reference_lines") or {"lines": ()})["lines"]
    ]


def _known(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _ends(scale: Axis, value: Mapping[str, Any]) -> tuple[float, float] | None:
    return None if value["low"] is None else (scale.at(value["low"]), scale.at(value["high"]))


def _merge(marks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks on one spot become one, with their names together."""
    found: dict[tuple[float, float], dict[str, Any]] = {}
    for mark in marks:
        twin = found.setdefault((mark["x"], mark["y"]), dict(mark))
        if twin["name"] != mark["name"]:
            twin["name"] = f"{twin['name']}, {mark['name']}"
    return list(found.values())


def group_rates(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of each arm's rate of yes per group, the groups' base rates first: a line a group."""
    x = axis(0.0, 1.0, _GUTTER, WIDTH - 14, percent=True)
    names = [group["group"] for group in found["groups"]]
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in found["groups"]}
    arms = [("true share of yes", base), *((arm["arm"], arm["groups"]) for arm in found["arms"])]
    rows, y = [], 16.0
    for place, (name, groups) in enumerate(arms):
        top, points = y, []
        for shape, group in enumerate(names):
            lines, one = wrapped(group, 15), groups[group]
            height = max(16.0, 12.0 * len(lines) + 4)
            y += height
            points.append(
                {
                    "name": group,
                    "lines": lines,
                    "y": round(y - height / 2 + 10, 2),
                    "shape": shape,
                    "x": None if one["rate"] is None else x.at(one["rate"]),
                    "ends": None if one["low"] is None else (x.at(one["low"]), x.at(one["high"])),
                }
            )
        places = [point["x"] for point in points if point["x"] is not None]
        span = (min(places), max(places)) if places else None
        rows.append({"name": name, "arm": place, "y": top, "points": points, "span": span, "end": y + 12})
        y += 34
    bottom = y - 16
    return {"width": WIDTH, "height": bottom + 36, "bottom": bottom, "x": x, "rows": rows, "groups": names}


def repeats(found: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """Return the chart of each repeat's own value of a metric, an arm a line; None for a single repeat."""
    arms = [arm for arm in found["arms"] if arm[metric]["value"] is not None]
    values = [value for arm in arms for value in arm[metric]["per_repeat"] if value is not None]
    if not arms or len(found["arms"][0][metric]["per_repeat"]) < 2 or not values:
        return None
    ends = [arm[metric][end] for arm in arms for end in ("low", "high", "value")]
    known = values + [end for end in ends if end is not None]
    margin = 0.05 * (max(known) - min(known)) or 0.05
    low = max(0.0, min(known) - margin) if metric == "accuracy" else 0.0
    x = axis(low, min(1.0, max(known) + margin), _GUTTER, WIDTH - 14, percent=metric == "accuracy")
    rows, y = [], 12.0
    for place, arm in enumerate(found["arms"], start=1):
        one, lines = arm[metric], wrapped(arm["arm"], 15)
        height = max(38.0, 12.0 * len(lines) + 12)
        middle, own = y + height / 2, [value for value in one["per_repeat"] if value is not None]
        dots = [(x.at(value), round(middle + _apart(number), 2)) for number, value in enumerate(own)]
        rows.append(
            {
                "lines": lines,
                "arm": place,
                "y": round(middle, 2),
                "dots": dots,
                "x": None if one["value"] is None else x.at(one["value"]),
                "ends": _ends(x, one),
            }
        )
        y += height
    return {"width": WIDTH, "height": y + 44, "bottom": y + 6, "x": x, "rows": rows}


def _apart(number: int) -> float:
    """How far the dot of a repeat lies from its line, so that equal values stay apart."""
    return (-11.0, 8.0, -7.0, 12.0)[number % 4]


def projection(drawn: Mapping[str, Any], arm: str, groups: Sequence[str]) -> dict[str, Any]:
    """Return the map of the table with one arm's examples: area of a mark by weight, shape by group."""
    size, rows, examples = 300.0, drawn["rows"], drawn["examples"][arm]
    # The frame holds the examples and all but the farthest hundredth of the rows.
    spread = sorted(rows["x"]), sorted(rows["y"])
    cut = max(0, len(rows["x"]) // 100 - 1)
    ends = []
    for values, name in zip(spread, "xy", strict=True):
        own = [example[name] for example in examples]
        low, high = min([values[cut], *own]), max([values[-1 - cut], *own])
        margin = 0.06 * (high - low) or 1.0
        ends.append((low - margin, high + margin))
    x, y = Axis(*ends[0], 6, size - 6), Axis(*ends[1], size - 6, 6)
    inside = [
        (x.at(a), y.at(b), label)
        for a, b, label in zip(rows["x"], rows["y"], rows["label"], strict=True)
        if ends[0][0] <= a <= ends[0][1] and ends[1][0] <= b <= ends[1][1]
    ]
    heaviest = max((example["weight"] or 1.0 for example in examples), default=1.0) or 1.0
    marks: list[dict[str, Any]] = [
        {
            "x": x.at(example["x"]),
            "y": y.at(example["y"]),
            "size": _size(example["weight"], heaviest),
            "label": example["label"],
            "shape": groups.index(example["group"]) if example["group"] in groups else 0,
        }
        for example in examples
    ]
    marks.sort(key=lambda mark: mark["size"], reverse=True)
    return {"size": size, "rows": inside, "marks": marks}


def _size(weight: float | None, heaviest: float) -> float:
    """The width of a mark whose area follows the weight; the lightest stay visible."""
    return 8.0 if weight is None else round(max(4.0, 14.0 * math.sqrt(weight / heaviest)), 2)


def calibration_chart(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of stated against observed probability, one line an arm that gives P(yes)."""
    x = axis(0.0, 1.0, 46, WIDTH - 14, percent=True)
    y = axis(0.0, 1.0, 288, 14, percent=True)
    lines = []
    for place, arm in enumerate(found["arms"], start=1):
        if p := arm["probabilities"]:
            points = zip(p["calibration"]["mean"], p["calibration"]["share"], strict=True)
            lines.append(
                {"arm": place, "name": arm["arm"], "points": [(x.at(a), y.at(b)) for a, b in points]}
            )
    return {"width": WIDTH, "height": 330, "x": x, "y": y, "lines": lines} if lines else None


def thresholds_chart(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of what thresholds could do: each arm's accuracy–DP frontier and its own answers."""
    arms = [(place, arm) for place, arm in enumerate(found["arms"], start=1) if arm["probabilities"]]
    if not arms:
        return None
    gaps = [
        gap for _, arm in arms for gap in arm["probabilities"]["frontier"]["demographic_parity_difference"]
    ]
    rates = [value for _, arm in arms for value in arm["probabilities"]["frontier"]["accuracy"]]
    own = [arm["demographic_parity_difference"]["value"] or 0.0 for _, arm in arms]
    if any(gap is None for gap in gaps):
        return None
    x = axis(0.0, min(1.0, 1.08 * max(*gaps, *own, 0.05)), 46, WIDTH - 14)
    y = axis(
        max(0.0, min([*rates, *(arm["accuracy"]["value"] or 1.0 for _, arm in arms)]) - 0.04),
        1.02,
        288,
        14,
        True,
    )
    lines = []
    for place, arm in arms:
        p = arm["probabilities"]
        steps = zip(p["frontier"]["demographic_parity_difference"], p["frontier"]["accuracy"], strict=True)
        mark = None
        if arm["accuracy"]["value"] is not None and arm["demographic_parity_difference"]["value"] is not None:
            mark = x.at(arm["demographic_parity_difference"]["value"]), y.at(arm["accuracy"]["value"])
        lines.append(
            {"arm": place, "name": arm["arm"], "points": [(x.at(a), y.at(b)) for a, b in steps], "own": mark}
        )
    return {"width": WIDTH, "height": 330, "x": x, "y": y, "lines": lines}


def shape_path(shape: int, x: float, y: float, size: float) -> str:
    """Return the path of a mark by group: circle, diamond, square, triangle, and round again."""
    r = size / 2
    kind = shape % 4
    if kind == 0:
        return f"M{x - r:.2f} {y:.2f}a{r:.2f} {r:.2f} 0 1 0 {size:.2f} 0a{r:.2f} {r:.2f} 0 1 0 {-size:.2f} 0z"
    if kind == 1:
        r *= 1.2
        return f"M{x:.2f} {y - r:.2f}l{r:.2f} {r:.2f}l{-r:.2f} {r:.2f}l{-r:.2f} {-r:.2f}z"
    if kind == 2:
        r *= 0.9
        return f"M{x - r:.2f} {y - r:.2f}h{2 * r:.2f}v{2 * r:.2f}h{-2 * r:.2f}z"
    return f"M{x:.2f} {y - r:.2f}l{r:.2f} {1.8 * r:.2f}h{-2 * r:.2f}z"
