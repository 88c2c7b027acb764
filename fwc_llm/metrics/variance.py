"""One arm's answers as arrays, and rates with their clustered variance.

The error of a share is the sum of the influences of the questions. Questions about one row (or one
person) form a cluster, and so do questions with one set of examples: the variance is two-way
clustered (Cameron, Gelbach & Miller 2011), V = V_rows + V_sets − V_rows∩sets, and at least V_rows.
The effective rows of a share are the number of independent rows with the same variance; Wilson's
limits at this number shape the interval (docs/statistics.md, "The method").
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import (
    RATES,
    REPLY_RATES,
    SHAPE,
    UNPARSED,
    YES,
    Codes,
    Flags,
    Floats,
    levels_of,
    sums_by,
    undefined_is_nan,
)
from fwc_llm.metrics.intervals import (
    FEW_EVENTS,
    Z,
    clopper_pearson,
    critical_value,
    wilson,
)
from fwc_llm.metrics.sampling_design import AS_NO, AS_THEY_FALL, WORST, SamplingDesign
from fwc_llm.words import ANSWERS

if TYPE_CHECKING:
    from scipy import sparse

Scope = Literal["these examples", "this strategy"]
# Why an answer is missing ("": not known); answers store the index.
REASONS = ("", *REPLY_RATES[1:], "error")
THESE_EXAMPLES: Scope = "these examples"
THIS_STRATEGY: Scope = "this strategy"
MIN_SETS = 5  # sets of examples, at least, for the scope "this strategy"
# Rates that are defined without labels.
UNLABELLED = "selection_rate", "selection_rate_decided", "refer_rate", *REPLY_RATES
# share of rows with examples of their own, from which examples count as chosen per row
NEARLY_ALL = 0.9
FEW_FREEDOM = 4  # degrees of freedom below which Satterthwaite's formula for two shares is not used
FEW_ANSWERS = (
    5  # rows with the rarer answer below which a model's answers may count as all alike
)
WITHHELD_MIX = (
    "withheld: it depends on the mix of {} in the test rows, which was chosen"
)
_ROUNDING = 1e-10
_OF_ANSWERS = (
    *("answer", "label", "group", "repeat", "row", "examples", "weight"),
    *("cluster", "p_yes", "strata", "reason"),
)
# Predictions of one arm's answers: `prediction_powered.Predictions`.
Assist = Callable[
    ["ArmArrays", str, Floats, Floats, Floats, Codes],
    tuple[Floats, Floats, Floats, Floats] | None,
]


def scope_words(of: str, with_examples: bool) -> str:
    """Words for the scope `of` an interval: without examples, "these examples" becomes "these
    rows".
    """
    return "these rows" if of == THESE_EXAMPLES and not with_examples else of


def codes(values: Any) -> Codes:
    """Return integer codes (n,) of values, from 0 without gaps."""
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64)


@dataclass(frozen=True)
class ArmArrays:
    """The n answers of one arm as arrays, and the sampling design.

    `answer` and `label` (n,) are codes of `counts`, or NaN; `group`, `repeat` and `row` (n,) count
    from 0, and a row has one group and one label. `groups` is the number of groups; those in
    `unknown` are no group of people, and never judged. `examples` (n,) numbers the set of examples
    in each prompt; None if all prompts had the same set, or if the sets are unknown. `weight` (n,)
    is the row weight. `cluster` (n,) numbers the people, if people have several rows. `p_yes` (n,)
    is P(yes) or NaN. `assist` has predictions of the answers, also for rows that were not asked
    about (`prediction_powered`). `strata` (n,) names the stratum for conditional parity. `reason`
    (n,) is the index in `REASONS` of the reason why an answer is missing; replies lost in transport
    ("error") are left out.
    """

    answer: Floats
    label: npt.NDArray[np.integer[Any]]
    group: Codes
    repeat: Codes
    row: Codes
    groups: int
    design: SamplingDesign = AS_THEY_FALL
    examples: Codes | None = None
    weight: Floats | None = None
    cluster: Codes | None = None
    p_yes: Floats | None = None
    assist: Assist | None = None
    strata: Any = None
    reason: Codes | None = None
    unknown: tuple[int, ...] = ()

    @cached_property
    def unread_rows(self) -> Flags:
        """(n,) true for replies without an answer, except those lost in transport."""
        return ~self.parsed & ~self.lost

    @property
    def lost(self) -> Flags:
        """(n,) true for questions whose reply was lost in transport, or never asked for."""
        if self.reason is None:
            return np.zeros(len(self.answer), dtype=np.bool_)
        is_lost: Flags = ~self.parsed & (self.reason == REASONS.index("error"))
        return is_lost

    @property
    def assumed(self) -> "ArmArrays":
        """The sample, with replies without an answer read as no if the design says so.

        Not cached: a sample that holds itself would outlive its estimates.
        """
        if self.design.unread != AS_NO or not self.unread_rows.any():
            return self
        return replace(self, answer=np.where(self.unread_rows, 0.0, self.answer))

    @property
    def worst(self) -> bool:
        """Whether verdicts must hold for all answers that replies without one might have had."""
        return self.design.unread == WORST and bool(self.unread_rows.any())

    @cached_property
    def alike(self) -> str:
        """Words for a model's answers that are (nearly) all alike; empty if they differ."""
        return self._alike(self.assumed.answer, self.label)

    @cached_property
    def selects_alike(self) -> bool:
        """Whether (nearly) everybody gets a yes, or nobody does, by the rule of `alike`."""
        answer = self.assumed.answer
        selected = np.where(np.isnan(answer), answer, answer == YES)
        return bool(self._alike(selected, np.asarray(self.label == YES, np.int64)))

    def _alike(self, answer: Floats, label: npt.NDArray[np.integer[Any]]) -> str:
        """Words for answers (n,) that are (nearly) all alike.

        They are alike if all agree, or if fewer than five rows have another answer than most, and
        significantly more have another label: the exact upper limit of the other answers' share is
        below that of these labels.
        """
        known = ~np.isnan(answer)
        if not self.design.model or not known.any():
            return ""
        of_answers = [
            len(np.unique(self.row[known & (answer == code)]))
            for code in range(SHAPE[0])
        ]
        usual = int(np.argmax(of_answers))
        rows = sum(of_answers)
        few = rows - of_answers[usual]
        labels = len(np.unique(self.row[known & (label != usual)]))
        if few and not (few < FEW_ANSWERS and self.design.labelled):
            return ""
        if few and float(clopper_pearson(few / rows, rows)[1]) >= labels / rows:
            return ""
        return (
            f"answered {ANSWERS[usual]} to all {f'but {few} of ' * bool(few)}{rows:,} "
            f"rows"
        )

    def critical_values(
        self, freedom: Floats, groups: int = 2, kinds: int = 1
    ) -> Floats:
        """Critical values (P,), in standard errors, of all differences together, at each
        `freedom` (P,).
        """
        values, index = np.unique(freedom, return_inverse=True)
        critical = [critical_value(groups, kinds, float(value)) for value in values]
        return np.array(critical)[index]

    @cached_property
    def parsed(self) -> Flags:
        """(n,) true for the answers yes, no and refer."""
        return ~np.isnan(self.answer)

    @property
    def weights(self) -> Floats:
        """(n,) the row weights, 1 without any."""
        return np.ones(len(self.answer)) if self.weight is None else self.weight

    @property
    def scores(self) -> Floats:
        """(n,) P(yes), NaN without any."""
        unknown = np.full(len(self.answer), np.nan)
        return unknown if self.p_yes is None else self.p_yes

    @property
    def yes(self) -> Floats:
        """(n,) 1 for yes, 0 for everything else."""
        return np.where(self.answer == YES, 1.0, 0.0)

    @cached_property
    def kind(self) -> Codes:
        """(n,) the index of label and answer in counts (3, 4)."""
        answer = np.nan_to_num(self.answer, nan=UNPARSED)
        return (SHAPE[1] * self.label + answer).astype(np.int64)

    @property
    def cell(self) -> Codes:
        """(n,) twice the group, plus 1 if the label is yes."""
        return np.asarray(2 * self.group + (self.label == YES), np.int64)

    @property
    def unit(self) -> Codes:
        """(n,) the units that were drawn: people if known, else rows."""
        return self.row if self.cluster is None else self.cluster

    @cached_property
    def rows(self) -> int:
        """Number of rows that were asked about."""
        return int(np.count_nonzero(np.bincount(self.row)))

    @cached_property
    def repeats(self) -> int:
        """Number of repeats."""
        return int(self.repeat.max(initial=-1)) + 1

    def where(self, chosen: Flags) -> "ArmArrays":
        """Select answers by a mask (n,)."""
        arrays = {name: getattr(self, name) for name in _OF_ANSWERS}
        parts: Any = {n: a[chosen] for n, a in arrays.items() if a is not None}
        return replace(self, **parts)

    def of_groups(self, unit: Codes) -> Floats:
        """Return (G,) the number of distinct values of `unit` (n,), rows or people, per group."""
        return distinct(self.group, unit, self.groups)

    @cached_property
    def known_groups(self) -> Codes:
        """The groups of people."""
        return np.setdiff1d(np.arange(self.groups), self.unknown)

    @cached_property
    def eligible_groups(self) -> Codes:
        """Known groups with at least `min_group` rows (people); if fewer than two do, those with an
        answer, or else all.
        """
        if self.design.min_group == 1:
            return self.known_groups
        sizes = self.of_groups(self.unit)[self.known_groups]
        large = self.known_groups[sizes >= self.design.min_group]
        answered = np.intersect1d(self.known_groups, self.group[self.parsed])
        choices = large, answered, self.known_groups
        return next((groups for groups in choices if len(groups) > 1), choices[-1])

    @cached_property
    def per_row(self) -> bool:
        """Whether nearly every row was asked about with examples of its own."""
        if self.examples is None or not len(self.examples):
            return False
        sets = len(np.unique(self.examples))
        served = len(np.unique(self.examples * (int(self.row.max()) + 1) + self.row))
        return sets > max(self.repeats, NEARLY_ALL * served)

    @cached_property
    def sets(self) -> Codes | None:
        """(n,) the set of examples of each question; None for a single set.

        If every row has its own examples, five or more repeats count as sets: only the differences
        between repeats show what the rows of a repeat have in common. With fewer repeats, None.
        """
        if self.examples is None:
            return None
        if self.per_row:
            return self.repeat if self.repeats >= MIN_SETS else None
        return None if (self.examples == self.examples[0]).all() else self.examples

    @cached_property
    def number_of_sets(self) -> int:
        """Effective number of sets of examples, (Σ n)² / Σ n² for sets of n questions."""
        return 1 if self.sets is None else effective_number(self.sets)

    @property
    def scope(self) -> Scope:
        """The scope of this arm's intervals: these examples, or the strategy that draws them."""
        return (
            THIS_STRATEGY
            if self.per_row or self.number_of_sets >= MIN_SETS
            else THESE_EXAMPLES
        )

    @property
    def redrawn(self) -> Codes | None:
        """(n,) the sets, if intervals also cover other draws of examples; else None."""
        return self.sets if self.number_of_sets >= MIN_SETS else None


