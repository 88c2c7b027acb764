"""Tables of an audit: selection rates, impact ratios, tests, confusion (docs/statistics.md).

If the design fixes the number of rows of each group and label, the test rows are no sample of
people. Within a group and label they are a random sample: rates there, weighted by the table's cell
shares, estimate the table's rates. The cell shares count as estimates too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics import arm_estimates
from fwc_llm.metrics.counts import NO, UNPARSED, YES, Codes, Floats, plain
from fwc_llm.metrics.intervals import LEVEL, p_value
from fwc_llm.metrics.run_answers import CROSSING, RunAnswers, View, is_known, unknown_of, views
from fwc_llm.metrics.variance import ArmArrays, RateEstimates, rate_shares

AS_DRAWN = "as drawn"
REWEIGHTED = "re-weighted"
WITHHELD = "withheld"
NO_PEOPLE = (
    "The test rows were drawn in fixed numbers per group and label: they are not applicants."
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
    "precision are withheld; a run with --base-parity none, or fwc-llm audit on decisions, gives "
    "them.",
}
FOUR_FIFTHS = 0.8
LEAST_SHARE = 0.02  # of the people; Local Law 144 permits leaving smaller groups out of the ratios
MOST_PAIRED = 30  # levels, at most, for which all pairs are listed
_ROUNDING = 1e-9
_TESTED = "p_value", "p_adjusted", "significant"
_RATIO = "impact_ratio", "impact_ratio_low", "impact_ratio_high", "four_fifths", "shortfall"
_SCORING = {
    **{"selection_rate": "scoring_rate", "low": "scoring_rate_low", "high": "scoring_rate_high"},
    **{"selected": "above_median", "reason": "scoring_reason"},
    **{name: f"scoring_{name}" for name in _RATIO[:3]},
}
_NOT_SELECTED = dict.fromkeys(
    ("share", "small", "known", "selection_rate", "low", "high", *_RATIO, *_TESTED)
)
_CONFUSED = {
    "true_positive_rate": "0/0: no parsed answer to a row with label yes",
    "false_positive_rate": "0/0: no parsed answer to a row with label no",
    "precision": "0/0: no row was answered yes",
}


def impact_tables(
    answered: RunAnswers,
    designed: bool = False,
    counted: Sequence[Mapping[str, Any]] | None = None,
    lost: Iterable[Mapping[str, Any]] = (),
    of_law: bool = False,
    leave_out_small: bool = False,
    scored: RunAnswers | None = None,
) -> dict[str, Any]:
    """Return the tables of an audit for JSON; undefined is None, with a `reason`.

    `attributes` has one object per protected attribute and, if there are several, one for all
    crossed. In it, `unknown` is the number of rows of unknown category, and an arm's `reference` is
    the group with the highest rate of those counted in ratios.

    `designed`: the number of rows of each group and label was chosen. `counted` has the numbers of
    rows in the table that test rows were drawn from: `no` and `yes` per `group`. `lost` has those
    `read`, `kept` and `lost` before the run per crossed `group`. `of_law`: groups of fewer than
    `min_group` rows have ratios, too, unless `leave_out_small` leaves out those under 2 % of the
    rows (Local Law 144, § 5-301). `scored` has the answer yes for scores above the median of all
    rows; by default P(yes) is the score, if every arm has it. Scoring rates need rates as drawn,
    and `_asked_once` of every arm.
    """
    if of_law:
        answered = replace(answered, design=replace(answered.design, min_group=1))
        scored = scored and replace(scored, design=answered.design)
    table = None
    if counted is not None:
        sizes = {str(group["group"]): (group["no"], group["yes"]) for group in counted}
        answered = replace(answered, groups=tuple(dict.fromkeys((*answered.groups, *sizes))))
        table = np.array([sizes.get(name, (0, 0)) for name in answered.groups], np.float64)
    kind = WITHHELD if table is None else REWEIGHTED
    if designed or answered.design.labels_fixed:
        kind = kind
    else:
        kind = AS_DRAWN
    asked_once = all(map(_asked_once, answered.plain_samples.values()))
    if kind != AS_DRAWN or not asked_once:
        scored = None
    elif scored is None and all(a.probabilities for a in answered.answers.values()):
        above_median = {
            arm: replace(a, answer=over_median(a.p_yes)) for arm, a in answered.answers.items()
        }
        scored = replace(answered, answers=above_median, assists={}, assist=False)
    lost = list(lost)
    attributes = []
    for place, view in enumerate(views(answered.groups, answered.attributes)):
        arms = [_arm(answered, arm, view, kind, table, leave_out_small) for arm in answered.arms]
        for arm in arms:
            if scored is None:
                break
            above = _arm(scored, arm["arm"], view, kind, None, leave_out_small)
            arm["scoring_reference"] = above["reference"]
            for name, group in above["groups"].items():
                arm["groups"][name] |= {now: group[was] for was, now in _SCORING.items()}
        groups = arms[0]["groups"]
        attributes.append(
            {
                "attribute": view.name,
                "crossed": view.crossed,
                "weighted": any(
                    sample.weight is not None for sample in answered.plain_samples.values()
                ),
                "lost": _lost(lost, view, len(answered.attributes), place),
                "unknown": sum(groups[name]["rows"] for name in view.levels if not is_known(name)),
                "arms": arms,
            }
        )
    if table is None:
        rows = 0
    else:
        rows = int(table.sum())
    tables: dict[str, Any] = plain(
        {
            "basis": {"kind": kind, "text": _TEXTS[kind].format(rows=rows)},
            "asked_once": asked_once,
            "attributes": attributes,
        }
    )
    return tables


def over_median(scores: Floats) -> Floats:
    """Return 1 for scores (n,) above their median, else 0; NaN without a score."""
    return np.where(np.isnan(scores), np.nan, scores > np.nanmedian(scores))


def _arm(
    answered: RunAnswers,
    arm: str,
    view: View,
    kind: str,
    table: Floats | None,
    leave_out_small: bool,
) -> dict[str, Any]:
    answers = answered.answers[arm]
    whole = answered.plain_samples[arm]
    sample = replace(
        whole,
        group=view.level_of[whole.group],
        groups=len(view.levels),
        unknown=unknown_of(view.levels),
    )
    counts = np.bincount(6 * sample.group + sample.kind, minlength=6 * sample.groups).reshape(
        -1, 2, 3
    )
    group = answers.group.set_categories(list(answered.groups)).codes[answers.reason == "error"]
    no_reply = np.bincount(view.level_of[group], minlength=sample.groups)
    in_table = None
    if table is not None:
        in_table = np.bincount(view.level_of, table.sum(1), sample.groups).astype(np.float64)
    estimates = arm_estimates.ArmEstimates(sample)
    rates, confused = estimates.counted("selection_rate"), {rate: estimates.rates(rate) for rate in _CONFUSED}
    people = sample.of_groups(sample.row)
    if kind == REWEIGHTED and table is not None:
        cells = rate_shares(whole, "selection_rate", whole.cell, 2 * whole.groups, True)  # by group and label
        level = np.repeat(view.level_of, 2)
        level_and_label = 2 * level + np.tile([0, 1], whole.groups)
        rates = _weighted(cells, table, level, level)
        by_label = arm_estimates.share_limits(
            _weighted(cells, table, level_and_label, level_and_label)
        )
        confused = {
            "false_positive_rate": by_label[::2],
            "true_positive_rate": by_label[1::2],
            "precision": _precision(_weighted(cells, table, level_and_label, level)),
        }
    described: dict[str, Any] = {"reference": None, "pairs": [], "all_pairs": True}
    selected = dict.fromkeys(view.levels, _NOT_SELECTED | {"reason": "withheld"})
    if kind != WITHHELD:
        if kind == AS_DRAWN or in_table is None:
            of = people
        else:
            of = in_table
        described, selected = _selection(
            view, counts, rates, of, kind == AS_DRAWN, sample.eligible_groups, leave_out_small
        )
    if sample.design.labelled:
        why = _CONFUSED
    else:
        why = dict.fromkeys(_CONFUSED, "there are no labels")
    if kind == WITHHELD:
        withheld = (
            "withheld: it depends on the mix of {} in the test rows, and the table's mix is not "
            "known"
        )
        mixed = _CONFUSED if len(view.levels) < len(view.level_of) else ["precision"]
        why = why | {r: withheld.format("labels" if r == "precision" else "groups") for r in mixed}
        confused = {rate: own for rate, own in confused.items() if rate not in mixed}
    groups = {
        name: {
            "rows": int(people[place]),
            "questions": int(counts[place].sum()),
            "selected": int(counts[place, :, YES].sum()),
            "not_selected": int(counts[place, :, NO].sum()),
            "unparsed": int(counts[place, :, UNPARSED].sum() - no_reply[place]),
            "no_reply": int(no_reply[place]),
            "in_table": None if in_table is None else int(in_table[place]),
            **selected[name],
            **_confusion(counts[place] if sample.design.labelled else None, confused, place, why),
        }
        for place, name in enumerate(view.levels)
    }
    return {"arm": arm, "of": sample.scope, **described, "groups": groups}


def _asked_once(sample: ArmArrays) -> bool:
    """Whether each row is one person, asked about once, without weights or looks."""
    once = sample.repeats < 2 and sample.rows == len(sample.row)
    return (
        once
        and sample.weight is None
        and sample.cluster is None
        and sample.design.sequential is None
    )


def _lost(
    groups: Iterable[Mapping[str, Any]], view: View, width: int, place: int
) -> dict[str, Any]:
    """Sum the rows read, kept and lost before the run from crossed groups to the levels of a
    view.
    """
    sums: dict[str, dict[str, int]] = {}
    alone = not view.crossed and width > 1
    for group in groups:
        parts = str(group["group"]).split(CROSSING)
        if alone and len(parts) != width:
            continue
        level = sums.setdefault(parts[place] if alone else str(group["group"]), {})
        for name in ("read", "kept", "lost"):
            level[name] = level.get(name, 0) + int(group[name])
    return sums


def _weighted(cells: RateEstimates, table: Floats, owner: Codes, of: Codes) -> RateEstimates:
    """Sum the shares of cells (2G,) by `owner`, weighted by the table's rows within `of`."""
    rows = table.ravel()
    total = np.bincount(of, rows)
    size = np.zeros(int(owner.max()) + 1)
    size[owner] = total[of]
    return cells.combined(owner, rows / np.where(total > 0, total, 1.0)[of], len(size), size)


