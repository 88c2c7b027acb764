"""Looks at a run or a monitor while it asks: intervals that hold at all looks together.

A fixed interval holds for a number of rows that was set before; after stopping at a convenient moment it does
not. Rows come in random order; where people have several rows, whole people do.

**Group-sequential.** A run that asks about at most N rows looks at its answers after N/10, 2N/10, ..., N of
them. Up to the share t of the rows (people) it spends the error that O'Brien and Fleming's boundary would
(Lan & DeMets 1983), a half of it on each side:

    α(t) = 4 (1 − Φ(z / √t)),    z = z_{1 − 0.05/4}

The boundaries follow one from the other (Armitage, McPherson & Rowe 1969). An interval as wide as the
boundary of its look is a *repeated confidence interval* (Jennison & Turnbull 1989): all of a run's hold
together at 95 %, whatever ends it. For several groups and rates, and for Student's t, the nominal level of
the boundary takes the place of 95 %. N is at most 1.05 of the fixed sample of equal error and power. This
rests on estimates at two looks whose covariance is the later one's variance.

**Confidence sequences**, where no most number of rows is known; where one is, they ask more. The estimates
here are means of influences of n rows, up to terms that vanish. For these

    |estimate − truth| ≤ standard error · √((n ρ² + 1) / (n ρ²) · log((n ρ² + 1) / α²))    at all n together

holds with probability 1 − α as the first look moves away (the normal mixture: Robbins 1970; for estimated
variances and assisted estimates: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, theorem 2.2). ρ makes it
tightest at some n. The interval keeps the shape that it has at a fixed n: Wilson's limits at the effective
rows, combined by MOVER. α is shared by the pairs of groups, the rates of a metric and the checks that are
decided. The estimand is the population: rows count as drawn one by one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import lambertw, ndtr, ndtri

from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import LEVEL, Z, critical_value, wilson

MIN_ROWS_FIRST_LOOK = 30  # rows of every group that is judged
_TIGHTEST = 0.3  # of the most rows, where the sequence is tightest
LOOKS = 10
INFLATION = 1.038  # N over the fixed sample of equal error and power, at a power of 0.8 (`evals.stopping`)
GAPS = (0.0, 0.05, 0.1, 0.2, 0.3)
_NODES, _FARTHEST = 200, 8.0  # of the quadrature; standard errors of an early boundary


@dataclass(frozen=True)
class GroupSequential:
    """A run that looks after each number of `rows`, the last of which is the most it asks.

    `ended` says why asking ended before all was decided or asked.
    """

    rows: tuple[int, ...]
    ended: str = ""

    @property
    def most(self) -> int:
        """The most rows."""
        return self.rows[-1]

    def critical_value(self, rows: int, groups: int = 2, kinds: int = 1, freedom: float = np.inf) -> float:
        """Return how many standard errors all differences keep within, at all looks, at `rows` rows."""
        look = min(bisect_left(self.rows, rows), len(self.rows) - 1)
        shares = tuple((1 + place) / len(self.rows) for place in range(len(self.rows)))
        return critical_value(groups, kinds, freedom, nominal_levels(shares)[look])

    def looks(self, first: int) -> list[int]:
        """Return the numbers of rows at which to look, from `first` on."""
        return [rows for rows in self.rows if rows >= first] or [self.most]


@dataclass(frozen=True)
class ConfidenceSequence:
    """A sequence of intervals at up to `most` rows (1,000 if endless), for a number of `checks`.

    `ended` says why asking ended before all was decided or asked.
    """

    checks: int
    most: int
    ended: str = ""

    def critical_value(self, rows: int, groups: int = 2, kinds: int = 1, freedom: float = np.inf) -> float:
        """Return how many standard errors all differences keep within at every look, at `rows` rows.

        Errors count as known: `freedom` is that of a fixed sample, and is not used.
        """
        alpha = (1 - LEVEL) / (max(1, self.checks) * kinds * max(1, groups * (groups - 1) // 2))
        tightest = -lambertw(-(alpha**2) / np.e, -1).real - 1.0  # n ρ² there
        time = tightest * rows / (_TIGHTEST * self.most)
        return float(np.sqrt((time + 1) / time * np.log((time + 1) / alpha**2)))

    def looks(self, first: int) -> list[int]:
        """Return the numbers of rows at which to look: from `first` on, a twentieth more each time."""
        numbers = [min(first, self.most)]
        while numbers[-1] < self.most:
            numbers.append(min(self.most, numbers[-1] + max(20, numbers[-1] // 20)))
        return numbers


def equal_looks(most: int) -> tuple[int, ...]:
    """Return the rows at ten interim analyses, spaced as evenly as possible."""
    return tuple(np.unique(np.ceil(np.arange(1, LOOKS + 1) / LOOKS * most).astype(int)).tolist())


def spent(share: float) -> float:
    """Return the error spent up to a share of the information, by O'Brien and Fleming's form."""
    return float(4 * ndtr(ndtri((1 - LEVEL) / 4) / np.sqrt(share)))


@lru_cache(maxsize=64)
def nominal_levels(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the level of the interval at each look, after so large `shares` of the information."""
    from scipy.optimize import brentq  # a quarter of a second to import

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    score, mass, before, levels = np.zeros(1), np.ones(1), 0.0, list[float]()
    for share in shares:
        step, error = np.sqrt(share - before), spent(share) - (spent(before) if before else 0.0)

        def excess(bound: float, score: Floats = score, mass: Floats = mass, step: float = step) -> float:
            """What ends beyond a bound at this look alone."""
            return float(mass @ (ndtr((score - bound) / step) + ndtr((-score - bound) / step)))

        bound = farthest = _FARTHEST * np.sqrt(share)
        if excess(farthest) < error:
            bound = brentq(lambda at, of=excess, error=error: of(at) - error, 0.0, farthest)
        density = np.exp(-(((bound * nodes[:, None] - score) / step) ** 2) / 2) @ mass
        score, mass = bound * nodes, density * bound * weights / (step * np.sqrt(2 * np.pi))
        before = share
        levels.append(float(1 - 2 * ndtr(-bound / np.sqrt(share))))
    return tuple(levels)


