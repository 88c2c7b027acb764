"""Numbers as text, with the same digits in terminal, Markdown and page."""

import math
import re
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import TypeGuard

DASH = "–"
_MONTHS = [
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
]


def defined(value: float | None) -> TypeGuard[float]:
    """Whether `value` is neither None (null in JSON) nor NaN."""
    return value is not None and not math.isnan(value)


def number(value: float | None, digits: int = 3, scale: float = 1.0) -> str:
    """`value` times `scale` with fixed decimals; "–" if undefined, and never "-0.000"."""
    if not defined(value):
        return DASH
    text = f"{value * scale:.{digits}f}"
    if not text.strip("-0."):
        return text.replace("-", "", 1)
    return text.replace("-", "−", 1)


def signed(value: float | None, digits: int = 3, scale: float = 1.0) -> str:
    """As `number`, always with a sign except for 0."""
    text = number(value, digits, scale)
    if text == DASH or text.startswith("−") or not text.strip("0."):
        return text
    return f"+{text}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent; "100 %" only if it is exactly 1."""
    if value in (0.0, 1.0):
        digits = 0
    text = number(value, digits, 100)
    if text == DASH:
        return text
    if value != 1.0 and float(text) == 100.0:
        text = f">{100 - 10**-digits:.{digits}f}"
    return f"{text} %"


def short(value: float, scale: float = 1.0) -> str:
    """`value` times `scale` with the digits that it has, as of a limit."""
    return f"{scale * value:g}".replace("-", "−")


def in_points(share: float) -> str:
    """A share that was chosen, in percentage points."""
    size = short(share, 100)
    return f"{size} point{'s' * (size != '1')}"


def mean_and_sd(values: Sequence[float], scale: float = 1.0, digits: int = 3) -> str:
    """The text "mean ± sd", or "–" if any value is undefined."""
    if len(values) < 2 or any(map(math.isnan, values)):
        return DASH
    return f"{number(fmean(values), digits, scale)} ± {number(stdev(values), digits, scale)}"


def interval(
    ends: Sequence[float | None] | None,
    digits: int = 3,
    scale: float = 1.0,
    limits: Iterable[float] = (),
) -> str:
    """The text "low to high"; "–" if undefined. An end beside one of the `limits` has further
    decimals where it would read as the limit.
    """
    found = [end for end in ends or () if defined(end)]
    if ends is None or len(found) < len(ends):
        return DASH
    shown = [digits, digits]
    for limit in limits:
        for k, end in enumerate(found):
            apart = not math.isclose(end, limit, abs_tol=1e-9)
            while apart and round(scale * end, shown[k]) == round(
                scale * limit, shown[k]
            ):
                shown[k] += 1
    low, high = map(number, found, shown, (scale, scale))
    return f"{low} to {high}"


def p_value(value: float | None) -> str:
    """A p-value with three decimals; "<0.001" below that."""
    if not defined(value):
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def day(time: str) -> str:
    """The day of an ISO 8601 time, as "26 Nov 2026"; "" for any other text."""
    found = re.match(r"(\d{4})-(0[1-9]|1[0-2])-(\d\d)", time)
    if found:
        return f"{int(found[3])} {_MONTHS[int(found[2]) - 1]} {found[1]}"
    return ""
