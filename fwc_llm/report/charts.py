"""Positions of the marks of the page's SVG charts, in their own units, and the rows that all charts show.

Charts inside of tables are drawn by `Scale` (`table_model`); pictures that leave the page are `figures`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 340.0, 330.0
_TOP, _BOTTOM, _LEFT = 14, 288, 46
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


def without_model(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the answers that need no language model: the `name`, accuracy and DP gap of each, both known."""
    lines = (stats.get("reference_lines") or {"lines": ()})["lines"]
    plain = ({"name": line["line"], **{m: line[m]["value"] for m in (_ACCURACY, _GAP)}} for line in lines)
    return [row for row in (*stats["context"], *plain) if None not in (row[_GAP], row[_ACCURACY])]


def rates_of(stats: Mapping[str, Any]) -> tuple[list[str], dict[str, list[Mapping[str, Any]]]]:
    """Return the groups of a chart of rates, and their rates by line: the true shares, if known, and arms."""
    groups = shown_groups(stats, MOST_RATES)
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in stats["groups"]}
    lines = {"true share of yes": base} if stats["labelled"] else {}
    lines |= {arm["arm"]: arm["groups"] for arm in stats["arms"]}
    return groups, {name: [rates[group] for group in groups] for name, rates in lines.items()}


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


def shape_path(shape: int, x: float, y: float, size: float) -> str:
    """Return the path of a mark by group: circle, diamond, square, triangle, and round again."""
    r, corners = size / 2, _CORNERS[shape % 4]
    if not corners:
        return f"M{x - r:.2f} {y:.2f}a{r:.2f} {r:.2f} 0 1 0 {size:.2f} 0a{r:.2f} {r:.2f} 0 1 0 {-size:.2f} 0z"
    return f"M{'L'.join(f'{x + r * right:.2f} {y + r * down:.2f}' for right, down in corners)}z"
