"""Tables of an audit: selection rates, impact ratios, tests, confusion (docs/statistics.md).

If the design fixes the number of rows of each group and label, the test rows are no sample of
people. Within a group and label they are a random sample: rates there, weighted by the table's cell
shares, estimate the table's rates. The cell shares count as estimates too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics import arm_estimates
from fwc_llm.metrics.counts import NO, UNPARSED, YES, Codes, Floats
from fwc_llm.metrics.intervals import p_value
from fwc_llm.metrics.records import (
    ASKED_SCOPE,
    READ,
    TABLE_SCOPE,
    Record,
    Records,
    record_of,
    with_readings,
)
from fwc_llm.metrics.run_answers import RunAnswers, View, views
from fwc_llm.metrics.variance import ArmArrays, RateEstimates, rate_shares, scope_words
from fwc_llm.words import is_known

AS_DRAWN = "as drawn"
REWEIGHTED = "re-weighted"
WITHHELD = "withheld"
NO_PEOPLE = (
    "The test rows were drawn in fixed numbers per group and label: they are "
    "not applicants."
)
_TEXTS = {
    AS_DRAWN: "Rows were taken as they occur in the data, so rates and ratios hold for people like "
    "these.",
    REWEIGHTED: NO_PEOPLE
    + " Rates, ratios, precision and shortfall are re-weighted to the {rows:,} rows "
    "of the table from which test rows were drawn; intervals also allow for chance in the table's "
    "shares of "
    "groups and labels. Counts are of the test rows.",
    WITHHELD: NO_PEOPLE
    + " The table's own shares are not known here, so selection rates, impact ratios and "
    "precision are withheld; a run without a base parity, or an audit of decisions, gives them.",
}
RATE = "selection_rate"
FOUR_FIFTHS = 0.8
LEAST_SHARE = 0.02  # of the people; Local Law 144 permits leaving smaller groups out of the ratios
MOST_PAIRED = 30  # levels, at most, for which all pairs are listed
_ROUNDING = 1e-9
BELOW, NOT_BELOW, CANNOT_SAY = (
    "below four fifths",
    "not below four fifths",
    "cannot say",
)
CONFUSION = {  # the reason why a rate is undefined
    "true_positive_rate": "0/0: no parsed answer to a row with label yes",
    "false_positive_rate": "0/0: no parsed answer to a row with label no",
    "precision": "0/0: no row was answered yes",
}
_LEFT_OUT = "left out"
_CELLS = "true_negatives", "false_positives", "false_negatives", "true_positives"
_WITHHELD_MIX = (
    "withheld: it depends on the mix of {} in the test rows; the table's is not known"
)


@dataclass(frozen=True)
class Impact:
    """Selection by group: records, and facts beside them.

    `kind` says whom rates are about, in words `text`; `scope` is that of its rates. `asked_once`:
    each row is one person, asked about once, without weights. `views` are the attributes,
    and last all crossed.
    """

    kind: str
    text: str
    scope: str | None
    asked_once: bool
    weighted: bool
    arms: tuple[str, ...]
    views: Sequence[View]
    records: Records

    def plain(self) -> dict[str, Any]:
        """The facts as plain values for JSON, without the records."""
        found = [
            {"attribute": view.name, "references": references(self.records, view.name)}
            for view in self.views
        ]
        return {"kind": self.kind, "text": self.text, "attributes": found}


def references(
    found: Records, attribute: str, metric: str = "impact_ratio"
) -> dict[str, str]:
    """The level with the highest rate of those counted in ratios, by arm."""
    ratios = found.where(metric=metric, attribute=attribute)
    return {ratio.arm: ratio.against for ratio in ratios if ratio.against}


def is_small(share: Record) -> bool:
    """Whether a level's share of the rows is under 2 %."""
    return share.value < LEAST_SHARE - _ROUNDING


def is_left_out(ratio: Record) -> bool:
    """Whether a small level has no impact ratio."""
    return ratio.reason.startswith(_LEFT_OUT)


