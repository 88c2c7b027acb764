"""Where every mark of the page's charts stands, in the units of its SVG.

The templates draw them as inline SVG: charts take their colours from the page (light, dark, print), stay
sharp and selectable, and add nothing to install. Each function returns plain numbers and texts, no markup.
Pictures that leave the page are `figures`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 340.0, 330.0
_GUTTER = 116.0  # where a chart with a name before every line has its axis
_TOP, _BOTTOM, _LEFT = 14, 288, 46
_NEAR = 17.0  # marks closer than this are drawn as one
MOST_RATES = 100  # groups in a chart of rates, as many as rows in a table
_MOST_GROUPS = 4  # in a chart of P(yes)


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


def forest(stats: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """Return the chart of a metric with intervals, an arm a line; small dots are its repeats."""
    values = [arm[metric][end] for arm in stats["arms"] for end in ("low", "high", "value")]
    each = [value for arm in stats["arms"] for value in arm[metric]["per_repeat"]]
    known = [value for value in (*values, *each) if value is not None]
    if not known:
        return None
    margin = 0.05 * (max(known) - min(known)) or 0.05
    low = max(0.0, min(known) - margin) if metric == "accuracy" else 0.0
    x = axis(low, min(1.0, max(known) + margin), _GUTTER, WIDTH - 14, percent=metric == "accuracy")
    rows, y = [], 12.0
    for place, arm in enumerate(stats["arms"], start=1):
        estimate, lines = arm[metric], wrapped(arm["arm"], 15)
        own = [value for value in estimate["per_repeat"] if value is not None]
        height = max(
            34.0 if len(own) > 1 else 26.0 if len(stats["arms"]) < 7 else 20.0, 12.0 * len(lines) + 6
        )
        middle = y + height / 2
        dots = [
            (x.at(value), round(middle + (-10.0, 8.0, -6.0, 12.0)[k % 4], 2)) for k, value in enumerate(own)
        ]
        rows.append(
            {
                "lines": lines,
                "arm": place,
                "y": round(middle, 2),
                "dots": dots if len(own) > 1 else [],
                "x": None if estimate["value"] is None else x.at(estimate["value"]),
                "ends": _ends(x, estimate),
            }
        )
        y += height
    return {"width": WIDTH, "height": y + 44, "bottom": y + 6, "x": x, "rows": rows}


def tradeoff(stats: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of accuracy against the DP gap: numbered arms with intervals, frontier, other answers.

    Marks that lie on each other become one with all their numbers: `marks` and `context` each have `number`
    and `names`.
    """
    accuracy, gap = "accuracy", "demographic_parity_difference"
    arms = [
        (place, arm)
        for place, arm in enumerate(stats["arms"], start=1)
        if arm[accuracy]["value"] is not None and arm[gap]["value"] is not None
    ]
    if not arms:
        return None
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    plain = [{"name": line["line"], **{m: line[m]["value"] for m in (accuracy, gap)}} for line in lines]
    context = [
        row for row in (*stats["context"], *plain) if row[gap] is not None and row[accuracy] is not None
    ]
    gaps = [arm[gap] for _, arm in arms]
    right = max([g["high"] or g["value"] for g in gaps] + [0.1])
    right = min(1.0, 1.08 * max([right, *(row[gap] for row in context)]))
    lows = [_known(arm[accuracy]["low"], arm[accuracy]["value"]) for _, arm in arms]
    x = axis(0.0, right, _LEFT, WIDTH - 14)
    y = axis(max(0.0, min([*lows, *(row[accuracy] for row in context)]) - 0.06), 1.02, _BOTTOM, _TOP, True)
    marks = [
        {
            "x": x.at(arm[gap]["value"]),
            "y": y.at(arm[accuracy]["value"]),
            "number": str(place),
            "names": [arm["arm"]],
            "arm": place,
            "across": _ends(x, arm[gap]),
            "up": _ends(y, arm[accuracy]),
        }
        for place, arm in arms
    ]
    letters = ((chr(97 + place % 26), row) for place, row in enumerate(context))
    quiet = [
        {"x": x.at(row[gap]), "y": y.at(row[accuracy]), "number": letter, "names": [row["name"]]}
        for letter, row in letters
    ]
    edge = [
        (x.at(at), y.at(best))
        for at, best in zip(stats["frontier"]["gap"], stats["frontier"]["accuracy"], strict=True)
        if best is not None and at <= right + 0.01
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "bottom": _BOTTOM,
        "x": x,
        "y": y,
        "marks": _merged(marks),
        "context": _merged(quiet),
        "edge": edge,
    }


