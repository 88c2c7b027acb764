"""Where every mark of the report's charts stands, in the units of its SVG.

The charts are drawn by the templates as inline SVG rather than by a plotting library: they take their
colours from the page (light, dark, print), stay sharp and selectable, and add nothing to install. Each
function returns plain numbers and texts; nothing here is markup.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 340.0
_TEXT = 6.6  # an average glyph's width at the charts' font size


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
    """Return the chart of accuracy against the DP gap: arms with intervals, frontier, what needs no model."""
    arms = [
        (place, arm)
        for place, arm in enumerate(found["arms"], start=1)
        if arm["accuracy"]["value"] is not None and arm["demographic_parity_difference"]["value"] is not None
    ]
    if not arms:
        return None
    gaps = [a["demographic_parity_difference"] for _, a in arms]
    right = max([_known(g["high"], g["value"]) for g in gaps] + [g["noise_95"] or 0 for g in gaps] + [0.1])
    oracle = next(row for row in found["context"] if row["name"] == "oracle")["demographic_parity_difference"]
    right = min(1.0, 1.08 * max(right, oracle or 0))
    context = [row for row in (*found["context"], *_plain_models(found)) if _shown(row, right)]
    lows = [_known(a["accuracy"]["low"], a["accuracy"]["value"]) for _, a in arms]
    bottom = max(0.0, min(lows + [row["accuracy"] for row in context]) - 0.06)
    x = axis(0.0, right, 46, WIDTH - 14)
    y = axis(bottom, 1.02, 288, 14, percent=True)
    marks, taken = [], []
    for place, arm in arms:
        accuracy, gap = arm["accuracy"], arm["demographic_parity_difference"]
        mark = {"x": x.at(gap["value"]), "y": y.at(accuracy["value"]), "name": arm["arm"], "arm": place}
        mark["across"] = _ends(x, gap)
        mark["up"] = _ends(y, accuracy)
        marks.append(mark)
        taken.append(_box(mark["x"] - 7, mark["y"] - 7, 14, 14))
        for ends, across in ((mark["across"], True), (mark["up"], False)):
            if ends is not None:
                low, high = min(ends), max(ends)
                bar = (
                    (low, mark["y"] - 2, high, mark["y"] + 2)
                    if across
                    else (mark["x"] - 2, low, mark["x"] + 2, high)
                )
                taken.append(bar)
    quiet = [
        {
            "x": x.at(r["demographic_parity_difference"]),
            "y": y.at(r["accuracy"]),
            "name": r["name"].replace(" regression", ""),
        }
        for r in context
    ]
    quiet = _merge(quiet)
    for letter, one in zip("abcdefghijklmnopqrstuvwxyz", quiet, strict=False):
        one["names"], one["name"] = one["name"], letter
    taken += [_box(one["x"] - 4, one["y"] - 4, 8, 8) for one in quiet]
    _place_labels([*marks, *quiet], taken, (46.0, 4.0, WIDTH - 2, 300.0))
    edge = [
        (x.at(gap), y.at(best))
        for gap, best in zip(found["frontier"]["gap"], found["frontier"]["accuracy"], strict=True)
        if best is not None and gap <= right + 0.01
    ]
    floor = max((g["noise_95"] for g in gaps if g["noise_95"] is not None), default=None)
    return {
        "width": WIDTH,
        "height": 330,
        "x": x,
        "y": y,
        "marks": marks,
        "context": quiet,
        "edge": edge,
        "noise": None if floor is None else x.at(floor),
    }


def _plain_models(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The reference lines as the chart's marks."""
    metrics = ("accuracy", "demographic_parity_difference")
    return [
        {"name": one["line"], **{metric: one[metric]["value"] for metric in metrics}}
        for one in (found.get("reference_lines") or {"lines": ()})["lines"]
    ]


