"""The place of every mark of the page's charts, in the units of its SVG.

The templates draw them as inline SVG: charts take their colours from the page (light, dark, print), stay
sharp and selectable, and add nothing to install. Each function returns plain numbers and texts, no markup.
Pictures that leave the page are `figures`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

WIDTH, HEIGHT = 340.0, 330.0
_GUTTER = 116.0  # where a chart with a name before every line has its axis
_TOP, _BOTTOM, _LEFT = 14, 288, 46
_NEAR = 17.0  # marks closer than this are drawn as one
MOST_RATES = 100  # groups in a chart of rates, as many as rows in a table
_MOST_GROUPS = 4  # in a chart of P(yes)
_ACCURACY, _GAP = "accuracy", "demographic_parity_difference"
_CORNERS = (  # of a group's mark, from its middle: circle, diamond, square, triangle
    (),
    ((0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)),
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)),
)


@dataclass(frozen=True)
class Axis:
    """A linear axis: data from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    percent: bool = False

    def at(self, value: float | None) -> float | None:
        """Return the place of a value, rounded and kept on the axis; None where it is undefined."""
        if value is None:
            return None
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ends(self, value: Mapping[str, Any]) -> tuple[float | None, float | None] | None:
        """Return the places of a value's interval, its keys `low` and `high`; None where there is none."""
        return None if value["low"] is None else (self.at(value["low"]), self.at(value["high"]))

    @property
    def ticks(self) -> list[tuple[float | None, str]]:
        """The places of some five round numbers, and their texts."""
        raw = (self.high - self.low) / 5
        step = 10.0 ** math.floor(math.log10(raw))
        step *= next(factor for factor in (1, 2, 5, 10) if raw <= factor * step * (1 + 1e-9))
        digits, scale = max(0, -math.floor(math.log10(step) + 1e-9)), 1
        if self.percent:
            digits, scale = 0, 100
        places = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [(self.at(place * step), f"{place * step * scale:.{digits}f}") for place in places]


def _row(
    x: Axis, name: str, value: Mapping[str, Any], y: float, least: float
) -> tuple[dict[str, Any], float]:
    """A named line with a value (`value` or `rate`) and its interval from y down, and where it ends."""
    lines = wrapped(name)
    height = max(least, 12.0 * len(lines) + 4)
    place = x.at(value["rate"] if "rate" in value else value["value"])
    middle = round(y + height / 2, 2)
    return {"name": name, "lines": lines, "y": middle, "x": place, "ends": x.ends(value)}, y + height