def impact_tables(
    answered: RunAnswers,
    designed: bool = False,
    counted: Sequence[Mapping[str, Any]] | None = None,
    of_law: bool = False,
    leave_out_small: bool = False,
    scored: RunAnswers | None = None,
) -> Impact:
    """Return selection rates, impact ratios and confusion by each attribute and by all crossed.

    `designed`: the number of rows of each group and label was chosen. `counted` has the numbers of
    rows in the table that test rows were drawn from: `no` and `yes` per `group`. `of_law`: groups
    of fewer than `min_group` rows have ratios, too, unless `leave_out_small` leaves out those under
    2 % of the rows (Local Law 144, § 5-301). `scored` has the answer yes for scores above the
    median of all rows; by default P(yes) is the score, if every arm has it. Scoring rates need
    rates as drawn, and rows that were asked about once.
    """
    if of_law:
        answered = replace(answered, design=replace(answered.design, min_group=1))
        scored = scored and replace(scored, design=answered.design)
    table = None
    if counted is not None:
        sizes = {str(group["group"]): (group["no"], group["yes"]) for group in counted}
        answered = replace(
            answered, groups=tuple(dict.fromkeys((*answered.groups, *sizes)))
        )
        table = np.array(
            [sizes.get(name, (0, 0)) for name in answered.groups], np.float64
        )
    kind = AS_DRAWN
    if designed or answered.design.labels_fixed:
        kind = WITHHELD if table is None else REWEIGHTED
    asked_once = all(map(_asked_once, answered.plain_samples.values()))
    if kind != AS_DRAWN or not asked_once:
        scored = None
    elif scored is None and all(a.probabilities for a in answered.answers.values()):
        above_median = {
            arm: replace(a, answer=over_median(a.p_yes))
            for arm, a in answered.answers.items()
        }
        scored = replace(answered, answers=above_median, assists={}, assist=False)
    scope = None
    if kind == REWEIGHTED:
        scope = TABLE_SCOPE
    elif answered.assist:
        scope = ASKED_SCOPE
    all_views = views(answered.groups, answered.attributes)
    found = list[Record]()
    for view in all_views:
        for arm in answered.arms:
            of: Any = {"arm": arm, "attribute": view.name}
            selection = _Selection(answered, arm, view, kind, table, leave_out_small)
            found += [replace(record, **of) for record in selection.records(scope)]
            if scored is not None:
                above = _Selection(scored, arm, view, kind, None, leave_out_small)
                found += [replace(record, **of) for record in above.of_scores()]
    rows = 0 if table is None else int(table.sum())
    weighted = any(
        sample.weight is not None for sample in answered.plain_samples.values()
    )
    return Impact(
        kind,
        _TEXTS[kind].format(rows=rows),
        scope,
        asked_once,
        weighted,
        answered.arms,
        all_views,
        Records(found),
    )


def over_median(scores: Floats) -> Floats:
    """Return 1 for scores (n,) above their median, else 0; NaN without a score."""
    return np.where(np.isnan(scores), np.nan, scores > np.nanmedian(scores))


def _asked_once(sample: ArmArrays) -> bool:
    """Whether each row is one person, asked about once, without weights."""
    once = sample.repeats < 2 and sample.rows == len(sample.row)
    return once and sample.weight is None and sample.cluster is None


def _of_cells(sample: ArmArrays) -> RateEstimates:
    """The rate of yes in each group and label (2G,)."""
    return rate_shares(sample, RATE, sample.cell, 2 * sample.groups, True)


def _confusion_reweighted(
    cells: RateEstimates, table: Floats, level: Codes
) -> dict[str, list[arm_estimates.MetricEstimate]]:
    """Confusion rates of the table, weighted as selection rates are; `level` (2G,) of cells."""
    level_and_label = 2 * level + np.arange(len(level)) % 2
    labels = _weighted(cells, table, level_and_label, level_and_label)
    by_label = arm_estimates.share_limits(labels)
    return {
        "false_positive_rate": by_label[::2],
        "true_positive_rate": by_label[1::2],
        "precision": _precision(_weighted(cells, table, level_and_label, level)),
    }


def _weighted(
    cells: RateEstimates, table: Floats, owner: Codes, of: Codes
) -> RateEstimates:
    """Sum the shares of cells (2G,) by `owner`, weighted by the table's rows within `of`."""
    rows = table.ravel()
    total = np.bincount(of, rows)
    size = np.zeros(int(owner.max()) + 1)
    size[owner] = total[of]
    return cells.combined(
        owner, rows / np.where(total > 0, total, 1.0)[of], len(size), size
    )


