"""The axis of an SVG chart, and the rows that all charts show.

Charts inside of tables are drawn by `Scale` (`table_model`); pictures that leave the page are `figures`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_RATES = 100  # groups in a chart of rates, as many as rows in a table
_ACCURACY, _GAP = "accuracy", "demographic_parity_difference"


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
    largest = {
        group["group"] for group in sorted(stats["groups"], key=lambda group: -group["n"])[:MOST_RATES]
    }
    groups = [group["group"] for group in stats["groups"] if group["group"] in largest]
    base = {group["group"]: {"rate": group["base_rate"], "low": None} for group in stats["groups"]}
    lines = {"true share of yes": base} if stats["labelled"] else {}
    lines |= {arm["arm"]: arm["groups"] for arm in stats["arms"]}
    return groups, {name: [rates[group] for group in groups] for name, rates in lines.items()}
