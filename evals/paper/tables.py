"""Mean ± standard deviation over runs, as numbers and as text."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def mean_sd(
    frame: "pd.DataFrame", keys: Sequence[str], values: Sequence[str]
) -> "pd.DataFrame":
    """Per group of `keys`: the mean of each value, its standard deviation over runs as `…_sd`,
    and `runs`.

    Groups keep the order in which they first occur. One run has no standard deviation: NaN.
    """
    grouped = frame.groupby(list(keys), sort=False, dropna=False)
    table = grouped[list(values)].mean()
    spread = grouped[list(values)].std(ddof=1)
    for value in values:
        table[f"{value}_sd"] = spread[value]
    table["runs"] = grouped.size()
    return table.reset_index()


def by_key(
    table: "pd.DataFrame", keys: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a table as plain values, by the values of some columns."""
    return {tuple(row[key] for key in keys): row for row in table.to_dict("records")}  # type: ignore[misc]


def plus_minus(mean: float, sd: float, digits: int = 2) -> str:
    """`0.12 ± 0.03`; a dash where there is no value."""
    if math.isnan(mean):
        return "–"
    if math.isnan(sd):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def percent(share: float) -> str:
    """`52 %`; a dash where there is no value."""
    if math.isnan(share):
        return "–"
    return f"{100 * share:.0f} %"


def significant(value: float, digits: int = 3) -> str:
    """A number with three significant digits, without exponent where it stays short."""
    if math.isnan(value):
        return "–"
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    if value:
        whole = math.floor(math.log10(abs(value)))
    else:
        whole = 0
    return f"{value:.{max(0, digits - 1 - whole)}f}"