class _Selection:
    """Selection of one arm in one view."""

    def __init__(
        self,
        answered: RunAnswers,
        arm: str,
        view: View,
        kind: str,
        table: Floats | None,
        leave_out_small: bool,
    ) -> None:
        whole = answered.plain_samples[arm]
        groups = len(view.levels)
        self.estimates = answered.in_view(view)[arm]
        self.sample = self.estimates.sample
        self.view = view
        self.kind = kind
        self.scope = scope_words(self.sample.scope, answered.with_examples)
        self.leave_out_small = leave_out_small
        cells = 6 * self.sample.group + self.sample.kind
        self.counts = np.bincount(cells, minlength=6 * groups).reshape(-1, 2, 3)
        answers = answered.answers[arm]
        lost = answers.group.set_categories(list(answered.groups)).codes[
            answers.reason == "error"
        ]
        self.no_reply = np.bincount(view.level_of[lost], minlength=groups)
        self.people = self.sample.of_groups(self.sample.row)
        self.readings: arm_estimates.Sides | None = None  # of replies without an answer
        self.confused: Mapping[str, Sequence[arm_estimates.MetricEstimate]] = {}
        self.in_table = None
        if table is not None:
            self.in_table = np.bincount(view.level_of, table.sum(1), groups).astype(
                np.float64
            )
        if kind == REWEIGHTED and table is not None:
            level = np.repeat(view.level_of, 2)
            of_cells = _of_cells(whole)
            self.rates = _weighted(of_cells, table, level, level)
            self.confused = _confusion_reweighted(of_cells, table, level)
            if whole.worst:
                sides = (arm_estimates.read_as(whole, RATE, side) for side in (0, 1))
                self.readings = [
                    _weighted(_of_cells(side), table, level, level) for side in sides
                ]
        else:
            self.rates = self.estimates.counted(RATE)
            if whole.worst:
                self.readings = self.estimates.readings(RATE)

    def records(self, scope: str | None) -> Iterator[Record]:
        """Yield counts, selection rates, impact ratios, pairs and confusion."""
        for place, level in enumerate(self.view.levels):
            for metric, count in self._counts(place).items():
                yield Record(group=level, metric=metric, value=count)
        if self.kind != WITHHELD:
            yield from self._selected(scope or self.scope)
        if self.kind == REWEIGHTED and self.readings is not None:
            scope = READ
        yield from self._confusion(scope or self.scope)

    def of_scores(self) -> Iterator[Record]:
        """Yield the rates of scores above the median, and their ratios."""
        for place, level in enumerate(self.view.levels):
            above = int(self.counts[place, :, YES].sum())
            yield Record(group=level, metric="above_median", value=above)
        names = {
            "selection_rate": "scoring_rate",
            "impact_ratio": "scoring_impact_ratio",
        }
        for record in self._selected(self.scope):
            if record.metric in names:
                yield replace(record, metric=names[record.metric])

    def _counts(self, place: int) -> dict[str, int]:
        counts = self.counts[place]
        lost = int(self.no_reply[place])
        named = {
            "rows": int(self.people[place]),
            "questions": int(counts.sum()),
            "selected": int(counts[:, YES].sum()),
            "not_selected": int(counts[:, NO].sum()),
            "without_answer": int(counts[:, UNPARSED].sum()) - lost,
            "no_reply": lost,
        }
        if self.in_table is not None:
            named["in_table"] = int(self.in_table[place])
        if self.sample.design.labelled:
            cells = counts[:, :UNPARSED].ravel().tolist()
            named |= dict(zip(_CELLS, cells, strict=True))
        return named

    def _selected(self, scope: str) -> Iterator[Record]:
        """Yield rates, ratios to the highest rate, shortfalls, and pairs."""
        levels = self.view.levels
        people = self.people
        if self.kind == REWEIGHTED and self.in_table is not None:
            people = self.in_table
        asked = self.counts.sum((1, 2))
        parsed = self.counts[..., :UNPARSED].sum((1, 2))
        answered = np.ones(len(asked))
        value = self.rates.values
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == AS_DRAWN:
                answered = parsed / asked
            known = np.array([is_known(level) for level in levels])
            share = (
                np.where(known, people, np.nan) / people.sum()
            )  # of all, known or not
        small = share < LEAST_SHARE - _ROUNDING
        defined = np.flatnonzero(known & ~np.isnan(value))
        large = defined[~small[defined]]
        eligible = self.sample.eligible_groups
        counted = defined[np.isin(defined, eligible)]
        if len(large) > 1 and self.leave_out_small:  # else there would be no ratio
            counted = large
        reference = -1
        if len(counted) > 1 and value[counted].max() > 0:
            reference = int(counted[np.argmax(value[counted])])
        why_not = self._reasons(
            known, asked, parsed, defined, counted, small, reference
        )
        limits = arm_estimates.share_limits(self.rates, self.readings)
        low, high = _least_ratios([self.rates], counted)
        if self.readings is not None:
            least, most = _least_ratios(self.readings, counted)
            low, high = np.fmin(low, least), np.fmax(high, most)
        for place, level in enumerate(levels):
            own = limits[place]
            reason = why_not[place]
            undefined = reason if math.isnan(own.value) else ""
            of: Any = {"group": level, "scope": scope}
            n = int(people[place] if self.kind == REWEIGHTED else asked[place])
            selected = record_of(own, metric=RATE, **of, n=n, reason=undefined)
            yield from with_readings(own, selected)
            yield Record(metric="share_of_rows", value=float(share[place]), group=level)
            if reason:
                yield Record(metric="impact_ratio", **of, reason=reason)
                continue
            to: Any = {**of, "against": levels[reference]}
            ratio = float(value[place] / value[reference])
            ends = {"low": min(low[place], ratio), "high": max(high[place], ratio)}
            verdict = four_fifths(ratio, low[place], high[place])
            yield Record(
                metric="impact_ratio", value=ratio, **ends, verdict=verdict, **to
            )
            lacking = (
                people[place] * answered[place] * (value[reference] - value[place])
            )
            shortfall = max(0, math.ceil(lacking - _ROUNDING * max(1.0, people[place])))
            yield Record(metric="shortfall", value=shortfall, **to)
        yield from self._pairs(defined, reference, scope)

    def _reasons(
        self,
        known: npt.NDArray[np.bool_],
        asked: Codes,
        parsed: Codes,
        defined: Codes,
        counted: Codes,
        small: npt.NDArray[np.bool_],
        reference: int,
    ) -> list[str]:
        """Return why a level has no impact ratio: the first reason that applies, or ""."""
        unknown = np.isnan(self.rates.values)
        places = np.arange(len(unknown))
        no_ratio = np.ones(len(unknown), dtype=np.bool_)
        left_out = small & self.leave_out_small & (len(counted) < len(defined))
        why = {
            "the category of these people is unknown": ~known,
            "no row of this group was asked about": asked == 0,
            "0/0: no parsed answer to rows of this group with one of the labels": unknown
            & (parsed > 0),
            "0/0: no parsed answer to rows of this group": unknown,
            "a ratio needs two groups with a rate": no_ratio & (len(defined) < 2),
            f"{_LEFT_OUT}: under 2 % of the rows": left_out,
            "too few rows to be judged": ~np.isin(places, self.sample.eligible_groups),
            "0/0: no answer to any group is yes": no_ratio & (reference < 0),
        }
        reasons: list[str] = np.select(list(why.values()), list(why), "").tolist()
        return reasons

    def _pairs(self, places: Codes, reference: int, scope: str) -> Iterator[Record]:
        """Yield the differences and ratios of the lower to the higher rate, of pairs of levels.

        Of many levels, only pairs with the reference are listed.
        """
        number = len(places)
        levels = self.view.levels
        p = self.rates.values
        if number <= MOST_PAIRED:
            pairs = np.stack([places[side] for side in np.triu_indices(number, 1)])
        else:
            others = places[(places != reference) & (reference >= 0)]
            pairs = np.stack([others, np.full(len(others), reference)])
        if not pairs.size:
            return
        first, second = np.take_along_axis(pairs, np.argsort(p[pairs], 0), 0)
        gap = arm_estimates.gaps_of_pairs([self.rates], second, first, number)
        low, high = gap.low, gap.high
        under, over = arm_estimates.ratios_of_pairs([self.rates], first, second, number)
        if self.readings is not None:
            both = arm_estimates.gaps_of_readings(self.readings, second, first, number)
            low, high = np.fmin(low, both[0].low), np.fmax(high, both[1].high)
            least, most = arm_estimates.ratios_of_pairs(
                self.readings, first, second, number
            )
            under, over = np.fmin(under, least), np.fmin(over, most)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = p[first] / p[second]
            most = np.minimum(1.0, np.minimum(1.0 / under, 1.0 / over))
        least = np.minimum(ratio, np.minimum(under, over))
        most = np.maximum(ratio, most)
        named = [(levels[i], levels[j]) for i, j in zip(first, second, strict=True)]
        for i, (group, against) in enumerate(named):
            errors, freedom = float(gap.errors[i]), float(gap.freedom[i])
            alone = p_value(errors, 2, 1, freedom)
            chance = min(1.0, max(alone, p_value(errors, number, 1, freedom)))
            of: Any = {"group": group, "against": against, "scope": scope}
            found = Record(
                metric="selection_rate_difference",
                value=float(gap.value[i]),
                low=float(gap.low[i]),
                high=float(gap.high[i]),
                p=chance,
                **of,
            )
            if self.readings is not None:
                ends: Any = {"low": float(low[i]), "high": float(high[i])}
                yield replace(found, **ends, p=math.nan)
                found = replace(found, scope=READ)
            yield found
            yield Record(
                metric="selection_rate_ratio",
                value=float(ratio[i]),
                low=float(least[i]),
                high=float(most[i]),
                reason="0/0: no answer to any group is yes" * math.isnan(ratio[i]),
                **of,
            )

    def _confusion(self, scope: str) -> Iterator[Record]:
        """Yield true and false positive rates and precision, or why they are undefined."""
        mixed: Sequence[str] = ()
        if self.kind == WITHHELD:
            alone = len(self.view.levels) < len(self.view.level_of)
            mixed = list(CONFUSION) if alone else ["precision"]
        for rate, why in CONFUSION.items() if self.sample.design.labelled else ():
            shares = self.confused.get(rate) or self.estimates.rates(rate)
            for place, level in enumerate(self.view.levels):
                estimate = shares[place]
                of: Any = {"group": level, "scope": scope, "metric": rate}
                n = int(self.counts[place].sum())
                if rate in mixed:
                    mix = "labels" if rate == "precision" else "groups"
                    yield Record(**of, n=n, reason=_WITHHELD_MIX.format(mix))
                elif math.isnan(estimate.value):
                    yield Record(**of, n=n, reason=why)
                else:
                    yield from with_readings(estimate, record_of(estimate, **of, n=n))