def forest(stats: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """Return the chart of a metric with intervals, an arm a line; small dots are its repeats."""
    estimates = {arm["arm"]: arm[metric] for arm in stats["arms"]}
    values = [(e["low"], e["high"], e["value"], *e["per_repeat"]) for e in estimates.values()]
    known = [value for of_arm in values for value in of_arm if value is not None]
    if not known:
        return None
    margin = 0.05 * (max(known) - min(known)) or 0.05
    low = max(0.0, min(known) - margin) if metric == _ACCURACY else 0.0
    x = Axis(low, min(1.0, max(known) + margin), _GUTTER, WIDTH - 14, percent=metric == _ACCURACY)
    rows, y = [], 12.0
    for place, (name, estimate) in enumerate(estimates.items(), start=1):
        repeats = [value for value in estimate["per_repeat"] if value is not None]
        repeats = repeats if len(repeats) > 1 else []
        row, y = _row(x, name, estimate, y, 34.0 if repeats else 26.0 if len(estimates) < 7 else 20.0)
        heights = (round(row["y"] + (-10.0, 8.0, -6.0, 12.0)[k % 4], 2) for k in range(len(repeats)))
        rows.append(row | {"arm": place, "dots": list(zip(map(x.at, repeats), heights, strict=True))})
    return {"width": WIDTH, "height": y + 44, "bottom": y + 6, "x": x, "rows": rows}


def without_model(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers that need no language model: the `name`, accuracy and DP gap of each, both known."""
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    plain = ({"name": line["line"], **{m: line[m]["value"] for m in (_ACCURACY, _GAP)}} for line in lines)
    return [row for row in (*stats["context"], *plain) if None not in (row[_GAP], row[_ACCURACY])]


def tradeoff(stats: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the chart of accuracy against the DP gap: numbered arms with intervals, other answers.

    Marks that lie on each other become one with all their numbers: `marks` and `context` each have `number`
    and `names`.
    """
    placed = ((place, arm, arm[_GAP], arm[_ACCURACY]) for place, arm in enumerate(stats["arms"], start=1))
    arms = [entry for entry in placed if None not in (entry[2]["value"], entry[3]["value"])]
    if not arms:
        return None
    context = without_model(stats)
    gaps = [gap["high"] or gap["value"] for _, _, gap, _ in arms] + [row[_GAP] for row in context]
    right = min(1.0, 1.08 * max([0.1, *gaps]))
    lows = [accuracy["value"] if accuracy["low"] is None else accuracy["low"] for *_, accuracy in arms]
    x = Axis(0.0, right, _LEFT, WIDTH - 14)
    y = Axis(max(0.0, min([*lows, *(row[_ACCURACY] for row in context)]) - 0.06), 1.02, _BOTTOM, _TOP, True)

    def mark(number: str, name: str, gap: float, accuracy: float) -> dict[str, Any]:
        return {"x": x.at(gap), "y": y.at(accuracy), "number": number, "names": [name]}

    marks = (
        mark(str(place), arm["arm"], gap["value"], accuracy["value"])
        | {"arm": place, "across": x.ends(gap), "up": y.ends(accuracy)}
        for place, arm, gap, accuracy in arms
    )
    quiet = (mark(chr(97 + k % 26), r["name"], r[_GAP], r[_ACCURACY]) for k, r in enumerate(context))
    return {
        "width": WIDTH, "height": HEIGHT, "bottom": _BOTTOM, "x": x, "y": y,
        "marks": _merged(marks), "context": _merged(quiet),
    }  # fmt: skip


def _merged(marks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks that would cover each other become the first of them, with all their numbers and names."""
    shown: list[dict[str, Any]] = []
    for mark in marks:
        near = [m for m in shown if math.hypot(m["x"] - mark["x"], m["y"] - mark["y"]) < _NEAR]
        if near:
            near[0]["number"] += f" {mark['number']}"
            near[0]["names"] += mark["names"]
        else:
            shown.append(mark)
    return shown


def rates_of(stats: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Mapping[str, Any]]]]:
    """Return the groups of a chart of rates, and their rates by line: the true shares, if known, and arms."""
    groups = shown_groups(stats, MOST_RATES)
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in stats["groups"]}
    lines = {"true share of yes": base} if stats["labelled"] else {}
    lines |= {arm["arm"]: arm["groups"] for arm in stats["arms"]}
    return groups, {name: [rates[group] for group in groups] for name, rates in lines.items()}


def group_rates(stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart of each arm's rate of yes per group, the groups' base rates first: a line a group."""
    x = Axis(0.0, 1.0, _GUTTER, WIDTH - 14, percent=True)
    groups, lines = rates_of(stats)
    rows, y = [], 26.0
    for place, (name, rates) in enumerate(lines.items(), 0 if stats["labelled"] else 1):
        points, top = [], y - 10
        for shape, (group, rate) in enumerate(zip(groups, rates, strict=True)):
            point, y = _row(x, group, rate, y, 16.0)
            points.append(point | {"shape": shape})
        places = [point["x"] for point in points if point["x"] is not None]
        span = (min(places), max(places)) if places else None
        rows.append({"name": name, "arm": place, "y": top, "points": points, "span": span, "end": y + 2})
        y += 34
    bottom = y - 26
    return {"width": WIDTH, "height": bottom + 36, "bottom": bottom, "x": x, "rows": rows, "groups": groups}


def shown_groups(stats: Mapping[str, Any], most: int = _MOST_GROUPS) -> list[str]:
    """Return the groups that a chart shows: all, or the largest where they are more than `most`."""
    largest = {group["group"] for group in sorted(stats["groups"], key=lambda group: -group["n"])[:most]}
    return [group["group"] for group in stats["groups"] if group["group"] in largest]


def calibration_by_group(arm: Mapping[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    """Return the chart of one arm's stated against true shares: a mark a group and tenth, with its limits."""
    x, y = Axis(0.0, 1.0, _LEFT, WIDTH - 14, True), Axis(0.0, 1.0, _BOTTOM, _TOP, True)
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


def wrapped(name: str) -> list[str]:
    """Return the name in at most three lines of 15, broken at spaces and behind + and -; the rest is cut."""
    lines = wrap(name.replace("+", "+\v"), 15, max_lines=3, placeholder=" …", replace_whitespace=False)
    return [line.replace("\v", "") for line in lines]


def shape_path(shape: int, x: float, y: float, size: float) -> str:
    """Return the path of a mark by group: circle, diamond, square, triangle, and round again."""
    r, corners = size / 2, _CORNERS[shape % 4]
    if not corners:
        return f"M{x - r:.2f} {y:.2f}a{r:.2f} {r:.2f} 0 1 0 {size:.2f} 0a{r:.2f} {r:.2f} 0 1 0 {-size:.2f} 0z"
    return f"M{'L'.join(f'{x + r * right:.2f} {y + r * down:.2f}' for right, down in corners)}z"
