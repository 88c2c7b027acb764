"""Effects of repeated prompts, changed protected attributes and other ways to ask."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.metrics.arm_estimates import UNDEFINED, share_limits
from fwc_llm.metrics.counts import NO, REFER, SHAPE, YES, Floats, quotient
from fwc_llm.metrics.intervals import Estimate, critical_value
from fwc_llm.metrics.predicted_probabilities import Probabilities
from fwc_llm.metrics.records import CHANGED_ATTRIBUTE, NAMES, Record, record_of
from fwc_llm.metrics.run_answers import (
    ArmAnswers,
    RunAnswers,
    mapped,
    questions_of,
    samples_of,
)
from fwc_llm.metrics.variance import ArmArrays, codes, mean_shares
from fwc_llm.words import ANSWERS

_TWO = 2  # added rows that changed, one each way: no variance is 0


def repetition_records(a: ArmAnswers, run: RunAnswers) -> Iterator[Record]:
    """Yield how consistent answers to repeated prompts are; nothing without such prompts."""
    times = run.design.times
    if times < 2:
        return
    (prompt,) = questions_of([replace(a, repeat=a.repeat // times)])
    unit, first, place = np.unique(prompt, return_index=True, return_inverse=True)
    of_answers = np.array(
        [
            np.bincount(place[a.answer == code], minlength=len(unit))
            for code in range(SHAPE[0])
        ]
    )
    count = of_answers.sum(0)
    pairs = (of_answers * (of_answers - 1)).sum(0)
    same = quotient(pairs, count * (count - 1))
    share = quotient(of_answers[YES], of_answers[NO] + of_answers[YES])
    twice = count > 1
    averaged = a.where(first)
    agreement = _share(same[twice], averaged.unit[twice])
    n = int(twice.sum())
    if n:
        changed = float((same[twice] < 1.0).mean())
        yield Record(metric="prompts_with_both_answers", value=changed, n=n)
    yield record_of(agreement, metric="same_answer", n=n)
    averages = {"": replace(averaged, p_yes=share)}
    ranked = Probabilities.of(samples_of(averages, run.groups, run.design)[""])
    if ranked is not None:
        for record in ranked.records(run.groups, run.attribute):
            if (
                record.metric in ("auc", "brier", "calibration_error")
                and not record.group
            ):
                yield replace(record, metric=f"{record.metric}_of_repeated_prompts")


def _share(value: Floats, units: Any) -> Estimate:
    """Mean of shares (n,), with limits over rows or other `units` (n,)."""
    if not len(value):
        return UNDEFINED
    none = np.zeros(len(value), dtype=np.int64)
    unit = codes(units)
    if len(np.unique(unit)) < len(unit):
        several = unit
    else:
        several = None
    sample = ArmArrays(value, none, none, none, unit, 1, cluster=several)
    return share_limits(
        mean_shares(sample, np.ones(len(value)), value, none, 1, False)
    )[0]


def flips(factual: ArmAnswers, changed: ArmAnswers) -> Iterator[Record]:
    """Yield how answers to rows of a group (`against`) change in variants of another (`group`)."""
    factual, changed = _twins(factual, changed)
    told_as = mapped(changed.variant, lambda variant: variant.partition(":")[2])
    for group, other in dict.fromkeys(zip(changed.group, told_as, strict=True)):
        here = np.asarray((changed.group == group) & (told_as == other))
        before, after = factual.where(here), changed.where(here)
        of = {"group": other, "against": group, "scope": CHANGED_ATTRIBUTE}
        yield from changes(before, after, **of)


def _twins(factual: ArmAnswers, changed: ArmAnswers) -> tuple[ArmAnswers, ArmAnswers]:
    """Pair the answers to unchanged rows with those to their variants, in the same order."""
    factual_ids, other = questions_of([factual, changed])
    position = pd.Index(factual_ids).get_indexer(pd.Index(other))
    paired = position >= 0
    return factual.where(position[paired]), changed.where(paired)


def probes(run: RunAnswers, arm: str) -> Iterator[Record]:
    """Yield the effects of first names, with the probe's name as scope."""
    perturbed = run.probes[arm]
    kinds = [kind for kind in perturbed.variant.categories if kind.startswith("names:")]

    def answers_to(kind: str) -> ArmAnswers:
        return perturbed.where(np.asarray(perturbed.variant == kind))

    for first, second in combinations(kinds, 2):
        (attribute, level), (other, told_as) = (
            kind[6:].split("=", 1) for kind in (first, second)
        )
        if attribute == other:
            before, after = _twins(answers_to(first), answers_to(second))
            yield from changes(before, after, group=told_as, against=level, scope=NAMES)


def changes(factual: ArmAnswers, changed: ArmAnswers, **cells: Any) -> Iterator[Record]:
    """Compare the answers (n,) to rows with the answers (n,) to their variants.

    `changed` is the share of answers that differ, which are also counted by what they become; the
    differences are those of the rate of yes, of accuracy and of the mean P(yes). Limits are paired,
    with one row (person) as one observation. All but P(yes) leave out pairs with a missing answer;
    `lost` counts those without the second answer only.
    """
    cluster = changed.unit.codes.astype(np.int64)
    before_all = factual.answer
    after_all = changed.answer
    both = ~np.isnan(before_all) & ~np.isnan(after_all)
    before = before_all[both]
    after = after_all[both]
    label = factual.label[both]
    moved = np.asarray(after != before, dtype=np.float64)
    selected = (after == YES) * 1.0 - (before == YES)
    right = (after == label) * 1.0 - (before == label)
    decided = label != REFER
    lost = int((~np.isnan(before_all) & np.isnan(after_all)).sum())
    both_known = ~np.isnan(factual.p_yes) & ~np.isnan(changed.p_yes)
    stated = changed.p_yes[both_known] - factual.p_yes[both_known]
    estimates = {
        "changed": _share(moved, cluster[both]),
        "selection_rate_difference": _mean(selected, cluster[both], _TWO),
        "accuracy_difference": _mean(right[decided], cluster[both][decided], _TWO),
        "mean_p_yes_difference": _mean(stated, cluster[both_known]),
    }
    n = int(both.sum())
    for metric, estimate in estimates.items():
        yield record_of(estimate, metric=metric, n=n, **cells)
    referred = REFER in after or REFER in before
    for code in (YES, NO, *[REFER] * referred):
        count = int(moved[after == code].sum())
        yield Record(metric=f"changed_to_{ANSWERS[code]}", value=count, n=n, **cells)
    yield Record(metric="lost", value=lost, **cells)


def _mean(change: Floats, units: Any, rows: int = 0) -> Estimate:
    """Mean of changes (n,), with t limits by the clustered variance over at least two units.

    The variance includes `rows` added rows that changed, half of them each way (Agresti & Min
    2005).
    """
    code = codes(units)
    n = len(change)
    number = len(np.unique(code))
    error = np.nan
    if n:
        value = float(change.mean())
    else:
        value = np.nan
    if number > 1:
        squares = (np.bincount(code, change - value) ** 2).sum()
        error = (
            np.sqrt(number / (number - 1) * squares + rows)
            / n
            * critical_value(2, 1, number - 1.0)
        )
    low, high = np.clip([value - error, value + error], -1.0, 1.0).tolist()
    return Estimate(value, low, high)