def arrays_of(
    answer: npt.ArrayLike,
    label: npt.ArrayLike,
    groups: Any,
    weight: npt.ArrayLike | None = None,
) -> tuple[ArmArrays, list[str]]:
    """Make arrays of answers (n,), codes or NaN, to n rows with labels; return the group names
    too.
    """
    names, group = levels_of(groups)
    none = np.zeros(len(group), dtype=np.int64)
    row = np.arange(len(group))
    given = np.asarray(answer, np.float64)
    truth = np.asarray(label, np.int64)
    counts_for = None if weight is None else np.asarray(weight, np.float64)
    arrays = (given, truth, group, none, row, len(names))
    return ArmArrays(*arrays, weight=counts_for), names


def distinct(owner: Codes, unit: Codes, owners: int) -> Floats:
    """Return (O,) the number of distinct units (n,) of each owner (n,)."""
    many = int(unit.max(initial=0)) + 1
    of = np.unique(owner * many + unit) // many
    return np.bincount(of, minlength=owners).astype(np.float64)


def effective_number(sets: Codes) -> int:
    """Return (Σ n)² / Σ n² for sets of n questions, rounded (Kish 1965)."""
    served = np.unique(sets, return_counts=True)[1].astype(np.float64)
    return round(float(served.sum() ** 2 / (served**2).sum()))