def _merged(marks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks that would cover each other become the first of them, with all their numbers and names."""
    shown: list[dict[str, Any]] = []
    for mark in marks:
        near = (
            other for other in shown if math.hypot(other["x"] - mark["x"], other["y"] - mark["y"]) < _NEAR
        )
        twin = next(near, None)
        if twin is None:
            shown.append(mark)
        else:
            twin["number"] = f"{twin['number']} {mark['number']}"
            twin["names"] = [*twin["names"], *mark["names"]]
    return shown


def _known(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _ends(scale: Axis, value: Mapping[str, Any]) -> tuple[float, float] | None:
    return None if value["low"] is None else (scale.at(value["low"]), scale.at(value["high"]))


def group_rates(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of each arm's rate of yes per group, the groups' base rates first: a line a group."""
    x = axis(0.0, 1.0, _GUTTER, WIDTH - 14, percent=True)
    names = shown_groups(stats, MOST_RATES)
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in stats["groups"]}
    arms = [("true share of yes", base), *((arm["arm"], arm["groups"]) for arm in stats["arms"])]
    rows, y, start = [], 16.0, 0 if stats["labelled"] else 1
    for place, (name, groups) in enumerate(arms[start:], start):
        top = y
        points: list[dict[str, Any]] = []
        for shape, group in enumerate(names):
            lines, rate = wrapped(group, 15), groups[group]
            height = max(16.0, 12.0 * len(lines) + 4)
            y += height
            points.append(
                {
                    "name": group,
                    "lines": lines,
                    "y": round(y - height / 2 + 10, 2),
                    "shape": shape,
                    "x": None if rate["rate"] is None else x.at(rate["rate"]),
                    "ends": _ends(x, rate),
                }
            )
        places = [point["x"] for point in points if point["x"] is not None]
        span = (min(places), max(places)) if places else None
        rows.append({"name": name, "arm": place, "y": top, "points": points, "span": span, "end": y + 12})
        y += 34
    bottom = y - 16
    return {"width": WIDTH, "height": bottom + 36, "bottom": bottom, "x": x, "rows": rows, "groups": names}


def shown_groups(stats: Mapping[str, Any], most: int = _MOST_GROUPS) -> list[str]:
    """Return the groups that a chart shows: all, or the largest where they are more than `most`."""
    largest = {group["group"] for group in sorted(stats["groups"], key=lambda group: -group["n"])[:most]}
    return [group["group"] for group in stats["groups"] if group["group"] in largest]


def calibration_by_group(arm: Mapping[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    """Return the chart of one arm's stated against true shares: a mark a group and tenth, with its limits."""
    x, y = axis(0.0, 1.0, _LEFT, WIDTH - 14, True), axis(0.0, 1.0, _BOTTOM, _TOP, True)
    marks = []
    for shape, name in enumerate(groups):
        bins = arm["probabilities"]["calibration_by_group"].get(name, {}).get("bins")
        if bins is None:
            continue
        most = max(bins["questions"])
        columns = (bins[key] for key in ("mean", "share", "low", "high", "questions"))
        marks += [
            {
                "shape": shape,
                "x": x.at(mean),
                "y": y.at(share),
                "ends": (y.at(low), y.at(high)),
                "size": round(5 + 7 * (count / most) ** 0.5, 1),
            }
            for mean, share, low, high, count in zip(*columns, strict=True)
        ]
    return {"width": WIDTH, "height": HEIGHT, "x": x, "y": y, "marks": marks}


def wrapped(name: str, longest: int = 24) -> list[str]:
    """Return the name in at most three lines, broken at spaces and behind +; what is longer is cut."""
    lines = [""]
    for word in name.replace("+", "+\0").replace(" ", " \0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(word) > longest:
            lines.append(word)
        else:
            lines[-1] += word
    lines = [line.strip() for line in lines]
    cut = [line if len(line) <= longest + 1 else line[:longest] + "…" for line in lines[:3]]
    if len(lines) > 3:
        cut[-1] += " …"
    return cut


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
