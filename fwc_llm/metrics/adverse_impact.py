"""Tables of an audit: selection rates, impact ratios, tests, confusion (docs/statistics.md).

If the design fixes the number of rows of each group and label, the test rows are no sample of
people: only rates within a group and label are given.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.metrics import arm_estimates
from fwc_llm.metrics.counts import (
    NO,
    REFER,
    SHAPE,
    UNPARSED,
    YES,
    Codes,
    Floats,
    quotient,
)
from fwc_llm.metrics.intervals import NOWHERE, Estimate, p_value
from fwc_llm.metrics.records import (
    ASKED_SCOPE,
    Record,
    Records,
    record_of,
    with_readings,
)
from fwc_llm.metrics.run_answers import RunAnswers, View, views
from fwc_llm.metrics.variance import (
    REASONS,
    WITHHELD_MIX,
    ArmArrays,
    is_withheld,
    scope_words,
)
from fwc_llm.sanitize import Json
from fwc_llm.words import is_known

AS_DRAWN = "as drawn"
WITHHELD = "withheld"
NO_PEOPLE = (
    "The test rows were drawn in fixed numbers per group and label: they are "
    "not applicants."
)
_TEXTS = {
    AS_DRAWN: "Rows were taken as they occur in the data, so rates and ratios hold for people like "
    "these.",
    WITHHELD: NO_PEOPLE
    + " Selection rates, impact ratios and precision are withheld; a run without a base parity, or "
    "an audit of decisions, gives them.",
}
REFERRED = "Cases that were referred to a person count as not selected."
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
    "accuracy": "0/0: no parsed answer",
}
_LEFT_OUT = "left out"
_OF_SCORES = {
    "selected": "above_median",
    "selection_rate": "scoring_rate",
    "impact_ratio": "scoring_impact_ratio",
}
_CELLS = "true_negatives", "false_positives", "false_negatives", "true_positives"


@dataclass(frozen=True)
class Impact:
    """Selection by group: records, and facts beside them.

    `kind` says whom rates are about, in words `text`; `scope` is that of its rates. `asked_again`
    says what keeps rows from being one person each, asked about once. `views` are the attributes,
    and last all crossed.
    """

    kind: str
    text: str
    scope: str | None
    asked_again: tuple[str, ...]
    weighted: bool
    arms: tuple[str, ...]
    views: Sequence[View]
    records: Records

    def plain(self) -> Json:
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
    of_law: bool = False,
    leave_out_small: bool = False,
    scored: RunAnswers | None = None,
) -> Impact:
    """Return selection rates, impact ratios and confusion by each attribute and by all crossed.

    `of_law`: groups of fewer than `min_group` rows have ratios, too, unless `leave_out_small`
    leaves out those under 2 % of the rows (Local Law 144, § 5-301). `scored` has the answer yes for
    scores above the median of all rows; by default P(yes) is the score, if every arm has it.
    Scoring rates need rates as drawn, and rows that were asked about once.
    """
    if of_law:
        answered = replace(answered, design=replace(answered.design, min_group=1))
        scored = scored and replace(scored, design=answered.design)
    kind = WITHHELD if answered.design.labels_fixed else AS_DRAWN
    samples = answered.plain_samples.values()
    asked_again = tuple(
        dict.fromkeys(why for one in samples for why in _asked_again(one))
    )
    if scored is None and all(a.probabilities for a in answered.answers.values()):
        above_median = {
            arm: replace(a, answer=over_median(a.p_yes))
            for arm, a in answered.answers.items()
        }
        scored = replace(answered, answers=above_median, assists={}, assist=False)
    scope = ASKED_SCOPE if answered.assist else None
    all_views = views(answered.groups, answered.attributes)
    found = list[Record]()
    for view in all_views:
        for arm in answered.arms:
            of: Any = {"arm": arm, "attribute": view.name}
            how = arm, view, kind, leave_out_small
            selection = _Selection(answered, *how).records(scope)
            found += [replace(record, **of) for record in selection]
            if scored is not None and kind == AS_DRAWN and not asked_again:
                for record in _Selection(scored, *how).records(None):
                    name = _OF_SCORES.get(record.metric)
                    found += [replace(record, **of, metric=name)] if name else []
    return Impact(
        kind,
        _TEXTS[kind] + f" {REFERRED}" * answered.design.refers,
        scope,
        asked_again,
        any(sample.weight is not None for sample in samples),
        answered.arms,
        all_views,
        Records(found),
    )


def over_median(scores: Floats) -> Floats:
    """Return 1 for scores (n,) above their median, else 0; NaN without a score."""
    return np.where(np.isnan(scores), np.nan, scores > np.nanmedian(scores))


def _asked_again(sample: ArmArrays) -> Iterator[str]:
    """Yield what keeps rows from being one person each, asked about once."""
    if sample.repeats > 1 or sample.rows < len(sample.row):
        yield "rows that were asked about again"
    if sample.weight is not None:
        yield "weights"
    if sample.cluster is not None:
        yield "several rows of a person"


class _Selection:
    """Selection of one arm in one view."""

    def __init__(
        self,
        answered: RunAnswers,
        arm: str,
        view: View,
        kind: str,
        leave_out_small: bool,
    ) -> None:
        self.estimates = answered.in_view(view)[arm]
        self.levels = view.levels
        self.alone = len(view.levels) < len(view.level_of)
        self.kind = kind
        self.leave_out_small = leave_out_small
        self.sample = sample = self.estimates.sample
        self.scope = scope_words(sample.scope, answered.with_examples)
        levels = len(view.levels)
        kinds = math.prod(SHAPE)
        of_level = kinds * sample.group + sample.kind
        cells = np.bincount(of_level, minlength=kinds * levels)
        self.counts = cells.reshape(-1, *SHAPE)
        lost = sample.group[sample.reason == REASONS.index("error")]
        self.no_reply = np.bincount(lost, minlength=levels)
        self.people = sample.of_groups(sample.row)
        self.rates = self.estimates.counted(RATE)
        self.sides = self.estimates.readings(RATE) if sample.worst else ()

    def records(self, scope: str | None) -> Iterator[Record]:
        """Yield counts, selection rates, impact ratios, pairs and confusion."""
        for place, level in enumerate(self.levels):
            for metric, count in self._counts(place).items():
                yield Record(group=level, metric=metric, value=count)
        if self.kind != WITHHELD:
            yield from self._selected(scope or self.scope)
        yield from self._confusion(scope or self.scope)

    def _counts(self, place: int) -> dict[str, int]:
        counts = self.counts[place]
        lost = int(self.no_reply[place])
        named = {
            "rows": int(self.people[place]),
            "questions": int(counts.sum()),
            "selected": int(counts[:, YES].sum()),
            "not_selected": int(counts[:, [NO, REFER]].sum()),
            "without_answer": int(counts[:, UNPARSED].sum()) - lost,
            "no_reply": lost,
        }
        if self.sample.design.refers:
            named["referred"] = int(counts[:, REFER].sum())
        if self.sample.design.labelled:
            cells = counts[:REFER, :REFER].ravel().tolist()
            named |= dict(zip(_CELLS, cells, strict=True))
        return named

    def _selected(self, scope: str) -> Iterator[Record]:
        """Yield rates, ratios to the highest rate, shortfalls, and pairs."""
        asked = self.counts.sum((1, 2))
        parsed = self.counts[..., :UNPARSED].sum((1, 2))
        value = self.rates.values
        unknown = np.isnan(value)
        every = np.ones(len(value), dtype=np.bool_)
        known = np.array([is_known(level) for level in self.levels])
        people = self.people
        # of all, known or not
        share = np.where(known, people, np.nan) / people.sum()
        answered = quotient(people * parsed, asked)
        small = share < LEAST_SHARE - _ROUNDING
        defined = np.flatnonzero(known & ~unknown)
        large = defined[~small[defined]]
        judged = np.isin(np.arange(len(every)), self.sample.eligible_groups)
        counted = defined[judged[defined]]
        if len(large) > 1 and self.leave_out_small:  # else there would be no ratio
            counted = large
        reference = -1
        if len(counted) > 1 and value[counted].max() > 0:
            reference = int(counted[np.argmax(value[counted])])
        left_out = self.leave_out_small & (len(counted) < len(defined))
        none = "0/0: no parsed answer to rows of this group"
        why_not = {  # the first that applies
            "the category of these people is unknown": ~known,
            none: unknown,
            "a ratio needs two groups with a rate": every & (len(defined) < 2),
            f"{_LEFT_OUT}: under 2 % of the rows": small & left_out,
            "too few rows to be judged": ~judged,
            "0/0: no answer to any group is yes": every & (reference < 0),
        }
        reasons = np.select(list(why_not.values()), list(why_not), "").tolist()
        limits = arm_estimates.share_limits(self.rates, self.sides or None)
        low, high = arm_estimates.ratios_to_all([self.rates] * 2, counted)
        if self.sides:
            least, most = arm_estimates.ratios_to_all(self.sides, counted)
            low, high = np.fmin(low, least), np.fmax(high, most)
        for place, level in enumerate(self.levels):
            own = limits[place]
            reason = reasons[place]
            of: Any = {"group": level, "scope": scope}
            n = int(asked[place])
            undefined = reason if math.isnan(own.value) else ""
            selected = record_of(own, metric=RATE, **of, n=n, reason=undefined)
            yield from with_readings(own, selected)
            yield Record(metric="share_of_rows", value=float(share[place]), group=level)
            if reason:
                yield Record(metric="impact_ratio", **of, reason=reason)
                continue
            of["against"] = self.levels[reference]
            ratio = float(value[place] / value[reference])
            yield Record(
                metric="impact_ratio",
                value=ratio,
                low=min(low[place], ratio),
                high=max(high[place], ratio),
                verdict=four_fifths(ratio, low[place], high[place]),
                **of,
            )
            lacking = answered[place] * (value[reference] - value[place])
            shortfall = max(0, math.ceil(lacking - _ROUNDING * max(1.0, people[place])))
            yield Record(metric="shortfall", value=shortfall, **of)
        yield from self._pairs(counted, reference, scope)

    def _pairs(self, places: Codes, reference: int, scope: str) -> Iterator[Record]:
        """Yield the differences and ratios of the lower to the higher rate, of pairs of levels.

        Of many levels, only pairs with the reference are listed.
        """
        number = len(places)
        p = self.rates.values
        if number <= MOST_PAIRED:
            pairs = places[np.array(np.triu_indices(number, 1))]
        else:
            others = places[(places != reference) & (reference >= 0)]
            pairs = np.stack([others, np.full(len(others), reference)])
        if not pairs.size:
            return
        first, second = np.take_along_axis(pairs, np.argsort(p[pairs], 0), 0)
        readings = [[self.rates] * 2, *[self.sides] * bool(self.sides)]
        gaps = [
            arm_estimates.gaps_of_readings(sides, second, first, number)
            for sides in readings
        ]
        ratios = [
            arm_estimates.ratios_of_pairs(sides, first, second, number)
            for sides in readings
        ]
        gap, _ = gaps[0]
        under, over = np.fmin.reduce(ratios)
        ratio = quotient(p[first], p[second])
        most = np.minimum(1.0, quotient(1.0, np.maximum(under, over)))
        table = pd.DataFrame(
            {
                **gap._asdict(),
                "least": np.fmin.reduce([down.low for down, _ in gaps]),
                "most": np.fmax.reduce([up.high for _, up in gaps]),
                "ratio": ratio,
                "ratio_low": np.minimum(ratio, np.minimum(under, over)),
                "ratio_high": np.maximum(ratio, most),
                "group": np.array(self.levels, object)[first],
                "against": np.array(self.levels, object)[second],
            }
        )
        lines: Iterator[Any] = table.itertuples()
        for pair in lines:
            chances = [p_value(pair.errors, k, 1, pair.freedom) for k in (2, number)]
            chance = min(1.0, max(chances))
            of: Any = {"group": pair.group, "against": pair.against, "scope": scope}
            found = Estimate(pair.value, pair.low, pair.high, chance)
            if self.sides:
                found = found.over(NOWHERE, (pair.least, pair.most))
            judged = record_of(found, metric="selection_rate_difference", **of)
            yield from islice(with_readings(found, judged), 2)
            yield Record(
                metric="selection_rate_ratio",
                value=pair.ratio,
                low=pair.ratio_low,
                high=pair.ratio_high,
                reason="0/0: no answer to any group is yes" * math.isnan(pair.ratio),
                **of,
            )

    def _confusion(self, scope: str) -> Iterator[Record]:
        """Yield true and false positive rates, precision, accuracy, or why they are undefined."""
        design = self.sample.design
        for rate, why in CONFUSION.items() if design.labelled else ():
            if rate == "accuracy" and design.labels_fixed:
                continue  # it depends on the mix of labels
            shares = self.estimates.rates(rate)
            for place, level in enumerate(self.levels):
                estimate = shares[place]
                n = int(self.counts[place].sum())
                of: Any = {"group": level, "scope": scope, "metric": rate, "n": n}
                if is_withheld(design, rate):
                    yield Record(**of, reason=WITHHELD_MIX.format("labels"))
                elif design.labels_fixed and self.alone:
                    yield Record(**of, reason=WITHHELD_MIX.format("groups"))
                elif math.isnan(estimate.value):
                    yield Record(**of, reason=why)
                else:
                    yield from with_readings(estimate, record_of(estimate, **of))


def four_fifths(ratio: float, low: float, high: float) -> str:
    """Return whether an impact ratio is below four fifths, if its interval settles this."""
    bound = FOUR_FIFTHS - _ROUNDING
    if ratio < bound and high < bound:
        return BELOW
    if ratio >= bound and low >= bound:
        return NOT_BELOW
    return CANNOT_SAY