def both_asked(first: ArmArrays, second: ArmArrays) -> tuple[Codes, Codes]:
    """Return the indices, in each arm, of the questions that both were asked."""
    many = 1 + max(int(sample.row.max(initial=-1)) for sample in (first, second))
    keys = first.repeat * many + first.row, second.repeat * many + second.row
    _, position, there = np.intersect1d(*keys, assume_unique=True, return_indices=True)
    return position, there


@dataclass(frozen=True)
class Influence:
    """The influence `psi` (n,) of each question on the error of its share.

    `owner` (n,) is the index of that share, of `owners` shares. Questions of one `unit` (n,) are
    one draw; `spans`: a unit may belong to several shares. `sets` (n,) are the sets of examples if
    these count as drawn; None: fixed.
    """

    psi: Floats
    owner: Codes
    owners: int
    unit: Codes
    spans: bool = False
    sets: Codes | None = None

    def _by(self, units: Codes) -> "sparse.csc_array":
        """Summed influence of each unit on each share (U, O)."""
        from scipy import sparse  # a fifth of a second to import

        table = sparse.coo_array(
            (self.psi, (units, self.owner)), shape=(int(units.max()) + 1, self.owners)
        )
        return table.tocsc()

    @cached_property
    def _by_unit(self) -> "sparse.csc_array":
        return self._by(self.unit)

    @cached_property
    def over_units(self) -> Floats:
        """Variance (O,) over rows or people."""
        return _squares(self._by_unit)

    @property
    @undefined_is_nan
    def freedom(self) -> Floats:
        """Satterthwaite's (1946) degrees of freedom (O,) of `over_units`."""
        squares = self._by_unit.power(2)
        two = self.over_units
        excess = _squares(squares) - two**2 / np.maximum(squares.count_nonzero(0), 1)
        return np.where(excess > 0, 2 * two**2 / excess, np.inf)

    @cached_property
    def of_sets(self) -> Floats:
        """Summed influence of each set on each share (S, O), times √(S / (S − 1)) for S
        effective sets.
        """
        if self.sets is None:
            return np.zeros((0, self.owners))
        number = max(2, effective_number(self.sets))
        return np.asarray(
            self._by(codes(self.sets)).toarray() * np.sqrt(number / (number - 1))
        )

    @cached_property
    def _of_both(self) -> Floats:
        """Variance (O,) over units within sets."""
        if self.sets is None:
            return np.zeros(self.owners)
        return _squares(
            self._by(codes(self.unit * (int(self.sets.max()) + 1) + self.sets))
        )

    def shared(self, first: Codes, other: "Influence", second: Codes) -> Floats:
        """Return the covariance (P,) over units of pairs of shares, the second of the `other`; 0
        unless units span shares.
        """
        if not self.spans:
            return np.zeros(len(first))
        both = self._by_unit[:, first].multiply(other._by_unit[:, second])
        return np.asarray(both.sum(0)).ravel()

    def over_sets(
        self, first: Codes, other: "Influence", second: Codes | None
    ) -> Floats:
        """Return the variance (P,) that sets add to shares, or to the other's second minus
        first.
        """
        sets = self.of_sets[:, first]
        both = self._of_both[first]
        if second is not None:
            sets = other.of_sets[:, second] - sets
            both = both + other._of_both[second]
        return np.asarray(np.maximum(0.0, (sets**2).sum(0) - both))


