"""Confidence sequences: intervals that hold at every look, so that asking may stop when all is decided.

A fixed interval holds for a number of rows that was set before; after stopping at a convenient moment it
does not. The estimates here are means of influences of n rows, up to terms that vanish. For these

    |estimate − truth| ≤ standard error · √((n ρ² + 1) / (n ρ²) · log((n ρ² + 1) / α²))    at all n together

holds with probability 1 − α as the first look moves away (the normal mixture: Robbins 1970; for estimated
variances and assisted estimates: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, theorem 2.2), if rows
come in random order. ρ makes it tightest at some n. The interval keeps the shape that it has at a fixed n:
Wilson's limits at the effective rows, combined by MOVER. α is shared by the pairs of groups, the rates of a
metric and the checks that are decided. The estimand is the population: rows count as drawn one by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import LEVEL, Z, wilson

MIN_ROWS_FIRST_LOOK = 30  # rows of every group that is judged
_TIGHTEST = 0.3  # of the most rows, where the sequence is tightest


@dataclass(frozen=True)
class ConfidenceSequence:
    """A sequence of looks at up to `most` rows (at 1,000 of an endless one), for so many `checks`.

    `ended` says why asking ended before all was decided or asked.
    """

    checks: int
    most: int
    ended: str = ""

    def alpha(self, groups: int = 2, kinds: int = 1) -> float:
        """Return the error that one pair of groups, one rate and one check has."""
        return (1 - LEVEL) / (max(1, self.checks) * kinds * max(1, groups * (groups - 1) // 2))

    def _intrinsic(self, rows: float, alpha: float) -> float:
        """n ρ² at so many rows."""
        best = -lambertw(-(alpha**2) / np.e, -1).real - 1.0
        return float(best * rows / (_TIGHTEST * self.most))

    def reach(self, rows: float, groups: int = 2, kinds: int = 1) -> float:
        """Return how many standard errors all differences keep within at every look, at `rows` rows."""
        alpha = self.alpha(groups, kinds)
        time = self._intrinsic(rows, alpha)
        return float(np.sqrt((time + 1) / time * np.log((time + 1) / alpha**2)))

    def p_value(self, errors: float, rows: float, groups: int = 2, kinds: int = 1) -> float:
        """Return a p-value that holds at every look: 0.05 where a limit is so many standard errors away."""
        alpha = self.alpha(groups, kinds)
        time = self._intrinsic(rows, alpha)
        p = np.sqrt(time + 1) * np.exp(-(errors**2) * time / (time + 1) / 2)
        return float(min(1.0, p * (1 - LEVEL) / alpha))

    def rows(self, first: int) -> list[int]:
        """Return the numbers of rows at which to look: from `first` on, a twentieth more each time."""
        numbers = [min(first, self.most)]
        while numbers[-1] < self.most:
            numbers.append(min(self.most, numbers[-1] + max(20, numbers[-1] // 20)))
        return numbers


def simulate(
    rates: Sequence[float], shares: Sequence[float], bound: float, looks: ConfidenceSequence, paths: int = 400
) -> tuple[Floats, Floats]:
    """Simulate runs that stop when `dp > bound` is decided, of groups with such rates (G,) of yes: the rows
    asked (P,), and whether the check failed (1), passed (0) or was open (NaN).

    `shares` (G,) are the groups' shares of rows. Runs are independent and of the interval's own form.
    """
    rng, groups = np.random.default_rng(0), len(rates)
    part = np.asarray(shares, np.float64) / np.sum(shares)
    numbers = np.array(looks.rows(int(np.ceil(MIN_ROWS_FIRST_LOOK / part.min()))))
    rows = np.diff(np.round(numbers[:, None] * part), axis=0, prepend=0).astype(np.int64)
    p = rng.binomial(rows, rates, (paths, *rows.shape)).cumsum(1) / rows.cumsum(0)
    ends = wilson(p, rows.cumsum(0))
    below, above = p - ends[0], ends[1] - p
    reach = np.array([[looks.reach(n, groups)] for n in numbers]) / Z
    first, second = np.triu_indices(groups, 1)
    gap = p[..., first] - p[..., second]
    down = reach * np.hypot(below[..., first], above[..., second])
    up = reach * np.hypot(above[..., first], below[..., second])
    low, high = np.maximum(gap - down, -gap - up).max(-1), np.maximum(gap + up, down - gap).max(-1)
    decided = (low > bound) | (high <= bound)
    last = np.where(decided.any(1), decided.argmax(1), len(numbers) - 1)
    failed = np.where(decided.any(1), low[np.arange(paths), last] > bound, np.nan)
    return numbers[last].astype(np.float64), failed


def expected(
    shares: Sequence[float], bound: float, looks: ConfidenceSequence
) -> Iterator[tuple[float, float, float]]:
    """Yield true gaps around a bound, of groups whose rates lie around one half, with the mean rows and the
    share of simulated runs that are decided.
    """
    for gap in sorted({0.0, bound / 2, bound, min(1.0, 2 * bound), min(1.0, 3 * bound)}):
        rates = [0.5 - gap / 2, *[0.5] * (len(shares) - 2), 0.5 + gap / 2]
        rows, failed = simulate(rates, shares, bound, looks)
        yield gap, float(rows.mean()), float(1 - np.isnan(failed).mean())
