"""Shares counted in one arm's answers, and how far they can be trusted.

The strata are what the design fixed: group and label where base rates were set, else only the group within
which a rate is counted. A row that is asked about in several repeats is not several rows: it lowers the
effective number of rows of its stratum, and leaves the strata's shares as the design has them
(docs/statistics.md, "Effective rows").
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.limits import Z, clopper_pearson
from fwc_llm.metrics.sample import Codes, Sample

_ROUNDING = 1e-10


@dataclass(frozen=True)
class Shares:
    """Shares counted in one sample: S strata that make up O shares (one of all, one a group, ...).

    `values` (O,) and `per_repeat` (R, O) are the shares, their mean over repeats and each repeat; NaN where
    nothing was counted. Of the strata: `owner` (S,) the share that each belongs to, `coefficient` (S,) its
    part in it, `share` (S,), `rows` (S,) the effective number of rows, `questions` (S,) of questions. `extra`
    (O,) is the variance that chance in which answers could be parsed adds. `residual` (n,) is each question's
    influence on its own share, centred in its stratum.
    """

    values: Floats
    per_repeat: Floats
    owner: Codes
    coefficient: Floats
    share: Floats
    rows: Floats
    questions: Floats
    extra: Floats
    residual: Floats
    stratum: Codes

    @cached_property
    def below(self) -> Floats:
        """The distance (O,) from each share down to its lower limit, over rows."""
        return self._distance(self._limits[0])

    @cached_property
    def above(self) -> Floats:
        """The distance (O,) from each share up to its upper limit, over rows."""
        return self._distance(self._limits[1])

    @cached_property
    def _limits(self) -> tuple[Floats, Floats]:
        return clopper_pearson(self.share, self.rows)

    def _distance(self, limit: Floats) -> Floats:
        """MOVER: each stratum's distance to its limit, weighted and added in squares (Zou & Donner 2008)."""
        square = self._sum((self.coefficient * (self.share - limit)) ** 2)
        return np.asarray(np.sqrt(square + Z**2 * self.extra))

    @cached_property
    def variance(self) -> Floats:
        """The variance (O,) of each share over rows."""
        return self._spread(self.rows)

    @cached_property
    def variance_of_questions(self) -> Floats:
        """The variance (O,) that each share would have if no row were asked about twice."""
        return self._spread(self.questions)

    def _spread(self, n: Floats) -> Floats:
        return self._sum(self.coefficient**2 * self.share * (1 - self.share) / n) + self.extra

    @cached_property
    def variance_if_alike(self) -> Floats:
        """The variance (O,) with shares drawn towards one half: never 0, for what chance alone would show."""
        middle = (self.share * self.questions + 1) / (self.questions + 2)
        return (
            self._sum(self.coefficient**2 * middle * (1 - middle) / np.maximum(self.rows - 1, 0.5))
            + self.extra
        )

    def _sum(self, parts: Floats) -> Floats:
        """Sums (O,) over each share's strata; a stratum without questions adds nothing."""
        known = np.where(self.coefficient > 0, parts, 0.0)
        return np.where(np.isnan(self.values), np.nan, _sums(self.owner, known, len(self.values)))


def _sums(place: Codes, weights: npt.ArrayLike, size: int) -> Floats:
    """Sums (size,) of `weights` by place."""
    return np.bincount(place, weights, size).astype(np.float64, copy=False)


def count_shares(
    sample: Sample,
    counted: npt.NDArray[np.bool_],
    right: Floats,
    owner: Codes,
    owners: int,
    by_label: bool,
) -> Shares:
    """Return the shares of `right` (n,) among the questions `counted` (n,), one for each of the `owners`.

    Every repeat in which a share is defined counts alike. `owner` (n,) says to which share a question
    belongs; `by_label` splits each share's strata by group and label.
    """
    if by_label:
        stratum, strata = sample.cell, 2 * sample.groups
    else:
        stratum, strata = owner, owners
    used = counted.astype(np.float64)
    hit = right * used
    place = sample.repeat * owners + owner
    shape = (sample.repeats, owners)
    asked = _sums(place, used, shape[0] * owners)
    found = _sums(place, hit, shape[0] * owners)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_repeat = (found / asked).reshape(shape)
        defined = (asked.reshape(shape) > 0).sum(0)
        weight = used / (asked[place] * defined[owner])
    weight[~counted] = 0.0
    of_stratum = np.zeros(strata, dtype=np.int64)
    of_stratum[stratum] = owner
    coefficient = _sums(stratum, weight, strata)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.nansum(per_repeat, axis=0) / defined
        share = _exact_ends(_sums(stratum, weight * right, strata) / coefficient)
    squares = _sums(stratum, weight**2, strata)
    together, correlation, distinct = _within_rows(sample, used, hit, weight, stratum, strata)
    with np.errstate(divide="ignore", invalid="ignore"):
        questions = coefficient**2 / squares
        rows = coefficient**2 / (squares + correlation * (together - squares))
    residual = weight * (right - np.where(np.isnan(values), 0.0, values)[owner])
    size = _sums(stratum, np.ones(len(stratum)), strata)
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = residual - (_sums(stratum, residual, strata) / size)[stratum]
        # Chance in which answers can be parsed shifts weight between strata of unequal shares.
        parsed = _sums(stratum, used, strata) / size
        shift = coefficient**2 * (1 - parsed) / parsed * (share - values[of_stratum]) ** 2 / distinct
    extra = _sums(of_stratum, np.where(coefficient > 0, shift, 0.0), owners)
    return Shares(
        values, per_repeat, of_stratum, coefficient, share, rows, questions, extra, residual, stratum
    )