def simulate(
    rates: Sequence[float],
    shares: Sequence[float],
    bounds: tuple[float, float],
    design: GroupSequential | ConfidenceSequence,
    paths: int = 400,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Simulate runs that stop when the DP gap's interval lies above the first of `bounds` (1), or not above
    the second (0), of groups with such rates (G,) of yes: the rows asked (P,), and which it is, NaN for none.

    `shares` (G,) are the groups' shares of rows. Runs are independent and of the interval's own form.
    """
    rng, groups = np.random.default_rng(seed), len(rates)
    part = np.asarray(shares, np.float64) / np.sum(shares)
    waited = part[part * design.most >= MIN_ROWS_FIRST_LOOK]
    numbers = np.array(design.looks(int(np.ceil(MIN_ROWS_FIRST_LOOK / waited.min(initial=1.0)))))
    rows = np.diff(np.round(numbers[:, None] * part), axis=0, prepend=0).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):  # a group may have no row yet
        p = rng.binomial(rows, rates, (paths, *rows.shape)).cumsum(1) / rows.cumsum(0)
    ends = wilson(p, rows.cumsum(0))
    below, above = p - ends[0], ends[1] - p
    wider = np.array([[design.critical_value(n, groups)] for n in numbers.tolist()]) / Z
    first, second = np.triu_indices(groups, 1)
    gap = p[..., first] - p[..., second]
    down = wider * np.hypot(below[..., first], above[..., second])
    up = wider * np.hypot(above[..., first], below[..., second])
    low, high = np.maximum(gap - down, -gap - up).max(-1), np.maximum(gap + up, down - gap).max(-1)
    decided = (low > bounds[0]) | (high <= bounds[1])
    last = np.where(decided.any(1), decided.argmax(1), len(numbers) - 1)
    above_bound = np.where(decided.any(1), low[np.arange(paths), last] > bounds[0], np.nan)
    return numbers[last].astype(np.float64), above_bound


def expected_rows(
    shares: Sequence[float], bounds: tuple[float, float], design: GroupSequential | ConfidenceSequence
) -> dict[str, Any]:
    """Return what a run asks until `bounds` are decided (see `simulate`), of groups with rates around 1/2.

    `gaps` has true gaps, each with the mean `rows` and the share of runs that are `decided`; `most` the most
    rows, and `fixed` a fixed sample that decides as often, None of a confidence sequence.
    """
    gaps = []
    for gap in GAPS:
        rates = [0.5 - gap / 2, *[0.5] * (len(shares) - 2), 0.5 + gap / 2]
        rows, above = simulate(rates, shares, bounds, design)
        gaps.append({"gap": gap, "rows": round(float(rows.mean())), "decided": float(np.mean(above >= 0))})
    fixed = round(design.most / INFLATION) if isinstance(design, GroupSequential) else None
    return {"most": design.most, "fixed": fixed, "gaps": gaps}