def _squares(table: "sparse.csc_array") -> Floats:
    return np.asarray(table.multiply(table).sum(0), np.float64).ravel()


@dataclass(frozen=True)
class RateEstimates:
    """O shares of one sample, such as one per group.

    `values` (O,) are the means over repeats of `per_repeat` (R, O); NaN if nothing was counted.
    `below` and `above` (O,) are the distances to Wilson's limits at the effective rows, `plain`
    (O,) is the variance at these rows, and `variance` (O,) the clustered variance over rows.
    `two_rows` (O,) is the variance of two added rows that changed, one each way. `freedom` (O,) are
    the degrees of freedom of `variance`: infinite, unless there are weights, people, or values
    between 0 and 1.
    """

    sample: ArmArrays
    values: Floats
    per_repeat: Floats
    below: Floats
    above: Floats
    plain: Floats
    variance: Floats
    two_rows: Floats
    freedom: Floats
    influence: Influence

    @undefined_is_nan
    def spread(
        self,
        first: Codes | None = None,
        second: Codes | None = None,
        other: "RateEstimates | None" = None,
    ) -> tuple[Floats, Floats]:
        """Return a factor of distances, and degrees of freedom (P,), of shares or of second
        minus first; the second share may be of another reading of the same answers.

        The factor is the root of the ratio of the clustered variance to that in `below` and
        `above`. Degrees of freedom are Student's, from people or sets of examples, or infinite. For
        two shares they are Satterthwaite's (1946), or the smaller number if it is below four
        (Tipton 2015).
        """
        if first is None:
            first = np.arange(len(self.values))
        other = other or self
        variance = self.variance[first]
        plain = self.plain[first]
        freedom = self.freedom[first]
        if second is not None:
            first_variance = variance
            others = other.variance[second]
            variance = first_variance + others
            plain = plain + other.plain[second]
            if np.isfinite(freedom).any():
                both = variance**2 / (
                    first_variance**2 / freedom + others**2 / other.freedom[second]
                )
                fewer = np.minimum(freedom, other.freedom[second])
                freedom = np.where(np.isnan(both) | (fewer < FEW_FREEDOM), fewer, both)
            shared = self.influence.shared(first, other.influence, second)
            variance = np.maximum(variance - 2 * shared, 0.05 * variance)
        if self.influence.sets is not None:
            of_sets = self.influence.over_sets(first, other.influence, second)
            variance = variance + of_sets
            freedom = np.minimum(freedom, self.sample.number_of_sets - 1.0)
        factor = np.sqrt(np.where(plain > 0, variance / plain, 1.0))
        return np.asarray(factor), np.maximum(1.0, np.floor(freedom))

    def combined(self, owner: Codes, weight: Floats, owners: int) -> "RateEstimates":
        """Return weighted sums (owners,) of shares.

        `owner` (O,) is the index of each share's sum. A sum is NaN if a share with a positive
        weight is.
        """

        def total(values: Floats, power: int = 1) -> Floats:
            parts = np.where(weight > 0, weight**power * values, 0.0)
            return np.bincount(owner, parts, owners).astype(np.float64)

        weighted = np.bincount(owner, weight, owners) > 0
        values = np.where(weighted, total(self.values), np.nan)
        each = np.array([total(row) for row in self.per_repeat])
        freedom = np.full(owners, np.inf)
        np.minimum.at(freedom, owner, self.freedom)
        own = self.influence
        return RateEstimates(
            self.sample,
            values,
            np.where(np.isnan(values), np.nan, each),
            np.sqrt(total(self.below**2, 2)),
            np.sqrt(total(self.above**2, 2)),
            total(self.plain, 2),
            total(self.variance, 2),
            total(self.two_rows, 2),
            freedom,
            replace(
                own,
                psi=own.psi * weight[own.owner],
                owner=owner[own.owner],
                owners=owners,
            ),
        )