def _selection(
    view: View,
    counts: npt.NDArray[np.intp],
    rates: RateEstimates,
    people: Floats,
    as_drawn: bool,
    eligible: Codes,
    leave_out_small: bool,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the reference and pairs of one arm in one view, and the view's levels by name.

    `counts` (L, 2, 3) count questions by level, label and answer. `rates` (L,) are those of
    `people` (L,): the rows asked about, or the table's. `eligible` groups have enough rows to be
    judged.
    """
    asked = counts.sum((1, 2))
    parsed = counts[..., :UNPARSED].sum((1, 2))
    with np.errstate(invalid="ignore"):
        if as_drawn:
            answered = parsed / asked
        else:
            answered = np.ones(len(asked))
    value = rates.values
    limits = arm_estimates.share_limits(rates)
    known = np.array([is_known(level) for level in view.levels])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (
            np.where(known, people, np.nan) / people.sum()
        )  # the sum includes people of unknown category
    small = share < LEAST_SHARE - _ROUNDING
    defined = np.flatnonzero(known & ~np.isnan(value))
    large = defined[~small[defined]]
    # With fewer than two large groups there would be no ratio: then small ones count.
    judged = defined[np.isin(defined, eligible)]
    if len(large) > 1 and leave_out_small:
        counted = large
    else:
        counted = judged
    if len(counted) > 1:
        reference = int(counted[np.argmax(value[counted])])
    else:
        reference = -1
    if reference >= 0 and value[reference] > 0:
        reference = reference
    else:
        reference = -1
    pairs = _pairs(view, rates, defined, reference, small)
    low, high = _least_ratios(rates, counted)

    unknown = np.isnan(value)
    no_ratio = np.ones(len(value), dtype=np.bool_)
    why = {  # why a level has no impact ratio: the first that applies
        "the category of these people is unknown": ~known,
        "no row of this group was asked about": asked == 0,
        "0/0: no parsed answer to rows of this group with one of the labels": unknown
        & (parsed > 0),
        "0/0: no parsed answer to rows of this group": unknown,
        "a ratio needs two groups with a rate": no_ratio & (len(defined) < 2),
        "left out: under 2 % of the rows": small & leave_out_small & (len(counted) < len(defined)),
        "too few rows to be judged": ~np.isin(np.arange(len(value)), eligible),
        "0/0: no answer to any group is yes": no_ratio & (reference < 0),
    }
    reasons = np.select(list(why.values()), list(why), "").tolist()
    groups: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(view.levels):
        groups[name] = _NOT_SELECTED | {
            "share": share[place],
            "small": bool(small[place]),
            "known": bool(known[place]),
            "selection_rate": value[place],
            "low": limits[place].low,
            "high": limits[place].high,
            "reason": reasons[place],
        }
        if not groups[name]["reason"]:
            ratio = float(value[place] / value[reference])
            lacking = people[place] * answered[place] * (value[reference] - value[place])
            ends = min(low[place], ratio), max(high[place], ratio)
            shortfall = max(0, math.ceil(lacking - _ROUNDING * max(1.0, people[place])))
            rule = four_fifths(ratio, low[place], high[place])
            groups[name] |= dict(zip(_RATIO, (ratio, *ends, rule, shortfall), strict=True))
    if reference < 0:
        best = ""
    else:
        best = view.levels[reference]
    for pair in pairs:
        if best in (pair["first"], pair["second"]):
            other = groups[pair["second"] if pair["first"] == best else pair["first"]]
            other |= {} if other["reason"] else {name: pair[name] for name in _TESTED}
    listed = len(defined) <= MOST_PAIRED
    return {"reference": best or None, "pairs": pairs, "all_pairs": listed}, groups


def _least_ratios(rates: RateEstimates, counted: Codes) -> tuple[Floats, Floats]:
    """Least lower and upper limits (L,) of each counted level's ratios to all counted levels; 1
    to itself.
    """
    low = np.ones(len(rates.values))
    high = np.ones(len(rates.values))
    kinds, of, _ = arm_estimates.representatives(rates, counted)
    for first, second in arm_estimates.pairs_of(rates, counted):
        under, over = arm_estimates.ratios_of_pairs(rates, first, second, len(counted))
        with np.errstate(divide="ignore"):
            for place, least, most in ((first, under, 1.0 / over), (second, over, 1.0 / under)):
                np.minimum.at(low, place, least)
                np.minimum.at(high, place, most)
    low[counted], high[counted] = low[kinds[of]], high[kinds[of]]
    return low, high


def _pairs(
    view: View, rates: RateEstimates, places: Codes, reference: int, small: npt.NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """List pairs: the later rate minus the earlier, smaller over larger rate, and a test."""
    number = len(places)
    p = rates.values
    if number <= MOST_PAIRED:
        second, first = (places[side] for side in np.triu_indices(number, 1))
    else:
        if reference >= 0:
            others = places[places != reference]
        else:
            others = places[:0]
        second = np.minimum(others, reference)
        first = np.maximum(others, reference)
    if not len(first):
        return []
    gap = arm_estimates.gaps_of_pairs(rates, second, first, number)
    under, over = arm_estimates.ratios_of_pairs(rates, first, second, number)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(p[first], p[second]) / np.maximum(p[first], p[second])
        most = np.minimum(1.0, np.minimum(1.0 / under, 1.0 / over))
    tests = list(zip(gap.errors.tolist(), gap.freedom.tolist(), strict=True))
    alone = np.array([p_value(errors, 2, 1, freedom) for errors, freedom in tests])
    all_pairs = np.array([p_value(errors, number, 1, freedom) for errors, freedom in tests])
    adjusted = np.minimum(1.0, np.maximum(alone, all_pairs))
    columns = {
        "first": [view.levels[place] for place in first],
        "second": [view.levels[place] for place in second],
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "ratio": ratio,
        "ratio_low": np.minimum(ratio, np.minimum(under, over)),
        "ratio_high": np.maximum(ratio, most),
        "small": small[first] | small[second],
        "p_value": alone,
        "p_adjusted": adjusted,
        "significant": [None if math.isnan(q) else bool(q < 1 - LEVEL) for q in adjusted],
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def four_fifths(ratio: float, low: float, high: float) -> dict[str, Any]:
    """Return whether an impact ratio is `below` four fifths, and whether its interval settles
    this.
    """
    below = ratio < FOUR_FIFTHS - _ROUNDING
    if below:
        settled = high < FOUR_FIFTHS - _ROUNDING
    else:
        settled = low >= FOUR_FIFTHS - _ROUNDING
    return {"below": below, "settled": bool(settled)}


def _confusion(
    counts: npt.NDArray[np.intp] | None,
    rates: Mapping[str, Sequence[arm_estimates.MetricEstimate]],
    place: int,
    why: Mapping[str, str],
) -> dict[str, Any]:
    """Return a level's confusion matrix and rates with limits, from `counts` (2, 3) by label and
    answer.
    """
    kinds = "true_negatives", "false_positives", "false_negatives", "true_positives"
    cells = (None,) * 4 if counts is None else counts[:, :UNPARSED].ravel().tolist()
    confused: dict[str, Any] = {**dict(zip(kinds, cells, strict=True)), "reasons": {}}
    for rate, reason in why.items():
        if rate in rates:
            own = rates[rate][place]
        else:
            own = arm_estimates.UNDEFINED
        confused |= {rate: own.value, f"{rate}_low": own.low, f"{rate}_high": own.high}
        if math.isnan(own.value):
            confused["reasons"][rate] = reason
    return confused


def _precision(joint: RateEstimates) -> list[arm_estimates.MetricEstimate]:
    """Return precisions r / (1 + r) with limits, r = right / wrong, from shares of yes (2L,).

    The shares of each level are first the wrong yes, then the right yes.
    """
    wrong = np.arange(0, len(joint.values), 2)
    under, over = arm_estimates.ratios_of_pairs(joint, wrong + 1, wrong)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = joint.values[1::2] / (joint.values[1::2] + joint.values[::2])
    low = np.minimum(under / (1 + under), value)
    high = np.maximum(1 / (1 + over), value)
    return [
        arm_estimates.MetricEstimate(*numbers, np.zeros(0))
        for numbers in zip(value, low, high, strict=True)
    ]
