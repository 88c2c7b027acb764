"""The smallest difference that a design can detect.

A test at 5 % detects a difference of variance V with a power of 80 % if the difference is at least
(z.975 + z.8) √V = 2.8 √V. If two arms answer a share π_d of the rows differently,

    V = Σ_c a_c² π_d / n_c

over cells c (group × label), with n_c effective rows. The coefficients a_c depend on the metric:
accuracy, or the gap of two groups. If all cells are sampled at one rate, V is π_d / n for accuracy
and π_d (1/n_A + 1/n_B) for the gap. Where labels were drawn in fixed numbers, the gap is that at
equal labels, in which each cell of a group has a_c = 1/2. For one arm's gap, the variance of its
answers within a cell replaces π_d. With G groups, the gap is the largest of their differences, and
the 95 % quantile of the range of G normal deviates over √2 replaces z.975.

R repeats draw from a table with N_c rows in cell c, so rows recur. If the answers to one row have
the correlation ρ, the M_c questions of all repeats count as

    n_c = M_c / (1 + ρ (R − 1) M_c / (R N_c)),    at most N_c / ρ.

For a strategy, with new examples in every repeat, the variance is V + τ² / R, and quantiles of
Student's t with R − 1 degrees of freedom replace z. τ is the standard deviation of the difference
over sets of examples.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Flags, Floats, undefined_is_nan
from fwc_llm.metrics.intervals import critical_value, quantile
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.sanitize import Json
from fwc_llm.words import is_known

POWER = 0.8  # of tests at 5 %
FEW = 10  # rows of a group per repeat that its rate needs
QUESTIONS = ("gap", "accuracy", "gap_of_one")
_LIMITS = {"discordant": 1.0, "variance": 0.25, "correlation": 1.0, "examples_sd": 1.0}


@dataclass(frozen=True)
class Design:
    """Rows per cell in one repeat and in the table: (G, 2), or (G, 1) if labels come at random.

    Gaps are between the groups with at least `min_group` expected distinct rows, as in an audit.
    """

    groups: tuple[str, ...]
    rows: Floats
    table: Floats
    repeats: int
    min_group: int = 30

    @property
    def drawn(self) -> Floats:
        """Share of the table's rows that one repeat asks about, by cell."""
        return np.divide(
            self.rows, self.table, out=np.zeros_like(self.rows), where=self.rows > 0
        )

    @property
    def judged(self) -> Flags:
        """Whether each group (G,) is judged; if fewer than two would be, all known ones are."""
        known_groups = np.array([is_known(group) for group in self.groups])
        different = (
            self.table * (1 - (1 - np.minimum(self.drawn, 1.0)) ** self.repeats)
        ).sum(1)
        large = known_groups & (different >= self.min_group - 1e-9)
        return large if large.sum() > 1 else known_groups

    @property
    def labels(self) -> int:
        """2 if labels were drawn in fixed numbers, so that the gap at equal labels leads, or 1."""
        return int(self.rows.shape[1])

    @property
    def requests(self) -> int:
        """Number of questions to one arm, over all repeats."""
        return round(float(self.rows.sum())) * self.repeats


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of the power.

    `discordant` is the share of rows that two arms answer differently, `variance` the variance of
    one arm's answers within a cell, `correlation` the correlation of an arm's answers to one row in
    two repeats, and `examples_sd` the standard deviation of the difference over sets of examples.
    """

    # gpt-4-0314 on Adult answers 14 of 56 rows differently with and without examples. The variance
    # of its answers within group and label is 0.16 to 0.19. Asked again without examples it changes
    # 2 of 116 answers, so a second question about a row adds almost no information.
    discordant: float = 0.25
    variance: float = 0.17
    correlation: float = 1.0
    examples_sd: float = 0.05
    source: str = "as GPT-4 did on Adult, with examples against without: 14 of 56 rows"

    def __post_init__(self) -> None:
        for name, most in _LIMITS.items():
            value = getattr(self, name)
            if not 0.0 <= value <= most:  # NaN fails too
                words = name.replace("_", " ")
                raise FwcError(
                    f"{words} is {value:g}: it must lie between 0 and {most:g}"
                )
        if self.discordant == 0.0:
            raise FwcError(
                "discordant is 0, as of arms that answer every row alike: give a share above 0"
            )


def smallest(design: Design, assumptions: Assumptions | None = None) -> list[Json]:
    """Return the smallest differences detected with a power of 80 %, by scope and question."""
    assumed = assumptions or Assumptions()
    scopes = [THESE_EXAMPLES, *[THIS_STRATEGY] * (design.repeats >= MIN_SETS)]
    return [
        {
            "of": of,
            **{
                name: smallest_of(name, design, assumed, of == THIS_STRATEGY)
                for name in QUESTIONS
            },
        }
        for of in scopes
    ]


def smallest_of(
    question: str, design: Design, assumptions: Assumptions, strategy: bool
) -> float:
    """Return the smallest difference detected with a power of 80 %, for one of `QUESTIONS`."""
    variance = variance_of(question, design, assumptions)
    groups = int(design.judged.sum())
    groups = 2 if question == "accuracy" else groups
    if not strategy:
        return smallest_difference(variance, groups)
    sets = assumptions.examples_sd**2 / design.repeats
    return smallest_difference(variance + sets, groups, design.repeats - 1)


def smallest_difference(
    variance: float, groups: int = 2, freedom: float = math.inf
) -> float:
    """Return the difference detected with a power of 80 %; `freedom` is that of a t test."""
    hoped = quantile(POWER, freedom)
    return (critical_value(groups, 1, freedom) + hoped) * math.sqrt(variance)


@undefined_is_nan
def variance_of(question: str, design: Design, assumptions: Assumptions) -> float:
    """Return V for one of `QUESTIONS`; for a gap, V of the two groups with the largest
    variances.
    """
    if question == "gap_of_one":
        spread = assumptions.variance
    else:
        spread = assumptions.discordant
    again = 1 + assumptions.correlation * (design.repeats - 1) * design.drawn
    rows = design.rows * design.repeats / again  # effective rows of each cell
    if question == "accuracy":
        share = design.rows / design.rows.sum()
    else:  # at equal labels every label counts the same
        share = np.full_like(rows, 1 / design.labels)
    # a cell without questions adds 0
    of_groups = np.where(rows > 0, share**2 * spread / rows, 0.0).sum(1)
    if question == "accuracy":
        return float(of_groups.sum())
    of_groups = of_groups[design.judged]
    return float(np.sort(of_groups)[-2:].sum()) if len(of_groups) > 1 else math.nan


@undefined_is_nan
def steps_needed(
    difference: float,
    question: str,
    step: Design,
    assumptions: Assumptions,
    strategy: bool,
) -> int | None:
    """Return the least multiple of `step` that detects `difference`; None without one."""
    most = math.floor(
        float(np.nanmin(np.where(step.rows > 0, step.table / step.rows, np.nan))) + 1e-9
    )

    def finds(steps: int) -> bool:  # with `FEW` rows or more of at least two groups
        design = replace(step, rows=step.rows * steps)
        enough = np.sort(design.rows.sum(1))[-2:].min() >= FEW - 1e-9
        return bool(
            enough
            and smallest_of(question, design, assumptions, strategy) <= difference
        )

    # Power may fall with more rows: when a further group becomes large enough to be judged.
    if most:
        tried = np.unique(np.geomspace(1, most, 60).round()).astype(int).tolist()
    else:
        tried = []
    index = next((index for index, steps in enumerate(tried) if finds(steps)), None)
    if index is None:
        return None
    return bisect_left(
        range(tried[index]), True, tried[index - 1] if index else 1, key=finds
    )