def is_withheld(design: SamplingDesign, rate: str) -> bool:
    """Whether a rate depends on the mix of labels, and the mix was chosen."""
    return design.labels_fixed and rate in RATES and RATES[rate].of_mix


def rate_shares(
    sample: ArmArrays, rate: str, owner: Codes, owners: int, by_label: bool
) -> RateEstimates:
    """Return one of `RATES` for each owner (n,); `by_label`: strata are groups and labels."""
    of_kinds = RATES[rate].counted, RATES[rate].hits
    counted, hits = (
        kinds.astype(np.float64).ravel()[sample.kind] for kinds in of_kinds
    )
    without_labels = not sample.design.labelled and rate not in UNLABELLED
    without_referrals = not sample.design.refers and rate == "refer_rate"
    unknown = without_labels or without_referrals
    if unknown or is_withheld(sample.design, rate):
        counted = np.zeros_like(counted)
    return mean_shares(sample, counted, hits, owner, owners, by_label, rate)


@undefined_is_nan
def mean_shares(
    sample: ArmArrays,
    counted: Floats,
    value: Floats,
    owner: Codes,
    owners: int,
    by_label: bool,
    rate: str = "",
) -> RateEstimates:
    """Return the weighted mean of `value` (n,), from 0 to 1, over `counted` (n,) answers by owner.

    A share is the mean over the repeats in which it is defined. Predictions assist the shares of a
    known `rate`. Strata are groups and labels if `by_label`, else the owners.
    """
    stratum, strata = (sample.cell, 2 * sample.groups) if by_label else (owner, owners)
    by_stratum = sums_by(stratum, strata)
    used = counted * sample.weights
    index = sample.repeat * owners + owner
    shape = (sample.repeats, owners)
    n_rows, hits = (
        np.bincount(index, part, shape[0] * owners) for part in (used, used * value)
    )
    of_stratum = np.zeros(strata, dtype=np.int64)
    of_stratum[stratum] = owner
    per_repeat = (hits / n_rows).reshape(shape)
    defined = (n_rows.reshape(shape) > 0).sum(0)
    weight = np.where(
        used > 0, used / (n_rows.reshape(shape) * defined).ravel()[index], 0.0
    )
    values = np.where(defined > 0, np.nansum(per_repeat, 0) / defined, np.nan)
    part = by_stratum(weight)
    share = by_stratum(weight * value) / part
    share = np.where(
        share < _ROUNDING, 0.0, np.where(share > 1 - _ROUNDING, 1.0, share)
    )
    rows, units, spread, index = _effective_rows(
        sample, weight, value, share, stratum, strata
    )
    residual = weight * (value - np.where(np.isnan(values), 0.0, values)[owner])
    if sample.assist and (
        change := sample.assist(sample, rate, weight, value, share, stratum)
    ):
        moved, worth, control, scale = change
        share = share + moved
        rows = rows * worth
        residual = (residual - control) * scale[stratum]
        values = values + np.bincount(
            of_stratum, np.where(part > 0, part * moved, 0.0), owners
        )
    size = np.bincount(stratum, minlength=strata)
    # If some answers are not parsed at random, weight shifts between strata of unequal shares.
    parsed = by_stratum(counted > 0) / size
    shift = part**2 * (1 - parsed) / parsed * (share - values[of_stratum]) ** 2 / units
    low, high = wilson(share, rows)
    residual = residual - (by_stratum(residual) / size)[stratum]

    def total(parts: Floats) -> Floats:
        sums = np.bincount(of_stratum, np.where(part > 0, parts, 0.0), owners)
        return np.where(np.isnan(values), np.nan, sums)

    extra = total(shift)
    plain = total(part**2 * share * (1 - share) / rows) + total(shift)
    two_rows = total(2.0 * part**3 / units**2)
    people = sample.cluster is not None
    psi = residual * bias_reduced(weight, stratum, index)
    influence = Influence(psi, owner, owners, sample.unit, people, sample.redrawn)
    variance = plain
    freedom = np.full(owners, np.inf)
    if not np.isin(value, (0.0, 1.0)).all():
        freedom = influence.freedom
    if sample.weight is not None or people:
        variance = np.where(
            np.isnan(values), np.nan, np.maximum(plain, influence.over_units)
        )
        freedom = np.minimum(
            freedom, _freedom(spread, index, owner, owners, sample.unit)
        )
    below, above = (
        np.sqrt(total((part * (share - end)) ** 2) + Z**2 * extra)
        for end in (low, high)
    )
    return RateEstimates(
        sample,
        values,
        per_repeat,
        below,
        above,
        plain,
        variance,
        two_rows,
        freedom,
        influence,
    )