def _least_ratios(sides: arm_estimates.Sides, counted: Codes) -> tuple[Floats, Floats]:
    """Least lower and upper limits (L,) of each counted level's ratios to all counted levels; 1
    to itself.
    """
    low = np.ones(len(sides[0].values))
    high = np.ones_like(low)
    kinds, of, _ = arm_estimates.representatives(sides, counted)
    for first, second in arm_estimates.pairs_of(sides, counted):
        under, over = arm_estimates.ratios_of_pairs(sides, first, second, len(counted))
        with np.errstate(divide="ignore"):
            for level, least, most in (
                (first, under, 1.0 / over),
                (second, over, 1.0 / under),
            ):
                np.minimum.at(low, level, least)
                np.minimum.at(high, level, most)
    low[counted], high[counted] = low[kinds[of]], high[kinds[of]]
    return low, high


def four_fifths(ratio: float, low: float, high: float) -> str:
    """Return whether an impact ratio is below four fifths, if its interval settles this."""
    bound = FOUR_FIFTHS - _ROUNDING
    if ratio < bound and high < bound:
        return BELOW
    if ratio >= bound and low >= bound:
        return NOT_BELOW
    return CANNOT_SAY


def _precision(joint: RateEstimates) -> list[arm_estimates.MetricEstimate]:
    """Return precisions r / (1 + r) with limits, r = right / wrong, from shares of yes (2L,).

    The shares of each level are first the wrong yes, then the right yes.
    """
    wrong = np.arange(0, len(joint.values), 2)
    under, over = arm_estimates.ratios_of_pairs([joint], wrong + 1, wrong)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = joint.values[1::2] / (joint.values[1::2] + joint.values[::2])
    low = np.minimum(under / (1 + under), value)
    high = np.maximum(1 / (1 + over), value)
    return [
        arm_estimates.MetricEstimate(*numbers, np.zeros(0))
        for numbers in zip(value, low, high, strict=True)
    ]
