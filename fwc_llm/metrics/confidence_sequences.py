"""Confidence sequences: intervals that hold at every look of a run or a monitor without a known end.

Where the most rows are known `group_sequential` asks fewer. A fixed interval holds for a number of rows that
was set before; after stopping at a convenient moment it does not. The estimates here are means of influences
of n rows, up to terms that vanish. For these

    |estimate − truth| ≤ standard error · √((n ρ² + 1) / (n ρ²) · log((n ρ² + 1) / α²))    at all n together

holds with probability 1 − α as the first look moves away (the normal mixture: Robbins 1970; for estimated
variances and assisted estimates: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, theorem 2.2), if rows
come in random order. ρ makes it tightest at some n. The interval keeps the shape that it has at a fixed n:
Wilson's limits at the effective rows, combined by MOVER. α is shared by the pairs of groups, the rates of a
metric and the checks that are decided. The estimand is the population: rows count as drawn one by one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from fwc_llm.metrics.intervals import LEVEL

MIN_ROWS_FIRST_LOOK = 30  # rows of every group that is judged
_TIGHTEST = 0.3  # of the most rows, where the sequence is tightest


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