def _effective_rows(
    sample: ArmArrays,
    weight: Floats,
    value: Floats,
    share: Floats,
    stratum: Codes,
    strata: int,
) -> tuple[Floats, Floats, Floats, Codes]:
    """Return effective rows and units, counted or not, of each stratum (C,); variances; places.

    The variances (U,) are those of the sum of each unit within a stratum; the places (n,) are the
    indices of the questions' units.

    Effective rows are (Σ w)² / Σ w² over Kish's (1965) design effect 1 + ρ (m − 1) of asking about
    one unit m times. The correlation ρ is the larger of the stratum's own and that of all strata
    together, from 0 to 1; it is 1 if it cannot be estimated.
    """
    by_stratum = sums_by(stratum, strata)
    part = by_stratum(weight)
    squares = by_stratum(weight**2)
    questions = part**2 / squares
    off = np.where(weight > 0, weight * (value - share[stratum]), 0.0)
    n_rows = by_stratum(weight > 0)
    independent = n_rows / (n_rows - 1) * by_stratum(off**2)
    if not np.isin(value, (0.0, 1.0)).all():
        questions = questions * np.where(
            independent > 0, share * (1 - share) * squares / independent, 1.0
        )
    of = stratum
    unit_of = np.arange(len(stratum))
    if sample.cluster is not None or sample.rows < len(stratum):  # several of a unit
        number = int(sample.unit.max(initial=-1)) + 1
        key, unit_of = np.unique(stratum * number + sample.unit, return_inverse=True)
        of = key // number
    by_unit = sums_by(of, strata)
    sums = np.bincount(unit_of, weight)
    alone = np.bincount(unit_of, weight**2)
    more = by_unit(sums**2) / squares - 1.0
    seen = by_unit(sums > 0)
    excess = seen / (seen - 1) * by_unit(np.bincount(unit_of, off) ** 2) - independent
    estimable = (independent > 0) & (seen > 1) & (more > _ROUNDING)
    of_known = np.isin(sample.group, sample.known_groups)
    together = estimable & (by_stratum(of_known) > 0)
    pooled = 1.0
    if together.any():
        pooled = excess[together].sum() / (independent * more)[together].sum()
    estimated = np.where(estimable, excess / (independent * more), 1.0)
    correlation = np.clip(np.maximum(estimated, pooled), 0.0, 1.0)
    effect = 1.0 + correlation * np.maximum(more, 0.0)
    spread = alone + correlation[of] * (sums**2 - alone)
    return (
        questions / effect,
        np.bincount(of, minlength=strata).astype(np.float64),
        spread,
        unit_of,
    )


