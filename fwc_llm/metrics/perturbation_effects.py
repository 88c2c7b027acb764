"""Effects of repeated prompts, changed protected attributes and other ways to ask."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from fwc_llm.metrics.arm_estimates import UNDEFINED, MetricEstimate, share_limits
from fwc_llm.metrics.counts import Codes, Floats
from fwc_llm.metrics.intervals import critical_value
from fwc_llm.metrics.predicted_probabilities import probability_statistics
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers, mapped, questions_of
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import ArmArrays, codes, mean_shares

_TWO = 2  # added rows that changed, one each way: no variance is 0


def repetition_statistics(
    a: ArmAnswers, order: tuple[str, ...], design: SamplingDesign
) -> dict[str, Any] | None:
    """Return how consistent answers to repeated prompts are; None without such prompts."""
    times = design.times
    if times < 2:
        return None
    (prompt,) = questions_of([replace(a, repeat=a.repeat // times)])
    unit, first, place = np.unique(prompt, return_index=True, return_inverse=True)
    known = ~np.isnan(a.answer)
    count = np.bincount(place[known], minlength=len(unit)).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.bincount(place[known], a.answer[known], len(unit)) / count
        same = 1.0 - 2.0 * share * (1.0 - share) * count / (count - 1.0)
    twice = count > 1
    averaged = a.where(first)
    agreement = _share(same[twice], averaged.unit[twice])
    return {
        "times": times,
        "prompts": int(twice.sum()),
        "changed": float((same[twice] < 1.0).mean()) if twice.any() else np.nan,
        "self_agreement": agreement.value,
        "low": agreement.low,
        "high": agreement.high,
        "probabilities": probability_statistics(replace(averaged, p_yes=share), order, design),
    }


def _share(value: Floats, units: Any) -> MetricEstimate:
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
    return share_limits(mean_shares(sample, np.ones(len(value)), value, none, 1, False))[0]


def flips(factual: ArmAnswers, changed: ArmAnswers) -> list[dict[str, Any]]:
    """Return how answers change in variants with another protected attribute (`told_as`)."""
    factual, changed = _twins(factual, changed)
    told_as = mapped(changed.variant, lambda variant: variant.partition(":")[2])
    both = ~np.isnan(factual.answer) & ~np.isnan(changed.answer)
    described = []
    for group, other in dict.fromkeys(zip(changed.group, told_as, strict=True)):
        here = both & (changed.group == group) & (told_as == other)
        before = factual.answer[here]
        after = changed.answer[here]
        moved = _share((before != after).astype(np.float64), changed.unit[here])
        described.append(
            {
                "group": group,
                "told_as": other,
                "n": len(before),
                "to_yes": int((before < after).sum()),
                "to_no": int((before > after).sum()),
                "rate": moved.value,
                "interval": [moved.low, moved.high],
            }
        )
    return described


def _twins(factual: ArmAnswers, changed: ArmAnswers) -> tuple[ArmAnswers, ArmAnswers]:
    """Pair the answers to unchanged rows with those to their variants, in the same order."""
    own, other = questions_of([factual, changed])
    order = np.argsort(own, kind="stable")
    place = order[np.minimum(np.searchsorted(own[order], other), len(own) - 1)]
    paired = own[place] == other
    return factual.where(place[paired]), changed.where(paired)


def probes(run: RunAnswers, arm: str) -> list[dict[str, Any]]:
    """Return the effects of first names and exchanged proxies."""
    asked = run.probes[arm]
    factual = run.answers[arm]
    kinds = list(asked.variant.categories)
    described: list[dict[str, Any]] = []

    def add(
        probe: str, parts: tuple[str, ...], told_as: str, first: ArmAnswers, second: ArmAnswers
    ) -> None:
        first, second = _twins(first, second)
        cluster = second.unit.codes.astype(np.int64)
        for group in parts:
            of_group = probe != "names" and group in run.groups
            if of_group:
                here = np.asarray(second.group == group)
            else:
                here = second.repeat >= 0
            if here.any():
                shown = changes(first.where(here), second.where(here), cluster[here])
                described.append({"probe": probe, "group": group, "told_as": told_as, **shown})

    def answers_to(beginning: str) -> ArmAnswers:
        return asked.where(
            asked.variant.isin([kind for kind in kinds if kind.startswith(beginning)])
        )

    named = [kind for kind in kinds if kind.startswith("names:")]
    for first, second in combinations(named, 2):
        (attribute, level), (other, told_as) = (kind[6:].split("=", 1) for kind in (first, second))
        if attribute == other:
            add("names", (level,), told_as, answers_to(first), answers_to(second))
    for kind in kinds:
        if kind.startswith("proxies:"):
            add("proxies", run.groups, kind[8:].split("=", 1)[1], factual, answers_to(kind))
    return described


def changes(factual: ArmAnswers, changed: ArmAnswers, cluster: Codes) -> dict[str, Any]:
    """Compare the answers (n,) to rows with the answers (n,) to their variants.

    `changed` is the share of answers that differ; `yes`, `accuracy` and `p_yes` are the changes of
    the rate of yes, of accuracy and of the mean P(yes). Limits are paired, with one `cluster` (n,)
    as one observation. All but `p_yes` leave out pairs with a missing answer; `lost` counts those
    without the second answer only.
    """
    before_all = factual.answer
    after_all = changed.answer
    both = ~np.isnan(before_all) & ~np.isnan(after_all)
    before = before_all[both]
    after = after_all[both]
    label = factual.label[both]
    moved = np.asarray(after != before, dtype=np.float64)
    right = np.asarray(after == label, dtype=np.float64)
    described = {
        "n": int(both.sum()),
        "lost": int((~np.isnan(before_all) & np.isnan(after_all)).sum()),
        "changed": _share(moved, cluster[both]).ends,
        "yes": _mean(after - before, cluster[both], _TWO).ends,
        "accuracy": _mean(moved * (2.0 * right - 1.0), cluster[both], _TWO).ends,
    }
    known = ~np.isnan(factual.p_yes) & ~np.isnan(changed.p_yes)
    return described | {
        "p_yes": _mean(changed.p_yes[known] - factual.p_yes[known], cluster[known]).ends
    }


def _mean(change: Floats, units: Any, rows: int = 0) -> MetricEstimate:
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
            np.sqrt(number / (number - 1) * squares + rows) / n * critical_value(2, 1, number - 1.0)
        )
    low, high = np.clip([value - error, value + error], -1.0, 1.0).tolist()
    return MetricEstimate(value, low, high)
