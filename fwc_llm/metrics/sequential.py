"""Group-sequential intervals, which hold at all looks at a run together.

Rows are asked about in random order; if people have several rows, people come in random order.

**Group-sequential.** A run that asks about at most N rows looks at its answers after N/10, 2N/10,
..., N rows. Up to the share t of the rows (people) it spends the error of O'Brien and Fleming's
boundary (Lan & DeMets 1983), half of it on each side:

    α(t) = 4 (1 − Φ(z / √t)),    z = z_{1 − 0.05/4}

Each boundary follows from the ones before (Armitage, McPherson & Rowe 1969). An interval as wide as
the boundary of its look is a *repeated confidence interval* (Jennison & Turnbull 1989): all
intervals of a run hold together at 95 %, for any stopping rule. For several groups and rates, and
for Student's t, the nominal level of the boundary replaces 95 %. N is at most 1.05 times the fixed
sample of equal error and power. The method assumes that the covariance of estimates at two looks is
the variance at the later look.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import LEVEL, Z, critical_value, root, wilson

MIN_ROWS_FIRST_LOOK = 30  # rows of every judged group before the first look
LOOKS = 10
# ratio of N to the fixed sample of equal error and a power of 0.8 (`evals.stopping`)
INFLATION = 1.038
GAPS = (0.0, 0.05, 0.1, 0.2, 0.3)
_NODES, _FARTHEST = (
    200,
    8.0,
)  # nodes of the quadrature; largest boundary in standard errors


@dataclass(frozen=True)
class GroupSequential:
    """Looks after these numbers of `rows`; `ended` is the reason if asking ended early."""

    rows: tuple[int, ...]
    ended: str = ""

    @property
    def most(self) -> int:
        """Maximum number of rows."""
        return self.rows[-1]

    def critical_value(
        self, rows: int, groups: int = 2, kinds: int = 1, freedom: float = np.inf
    ) -> float:
        """Return the critical value at `rows` rows, in standard errors, for all differences and
        looks.
        """
        look = min(bisect_left(self.rows, rows), len(self.rows) - 1)
        shares = tuple(
            (1 + number) / len(self.rows) for number in range(len(self.rows))
        )
        return critical_value(groups, kinds, freedom, nominal_levels(shares)[look])

    def looks(self, first: int) -> list[int]:
        """Return the numbers of rows at which to look, from `first` on."""
        return [rows for rows in self.rows if rows >= first] or [self.most]


def equal_looks(most: int) -> tuple[int, ...]:
    """Return the numbers of rows at ten looks, spaced as evenly as possible."""
    return tuple(
        np.unique(np.ceil(np.arange(1, LOOKS + 1) / LOOKS * most).astype(int)).tolist()
    )


def spent(share: float) -> float:
    """Return the error spent up to a share of the information, for O'Brien and Fleming's
    boundary.
    """
    return float(4 * ndtr(ndtri((1 - LEVEL) / 4) / np.sqrt(share)))


@lru_cache(maxsize=64)
def nominal_levels(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the nominal level of the interval at each look, after these `shares` of the
    information.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    score = np.zeros(1)
    mass = np.ones(1)
    before = 0.0
    levels = list[float]()
    for share in shares:
        step = np.sqrt(share - before)
        error = spent(share) - (spent(before) if before else 0.0)

        def unspent(
            bound: float,
            score: Floats = score,
            mass: Floats = mass,
            step: float = step,
            error: float = error,
        ) -> float:
            """This look's error minus the probability of crossing `bound` first at this look."""
            return error - float(
                mass @ (ndtr((score - bound) / step) + ndtr((-score - bound) / step))
            )

        bound = farthest = _FARTHEST * np.sqrt(share)
        if unspent(farthest) > 0:
            bound = root(unspent, 0.0, farthest)
        density = np.exp(-(((bound * nodes[:, None] - score) / step) ** 2) / 2) @ mass
        score = bound * nodes
        mass = density * bound * weights / (step * np.sqrt(2 * np.pi))
        before = share
        levels.append(float(1 - 2 * ndtr(-bound / np.sqrt(share))))
    return tuple(levels)


def simulate(
    rates: Sequence[float],
    shares: Sequence[float],
    bounds: tuple[float, float],
    design: GroupSequential,
    paths: int = 400,
) -> tuple[Floats, Floats]:
    """Simulate runs that stop when the DP gap's interval settles `bounds`.

    A run stops if the lower limit is above the first bound (1), or the upper limit is not above the
    second (0). Returns for each run (P,) the rows asked about, and 1 or 0, NaN if undecided.
    `rates` (G,) are true rates of yes.
    """
    rng = np.random.default_rng(0)
    groups = len(rates)
    part = np.asarray(shares, np.float64) / np.sum(shares)
    waited = part[part * design.most >= MIN_ROWS_FIRST_LOOK]
    numbers = np.array(
        design.looks(int(np.ceil(MIN_ROWS_FIRST_LOOK / waited.min(initial=1.0))))
    )
    rows = np.diff(np.round(numbers[:, None] * part), axis=0, prepend=0).astype(
        np.int64
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # a group may have no row yet
        p = rng.binomial(rows, rates, (paths, *rows.shape)).cumsum(1) / rows.cumsum(0)
    ends = wilson(p, rows.cumsum(0))
    below = p - ends[0]
    above = ends[1] - p
    wider = np.array([[design.critical_value(n, groups)] for n in numbers.tolist()]) / Z
    first, second = np.triu_indices(groups, 1)
    gap = p[..., first] - p[..., second]
    down = wider * np.hypot(below[..., first], above[..., second])
    up = wider * np.hypot(above[..., first], below[..., second])
    low = np.maximum(gap - down, -gap - up).max(-1)
    high = np.maximum(gap + up, down - gap).max(-1)
    decided = (low > bounds[0]) | (high <= bounds[1])
    last = np.where(decided.any(1), decided.argmax(1), len(numbers) - 1)
    above_bound = np.where(
        decided.any(1), low[np.arange(paths), last] > bounds[0], np.nan
    )
    return numbers[last].astype(np.float64), above_bound


def expected_rows(
    shares: Sequence[float], bounds: tuple[float, float], design: GroupSequential
) -> dict[str, Any]:
    """Return the expected rows until `bounds` are settled, for several true gaps."""
    gaps = []
    for gap in GAPS:
        rates = [0.5 - gap / 2, *[0.5] * (len(shares) - 2), 0.5 + gap / 2]
        rows, above = simulate(rates, shares, bounds, design)
        gaps.append(
            {
                "gap": gap,
                "rows": round(float(rows.mean())),
                "decided": float(np.mean(above >= 0)),
            }
        )
    return {"most": design.most, "fixed": round(design.most / INFLATION), "gaps": gaps}