@undefined_is_nan
def bias_reduced(weight: Floats, stratum: Any, unit_of: Codes) -> Floats:
    """Return factors (n,) of residuals: 1 / √(1 − h), h the leverage of the unit in its stratum.

    CR2: Bell & McCaffrey 2002; Pustejovsky & Tipton 2018. `place` (n,) is the index of each
    question's unit. The factor is 1 for the only unit of a stratum.
    """
    leverage = (
        np.bincount(unit_of, weight)[unit_of] / np.bincount(stratum, weight)[stratum]
    )
    return np.where(leverage < 1 - _ROUNDING, 1 / np.sqrt(1 - leverage), 1.0)


@undefined_is_nan
def _freedom(
    spread: Floats, unit_of: Codes, owner: Codes, owners: int, unit: Codes
) -> Floats:
    """Return degrees of freedom (O,) of variances over units (Satterthwaite 1946).

    (Σ v)² / Σ v² for units whose sums have the variances v, and at most the number of units minus
    one.
    """
    number = int(unit.max()) + 1
    first = np.unique(unit_of, return_index=True)[1]
    key, index = np.unique((owner * number + unit)[first], return_inverse=True)
    of, v = key // number, np.bincount(index, spread)
    units, total, squares = (
        np.bincount(of, power, owners) for power in (v > 0, v, v**2)
    )
    return np.where(squares > 0, np.minimum(units - 1.0, total**2 / squares), 0.0)


