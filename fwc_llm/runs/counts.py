"""How many test rows each group and answer gives: equal groups, base rates evenly spaced over 0.5 ± b/2."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from fwc_llm.errors import FwcError
from fwc_llm.tasks import Task


def cell_counts(groups: Sequence[str], n: int, base_parity: float) -> dict[tuple[str, str], int]:
    """Rows per cell (group, "no" | "yes"): `n` test rows with base-rate parity b over `groups`, low to high.

    Group k of G gets n/G rows, of which a share 0.5 + b (k/(G−1) − 1/2) is yes.
    """
    rates = _base_rates(groups, base_parity)
    step = whole_step(groups, base_parity)
    if n < 1 or n % step:
        nearest = nearest_whole(groups, n, base_parity)
        other = nearest - step if nearest > n else nearest + step
        also = f" or {other}" if other > 0 else ""
        raise FwcError(
            f"{n} test rows over {len(groups)} groups with base parity {float(base_parity):g} do not come "
            f"out whole; the nearest number that works is {nearest}{also} (any multiple of {step})"
        )
    size = n // len(groups)
    return {
        (group, answer): int(size * (rate if answer == "yes" else 1 - rate))
        for group, rate in zip(groups, rates, strict=True)
        for answer in ("no", "yes")
    }


def whole_step(groups: Sequence[str], base_parity: float) -> int:
    """The smallest number of test rows with whole cells; its multiples are the only others."""
    return len(groups) * math.lcm(*(rate.denominator for rate in _base_rates(groups, base_parity)))


def nearest_whole(groups: Sequence[str], n: int, base_parity: float) -> int:
    """The number of test rows nearest to `n` with whole cells."""
    step = whole_step(groups, base_parity)
    below = n // step * step
    above = below + step
    return below if n == below or (below > 0 and above - n >= n - below) else above


def _base_rates(groups: Sequence[str], base_parity: float) -> list[Fraction]:
    if not isinstance(base_parity, (int, float)) or not 0.0 <= base_parity <= 1.0:  # NaN fails too
        raise FwcError(f"base parity {base_parity} is outside [0, 1]")
    if len(groups) < 2:
        raise FwcError(f"base-rate parity needs at least two groups; there is only {groups[0]!r}")
    parity, last = Fraction(repr(float(base_parity))), len(groups) - 1
    return [Fraction(1, 2) + parity * (Fraction(k, last) - Fraction(1, 2)) for k in range(len(groups))]


def check_size(n: int, available: int) -> None:
    """Refuse to draw no row, or more than there are."""
    if n < 1:
        raise FwcError(f"the number of test rows must be at least 1; it is {n}")
    if n > available:
        raise FwcError(f"{n} test rows are asked for, but only {available:,} rows can be drawn")


def check_cells(
    task: Task, available: Mapping[tuple[str, str], int], counts: Mapping[tuple[str, str], int]
) -> None:
    """Refuse a cell that has fewer rows than are to be drawn, with the most test rows that there can be."""
    n, times = sum(counts.values()), math.gcd(*counts.values())
    most = min(available[cell] * times // count for cell, count in counts.items() if count) * (n // times)
    for (group, answer), count in counts.items():
        if available[group, answer] >= count:
            continue
        fewer = f"the most that work are {most}" if most else "no number works with this base parity"
        raise FwcError(
            f"the cell {' & '.join(task.protected)} = {group}, {task.outcome} = {answer} has "
            f"{available[group, answer]:,} rows to draw from, but {count:,} are needed for {n} test rows; "
            f"{fewer}, and with no base parity (none) rows are drawn as they fall"
        )