def _known(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _shown(row: Mapping[str, Any], right: float) -> bool:
    gap = row["demographic_parity_difference"]
    return gap is not None and row["accuracy"] is not None and gap <= right


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


def _box(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    return x, y, x + width, y + height


def _place_labels(
    marks: Sequence[dict[str, Any]],
    taken: list[tuple[float, float, float, float]],
    frame: tuple[float, float, float, float],
) -> None:
    """Give each mark a label place (`label_x`, `label_y`, `anchor`) that covers nothing, if there is one."""
    for mark in marks:
        lines = _wrapped(mark["name"])
        width, height = _TEXT * max(map(len, lines)), 14.0 * len(lines)
        x, y = mark["x"], mark["y"]
        near = [
            (x + 10, y - height / 2, "start"),
            (x - 10 - width, y - height / 2, "end"),
            (x - width / 2, y - 10 - height, "middle"),
            (x - width / 2, y + 9, "middle"),
            (x + 7, y - 8 - height, "start"),
            (x + 7, y + 7, "start"),
            (x - 7 - width, y - 8 - height, "end"),
            (x - 7 - width, y + 7, "end"),
        ]
        # Farther up and down, tied to its mark by a line, for marks that crowd.
        far = [
            (left, top + (step if top > y - height / 2 else -step), anchor)
            for step in (18.0, 36.0, 54.0)
            for left, top, anchor in near[2:]
        ]
        costs = [
            _cost(_box(left, top, width, height), taken, frame)
            + (5.0 + abs(top - y) / 10 if place in far else 0.0)
            for place in [*near, *far]
            for left, top, _ in [place]
        ]
        best = costs.index(min(costs))
        left, top, anchor = [*near, *far][best]
        taken.append(_box(left, top, width, height))
        mark["lines"] = lines
        mark["label_x"] = round(left + {"start": 0.0, "middle": width / 2, "end": width}[anchor], 2)
        mark["label_y"], mark["anchor"] = round(top + 11, 2), anchor
        end = top if top > y else top + height
        mark["leader"] = (round(left + width / 2, 2), round(end, 2)) if best >= len(near) else None


def _wrapped(name: str, longest: int = 24) -> list[str]:
    """The name in at most three lines, broken at spaces; what is longer is cut."""
    lines = [""]
    for word in name.split():
        if lines[-1] and len(lines[-1]) + len(word) >= longest:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    cut = [line if len(line) <= longest + 4 else line[: longest + 3] + "…" for line in lines[:3]]
    if len(lines) > 3:
        cut[-1] += " …"
    return cut


def _cost(
    box: tuple[float, float, float, float],
    taken: Sequence[tuple[float, float, float, float]],
    frame: tuple[float, float, float, float],
) -> float:
    """The area covered, and much more for what lies outside the frame."""
    left, top, right, bottom = box
    outside = (
        max(0, frame[0] - left)
        + max(0, right - frame[2])
        + max(0, frame[1] - top)
        + max(0, bottom - frame[3])
    )
    covered = sum(
        max(0.0, min(right, t[2]) - max(left, t[0])) * max(0.0, min(bottom, t[3]) - max(top, t[1]))
        for t in taken
    )
    return covered + 1000 * outside


def group_rates(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of each arm's rate of yes per group, the groups' base rates first."""
    x = axis(0.0, 1.0, 14, WIDTH - 14, percent=True)
    base = [
        {"x": x.at(group["base_rate"]), "ends": None, "shape": i} for i, group in enumerate(found["groups"])
    ]
    rows: list[dict[str, Any]] = [{"name": "true share of yes", "arm": 0, "y": 30, "points": base}]
    for place, arm in enumerate(found["arms"], start=1):
        points = [
            {
                "x": x.at(group["rate"]),
                "ends": None if group["low"] is None else (x.at(group["low"]), x.at(group["high"])),
                "shape": shape,
            }
            for shape, group in enumerate(arm["groups"].values())
            if group["rate"] is not None
        ]
        rows.append({"name": arm["arm"], "arm": place, "y": 30 + 44 * place, "points": points})
    for row in rows:
        places = [point["x"] for point in row["points"]]
        row["span"] = (min(places), max(places)) if places else None
    bottom = rows[-1]["y"] + 24
    return {
        "width": WIDTH,
        "height": bottom + 36,
        "bottom": bottom,
        "x": x,
        "rows": rows,
        "groups": [group["group"] for group in found["groups"]],
    }


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