@undefined_is_nan
def auc_shares(sample: ArmArrays, owner: Codes, owners: int) -> RateEstimates:
    """Return the area under the ROC curve by owner (n,), over all repeats together.

    A row's influence is in proportion to its placement value minus the area. The placement value is
    the share of the rows with the other label relative to which the row is ranked correctly
    (DeLong, DeLong & Clarke-Pearson 1988).
    """
    known = ~np.isnan(sample.scores)
    weight = np.where(known, sample.weights, 0.0)
    cell = 2 * owner + sample.label
    values = np.full(owners, np.nan)
    psi = np.zeros(len(known))
    per_repeat = np.full((sample.repeats, owners), np.nan)

    def of(chosen: Codes) -> tuple[float, Floats]:
        if not (
            sample.design.labelled and 0 < sample.label[chosen].sum() < len(chosen)
        ):
            return np.nan, np.zeros(len(chosen))
        return area(sample.scores[chosen], sample.label[chosen], weight[chosen])

    for one in range(owners):
        chosen = np.flatnonzero((owner == one) & known)
        values[one], psi[chosen] = of(chosen)
        per_repeat[:, one] = [
            of(chosen[sample.repeat[chosen] == r])[0] for r in range(sample.repeats)
        ]
    unit_of = codes(sample.unit * 2 * owners + cell)
    psi = psi * bias_reduced(weight, cell, unit_of)
    of_labels = distinct(cell[known], sample.unit[known], 2 * owners)
    few = of_labels.reshape(-1, 2).min(1)
    people = sample.cluster is not None
    influence = Influence(psi, owner, owners, sample.unit, people, sample.redrawn)
    variance = np.where(np.isnan(values), np.nan, influence.over_units)
    rows = np.where(variance > _ROUNDING**2, values * (1 - values) / variance, np.inf)
    # If hardly a row is ranked wrongly, the variance is unknown: at most 2 · `few` rows count.
    rare = few * np.minimum(values, 1 - values) < FEW_EVENTS
    low, high = wilson(values, np.where(rare, np.minimum(rows, 2 * few), rows))
    freedom = np.full(owners, np.inf)
    if people or sample.weight is not None:
        # rows of a person with one label count as alike
        of_label = weight / np.maximum(np.bincount(cell, weight), 1e-300)[cell]
        spread = np.bincount(unit_of, of_label).astype(np.float64) ** 2
        freedom = np.minimum(
            few - 1, _freedom(spread, unit_of, owner, owners, sample.unit)
        )
    none = np.zeros(owners)
    ends = (values - low, high - values)
    return RateEstimates(
        sample, values, per_repeat, *ends, variance, variance, none, freedom, influence
    )


def area(score: Floats, label: Any, weight: Floats) -> tuple[float, Floats]:
    """Return the area under the ROC curve, and each row's influence on the area (n,)."""
    values, inverse = np.unique(score, return_inverse=True)
    by_label = [
        np.bincount(inverse, weight * (label == side), len(values)) for side in (0, 1)
    ]
    share = [part / part.sum() for part in by_label]
    below = [np.cumsum(part) - part / 2 for part in share]
    area = float(below[0] @ share[1])
    rank = np.where(label == 1, below[0][inverse], 1.0 - below[1][inverse])
    total = np.where(label == 1, by_label[1].sum(), by_label[0].sum())
    return area, weight / total * (rank - area)