def _exact_ends(share: Floats) -> Floats:
    """Shares of which rounding has not made almost 0 out of 0, or almost 1 out of 1."""
    return np.where(share < _ROUNDING, 0.0, np.where(share > 1 - _ROUNDING, 1.0, share))


def _within_rows(
    sample: Sample, used: Floats, hit: Floats, weight: Floats, stratum: Codes, strata: int
) -> tuple[Floats, Floats, Floats]:
    """Per stratum: the rows' squared weights, the correlation of answers within a row, and the rows asked.

    The correlation is the excess of the rows' squared residuals over that of independent answers, the larger
    of the stratum's own and that of all strata together; 1 where it cannot be estimated.
    """
    k = int(sample.row.max(initial=-1)) + 1
    asked = _sums(sample.row, np.ones(len(sample.row)), k)
    of_row = np.zeros(k, dtype=np.int64)
    of_row[sample.row] = stratum
    distinct = _sums(of_row, asked > 0, strata)
    squares = _sums(stratum, weight**2, strata)
    if asked.max(initial=0) < 2:
        return squares, np.zeros(strata), distinct
    together = _sums(of_row, _sums(sample.row, weight, k) ** 2, strata)
    m, s = _sums(sample.row, used, k), _sums(sample.row, hit, k)
    total, rows = _sums(of_row, m, strata), _sums(of_row, m > 0, strata)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = _sums(of_row, s, strata) / total
        alone = p * (1 - p)
        excess = rows / (rows - 1) * _sums(of_row, (s - m * p[of_row]) ** 2, strata) - total * alone
        pairs = (_sums(of_row, m**2, strata) - total) * alone
        known = (pairs > 0) & (rows > 1)
        own = np.where(known, excess / pairs, 1.0)
        pooled = excess[known].sum() / pairs[known].sum() if known.any() else 1.0
    return together, np.clip(np.maximum(own, pooled), 0.0, 1.0), distinct


def spread_over_sets(per_repeat: Floats, sets: Codes) -> tuple[Floats, Codes]:
    """Return the variance (O,) of a mean over repeats that the sets of examples show, and how many sets (O,).

    `per_repeat` (R, O) are values, `sets` (R,) the set of examples of each repeat. With a set of its own in
    every repeat it is the variance of the repeats' values over R. Repeats in which a value is not defined are
    left out; of one set the spread cannot be known, and 1, more than it can be, stands in.
    """
    _, code = np.unique(sets, return_inverse=True)
    known = ~np.isnan(per_repeat)
    weight = np.zeros((int(code.max()) + 1, per_repeat.shape[1]))
    total = np.zeros_like(weight)
    np.add.at(weight, code, known)
    np.add.at(total, code, np.where(known, per_repeat, 0.0))
    number = (weight > 0).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weight / weight.sum(0)
        off = np.where(weight > 0, total / weight - total.sum(0) / weight.sum(0), 0.0)
        return np.where(number > 1, number / (number - 1) * (share**2 * off**2).sum(0), 1.0), number


def over_rows_and_sets(
    variance: Floats, of_questions: Floats, per_repeat: Floats, sets: Codes
) -> tuple[Floats, Codes]:
    """Return the crossed variance (O,) of values over rows and sets of examples, and the number of sets (O,).

    max(V_row, V_rep + V_row − V_ind): the spread over sets holds that of independent questions, which V_row
    replaces by that of rows (docs/statistics.md, "This strategy"). `per_repeat` is (R, O), `sets` (R,).
    """
    between, number = spread_over_sets(per_repeat, sets)
    return np.maximum(variance, between + variance - of_questions), number
