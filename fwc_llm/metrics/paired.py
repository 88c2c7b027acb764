"""Do two arms differ? Paired tests on the same rows, and Holm's correction for asking several times.

A row that is asked about in several repeats is one unit: its answers are exchanged together, or count
together, so that asking twice does not pass for knowing twice.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from fwc_llm.metrics.cells import Floats

_BLOCK = 2_000_000  # random numbers drawn at once


@dataclass(frozen=True)
class McNemar:
    """`better` rows only the first arm answers rightly (net over repeats), `worse` only the second."""

    better: int
    worse: int
    p_value: float


def mcnemar(right: npt.ArrayLike, other_right: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> McNemar:
    """Return the exact McNemar test of two arms' accuracy on n questions (McNemar 1947; binomial form).

    `right`, `other_right` (n,) say whether each arm's answer is right; `rows` (n,) names the row asked
    about. Over repeats a row counts once, by which arm was right more often; where no row comes twice this
    is McNemar's test itself. Without a discordant row the p-value is 1.
    """
    difference = np.asarray(right, float) - np.asarray(other_right, float)
    unit = np.arange(len(difference)) if rows is None else np.unique(np.asarray(rows), return_inverse=True)[1]
    net = np.bincount(unit, weights=difference, minlength=1)
    better, worse = int((net > 0).sum()), int((net < 0).sum())
    discordant = better + worse
    tail = float(bdtr(min(better, worse), discordant, 0.5)) if discordant else 1.0
    return McNemar(better, worse, min(1.0, 2 * tail))


def parity_permutation(
    yes: npt.ArrayLike,
    other_yes: npt.ArrayLike,
    groups: npt.ArrayLike,
    repeats: npt.ArrayLike | None = None,
    rows: npt.ArrayLike | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the difference in mean |DP| of two arms on the same n questions, and its permutation p-value.

    Under the null hypothesis the arms are interchangeable, so the two answers to a row may be swapped; the
    two-sided p-value is the share of such swaps with at least the observed difference. `yes`, `other_yes`
    (n,) are 1 or 0 (questions that both arms answered), `groups`, `repeats`, `rows` (n,) names. With fewer
    than two groups, or a group absent from a repeat, both values are NaN.

    Swaps keep the sum of the two signed gaps, and | |a| − |b| | = min(|a − b|, |a + b|): where both gaps are
    near 0 the test is conservative, as it must be to speak of sizes and not of signs.
    """
    first, second = np.asarray(yes, float), np.asarray(other_yes, float)
    names, group = np.unique(np.asarray(groups), return_inverse=True)
    repeat = (
        np.zeros(len(first), int)
        if repeats is None
        else np.unique(np.asarray(repeats), return_inverse=True)[1]
    )
    unit = np.arange(len(first)) if rows is None else np.unique(np.asarray(rows), return_inverse=True)[1]
    shape = (int(repeat.max(initial=0)) + 1, len(names))
    cell = repeat * len(names) + group
    cells = shape[0] * shape[1]
    size = np.bincount(cell, minlength=cells)
    if len(names) < 2 or (size == 0).any():
        return np.nan, np.nan

    def gap_difference(a: Floats, b: Floats) -> Floats:
        def gap(counts: Floats) -> Floats:
            return np.asarray(np.ptp((counts / size).reshape(-1, *shape), axis=-1).mean(-1))

        return gap(a) - gap(b)

    total_first: Floats = np.bincount(cell, weights=first, minlength=cells).astype(float)
    total_second: Floats = np.bincount(cell, weights=second, minlength=cells).astype(float)
    observed = float(gap_difference(total_first, total_second)[0])

    # Swapping a unit moves its net change in every cell to the other arm; units without one drop out.
    change = np.zeros((int(unit.max(initial=-1)) + 1, cells))
    np.add.at(change, (unit, cell), second - first)
    change = change[np.abs(change).sum(1) > 0]
    rng = np.random.default_rng(seed)
    extreme = 0
    block = max(1, _BLOCK // max(1, len(change)))
    for start in range(0, draws, block):
        swaps = rng.integers(0, 2, size=(min(block, draws - start), len(change))).astype(float)
        moved = swaps @ change
        shuffled = gap_difference(total_first + moved, total_second - moved)
        extreme += int((np.abs(shuffled) >= abs(observed) - 1e-12).sum())
    return observed, (1 + extreme) / (1 + draws)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Return Holm's step-down adjusted p-values (Holm 1979), in the order given; NaN stays NaN."""
    values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(values))
    ascending = known[np.argsort(values[known], kind="stable")]
    factors = len(known) - np.arange(len(known))
    adjusted[ascending] = np.minimum(1.0, np.maximum.accumulate(values[ascending] * factors))
    return adjusted
