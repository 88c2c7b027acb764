"""All statistics of a run as one plain document (docs/statistics.md)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.metrics import counts
from fwc_llm.metrics.arm_comparison import comparisons
from fwc_llm.metrics.arm_estimates import ArmEstimates, MetricEstimate, conditional_parity
from fwc_llm.metrics.intervals import INCONCLUSIVE, SHOWN
from fwc_llm.metrics.perturbation_effects import flips, probes, repetition_statistics
from fwc_llm.metrics.predicted_probabilities import centred, decision_notes, probability_statistics
from fwc_llm.metrics.prediction_powered import MIN_ROWS, RATES_ASSISTED, effective_sample_size
from fwc_llm.metrics.run_answers import RunAnswers, is_known, unknown_of, views
from fwc_llm.metrics.sampling_design import AS_NO, WORST
from fwc_llm.metrics.variance import MIN_SETS, ArmArrays
from fwc_llm.sanitize import listed

SMALL = 10  # rows of a group per repeat; fewer are marked as small
_LISTED = 4  # groups that a note names, at most
_MANY = 1_000_000  # rows; notes say "more than" for larger numbers
_PARITY = "demographic_parity_difference"
_GROUP_RATES = ("rate", "true_positive_rate", "false_positive_rate", *counts.REPLY_RATES)


Lines = Callable[[RunAnswers, Mapping[str, ArmEstimates]], dict[str, Any]]


def statistics(run: RunAnswers, references: Lines | None = None) -> dict[str, Any]:
    """Return all statistics of a run, ready for JSON (undefined values are None).

    `references` describes reference models' answers, and the arms' differences from them. `context`
    has perfect answers to the same rows, `perfect_gap` their DP gap if rows were drawn by group and
    label.
    """
    estimates = {arm: ArmEstimates(sample) for arm, sample in run.samples.items()}
    first = next(iter(run.samples.values()))
    size, people = (
        np.bincount(first.cell, weight, 2 * first.groups).reshape(-1, 2).astype(np.float64)
        for weight in (None, first.weight)
    )
    perfect = ArmEstimates(replace(first, answer=first.label.astype(np.float64), assist=None))
    arms = [arm_statistics(run, arm, estimates[arm]) for arm in run.arms]
    unassisted = estimates
    if run.assist:
        unassisted = {arm: ArmEstimates(sample) for arm, sample in run.plain_samples.items()}
    base_rates = people[:, 1] / people.sum(1)
    content = {
        "groups": [
            {
                "group": name,
                "n": int(n.sum()),
                "base_rate": float(base_rates[place]) if run.design.labelled else None,
                "small": bool(n.sum() < SMALL * first.repeats),
                "judged": place in first.eligible_groups,
            }
            for place, (name, n) in enumerate(zip(run.groups, size, strict=True))
        ],
        "arms": arms,
        "comparisons": comparisons(run, unassisted),
        "context": [{"name": "oracle", **_headline(perfect)}] if run.design.labelled else [],
        "repeats": first.repeats,
        "with_examples": run.with_examples,
        "perfect_gap": run.perfect_gap,
        "labelled": run.design.labelled,
        "assisted": run.assist,
        "margin": run.design.margin,
        "unread": run.design.unread,
        "min_group": run.design.min_group,
        "reference_lines": None if references is None else references(run, unassisted),
    }
    described: dict[str, Any] = counts.plain({**content, "notes": notes(run, content)})
    return described


def arm_statistics(run: RunAnswers, arm: str, estimates: ArmEstimates) -> dict[str, Any]:
    """Return the statistics of one arm.

    Gaps and ratios compare the judged groups; if some groups are not judged, `all_groups` has the
    values over all groups. `alike` describes answers all alike, and the results of `centred`
    P(yes).
    """
    a = run.answers[arm]
    sample = estimates.sample
    described: dict[str, Any] = {
        "arm": arm,
        "n": len(a),
        "of": estimates.sample.scope,
        "unanswered": int((a.reason == "error").sum()),
    }
    for metric in counts.TABLE:
        if metric.headline or metric.source == "answers" or sample.p_yes is not None:
            described[metric.key] = _described(estimates[metric.key]) | {
                "of": estimates.sample.scope
            }
            if metric.kind != "share":
                described[metric.key] |= _judged(estimates, metric.key, run.design.margin)
    if arm in run.assists:
        own = ArmEstimates(run.plain_samples[arm])
        more = ArmEstimates(replace(own.sample, assist=run.assists[arm]))
        for metric in counts.COUNTED:
            if set(metric.rates) <= set(RATES_ASSISTED):
                described[metric.key]["assisted"] = {
                    **more[metric.key].ends,
                    "verdict": more[metric.key].verdict(run.design.margin),
                    "rows_worth": effective_sample_size(own, more, metric.key),
                }
    described[_PARITY]["smallest_found"] = estimates.smallest_found()
    everything = len(sample.eligible_groups) == sample.groups
    described["all_groups"] = (
        None if everything else {key: estimates.value(key) for key in counts.METRICS}
    )
    described["variation"] = run.variations.get(arm)
    described["alike"] = None
    if sample.alike:
        described["alike"] = {"words": sample.alike, "centred": centred(sample, run.groups)}
    described["replies"] = {
        metric.key: estimates[metric.key].ends
        | (
            {}
            if metric.kind == "share"
            else {"verdict": estimates[metric.key].verdict(run.design.margin)}
        )
        for metric in counts.REPLIES
    }
    coverage = estimates["coverage"]
    described |= {
        "coverage": coverage.value,
        "coverage_low": coverage.low,
        "coverage_high": coverage.high,
    }
    described["groups"] = _groups(run.groups, estimates)
    described["unparsed"] = a.unparsed
    described["treatments"] = _treatments(run, arm, estimates)
    described["reasons"] = {
        key: why for key, why in estimates.undefined(run.groups) if np.isnan(estimates[key].value)
    }
    described["conditional_parity"] = conditional_parity(sample, run.groups)
    described["probabilities"] = None
    if run.design.labelled:
        described["probabilities"] = probability_statistics(a, run.groups, run.design)
    described["repetition"] = repetition_statistics(a, run.groups, run.design)
    described["flips"] = flips(a, run.counterfactuals[arm]) if arm in run.counterfactuals else []
    described["probes"] = probes(run, arm) if arm in run.probes else []
    described["by_attribute"] = _by_attribute(run, sample)
    if not run.design.labelled:
        for metric in counts.TABLE:
            if metric.key in described and set(metric.rates) - {"rate"}:
                described[metric.key] |= {"verdict": None, "p_value": math.nan}
                described["reasons"][metric.key] = "there are no labels"
                for part in (*described["treatments"].values(), described["all_groups"] or {}):
                    part |= {metric.key: None} if metric.key in part else {}
    return described


def _described(estimate: MetricEstimate) -> dict[str, Any]:
    """A metric for JSON; the paper's summary is undefined if any repeat's value is."""
    each = estimate.per_repeat
    if len(each):
        mean = float(each.mean())
    else:
        mean = math.nan
    if len(each) > 1:
        sd = float(each.std(ddof=1))
    else:
        sd = math.nan
    return estimate.ends | {"paper_summary": {"mean": mean, "sd": sd}}


def _judged(estimates: ArmEstimates, key: str, margin: float) -> dict[str, Any]:
    metric = estimates[key]
    decided = metric.verdict(margin)
    size = len(estimates.sample.eligible_groups), len(counts.BY_KEY[key].rates)
    if decided == INCONCLUSIVE:
        needed = metric.rows_needed(estimates.sample.rows, margin, *size)
    else:
        needed = None
    return {"verdict": decided, "margin": margin, "rows_needed": needed, "p_value": metric.p_value}


def _groups(names: tuple[str, ...], estimates: ArmEstimates) -> dict[str, Any]:
    sample = estimates.sample
    size = np.bincount(sample.group, minlength=sample.groups)
    ranked = () if sample.p_yes is None else ("auc", "brier")
    rates = {rate: estimates.rates(rate) for rate in (*_GROUP_RATES, *ranked)}
    rows = estimates.counted("rate").effective_rows
    described: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(names):
        described[name] = {
            "n": int(size[place]),
            "small": bool(size[place] / sample.repeats < SMALL),
            "judged": place in sample.eligible_groups,
            "effective_rows": float(rows[place]),
        }
        for rate, limits in rates.items():
            prefix = "" if rate == "rate" else f"{rate}_"
            limit = limits[place]
            described[name] |= {
                rate: limit.value,
                f"{prefix}low": limit.low,
                f"{prefix}high": limit.high,
            }
    return described


def _treatments(run: RunAnswers, arm: str, estimates: ArmEstimates) -> dict[str, Any]:
    """Metrics with replies without an answer read as no, and worst-case bounds."""
    ends = {metric.key: estimates.worst_case(metric.key) for metric in counts.COUNTED}
    plain = run.plain_samples[arm]
    as_no = replace(run.design, unread=AS_NO)
    return {
        "as-no": _headline(ArmEstimates(replace(plain, design=as_no))),
        "worst case": {key: list(ends[key][0]) for key in counts.METRICS},
        "worst case, 95 %": {key: list(each) for key, (_, each) in ends.items()},
    }


def _by_attribute(run: RunAnswers, sample: ArmArrays) -> list[dict[str, Any]]:
    """Metrics by each of several protected attributes; the main table has the crossed groups."""
    keys = [
        key
        for key in counts.METRICS
        if run.design.labelled or counts.BY_KEY[key].rates == ("rate",)
    ]
    described = []
    for view in views(run.groups, run.attributes)[:-1]:
        level = view.level_of[sample.group]
        of_level = replace(
            sample,
            group=level,
            groups=len(view.levels),
            unknown=unknown_of(view.levels),
            assist=None,
        )
        measured = ArmEstimates(of_level)
        described.append(
            {
                "attribute": view.name,
                "rates": dict(
                    zip(view.levels, measured.counted("rate").values.tolist(), strict=True)
                ),
                "sizes": dict(zip(view.levels, np.bincount(level).tolist(), strict=True)),
                **{key: measured[key].value if key in keys else None for key in counts.METRICS},
                "intervals": {key: [measured[key].low, measured[key].high] for key in keys},
                "verdicts": {key: measured[key].verdict(run.design.margin) for key in keys},
                "p_value": measured[_PARITY].p_value,
            }
        )
    return described


def _headline(estimates: ArmEstimates) -> dict[str, float]:
    return {key: estimates[key].value for key in counts.METRICS}


def notes(run: RunAnswers, content: Mapping[str, Any]) -> list[str]:
    """Return notes that a reader must know before trusting a number, made for this run."""
    return [
        *_about_rows(run),
        *_about_predictions(run, content),
        *_about_unread(run, content),
        *run.unused,
        *_about_arms(content),
        *decision_notes(run),
    ]


def _about_rows(run: RunAnswers) -> Iterator[str]:
    """Yield notes on looks, groups, repeats, people and draws of examples."""
    sample = next(iter(run.samples.values()))
    apart = small_groups(run)
    looks = run.design.sequential
    if looks is not None:
        rows = sample.rows
        most = looks.most
        ended = looks.ended
        if rows < most and not ended:
            saved = f" ({most - rows:,} requests saved per arm)"
        else:
            saved = ""
        yield (
            f"Asked until decided: {rows:,} of at most {most:,} "
            f"rows{saved}{'; ' * bool(ended)}{ended}. "
            "Intervals are repeated confidence intervals of the population, which hold jointly at "
            "all "
            "checks; tests for a fixed number of rows are left out."
        )

    sizes = zip(run.groups, sample.of_groups(sample.unit), strict=True)
    few = [name for name, size in sizes if size < run.design.min_group and is_known(name)]
    fewer = f"fewer than {run.design.min_group} {'rows' if sample.cluster is None else 'people'}"
    if apart:
        yield f"Not judged, with {fewer}: {group_words(apart)}."
    elif few and len(run.groups) > 1:
        yield f"Judged, though with {fewer}, because a gap takes two groups: {group_words(few)}."
    unknown = [name for name in run.groups if not is_known(name)]
    if unknown:
        yield (
            f"Not judged, because the category of these people is not known: "
            f"{group_words(unknown)}."
        )
    if sample.weight is not None:
        yield "Rates, gaps and true shares are weighted; counts of rows are not."
    if len(run.groups) < 2:
        yield "All rows are of one group: there is no disparity to measure."

    about = f"{len(sample.row):,} questions are about {sample.rows:,} rows."
    if run.design.times > 1:
        yield (
            f"Every prompt was asked {run.design.times} times: {about} Identical answers to one "
            f"prompt do "
            "not narrow the intervals."
        )
    elif sample.rows < len(sample.row):
        yield f"Repeats share test rows: {about}"
    if sample.cluster is not None:
        people = len(np.unique(sample.cluster))
        yield (
            f"{len(sample.row):,} answers are about {people:,} people: intervals count people, not "
            f"rows."
        )
        if people < 2 * MIN_SETS:
            yield f"{people} people are few: with fewer than ten, intervals may be too narrow."
    drawn = {arm: own.number_of_sets for arm, own in run.samples.items() if own.sets is not None}
    few = [arm for arm, sets in drawn.items() if sets < MIN_SETS]
    if few:
        least = min(drawn.values())
        draws = "1 draw of examples" if least == 1 else f"{least} draws of examples"
        yield (
            f"Intervals of {', '.join(few)} hold for the {draws} in these data; intervals for the "
            f"strategy need {MIN_SETS} draws."
        )


def small_groups(run: RunAnswers) -> list[str]:
    """Return the known groups that have too few rows to be judged (`SamplingDesign.min_group`)."""
    judged = next(iter(run.samples.values())).eligible_groups
    return [name for place, name in enumerate(run.groups) if place not in judged and is_known(name)]


def group_words(groups: Sequence[str]) -> str:
    """List groups in a sentence; of many groups the first ones, and the number of the others."""
    return listed(groups, _LISTED, "{:.60}".format)


def _about_predictions(run: RunAnswers, content: Mapping[str, Any]) -> Iterator[str]:
    if run.assist and not run.assists:
        yield (
            "No prediction-powered estimate is possible: it takes at least "
            f"{MIN_ROWS} rows, drawn at random, without weights, and answers that differ."
        )
    elif run.assist:
        yield (
            "Values, intervals and verdicts also use predictions for rows that were not asked "
            "about "
            "(prediction-powered); selection rates and impact ratios do not."
        )
    for arm in content["arms"]:
        gap = arm[_PARITY].get("assisted")
        if gap is not None and not np.isnan(gap["value"]) and not arm["alike"]:
            if gap["rows_worth"]:
                worth = f", effective sample size {_about(gap['rows_worth'])}"
            else:
                worth = ""
            limits = f"{gap['value']:.2f} ({gap['low']:.2f} to {gap['high']:.2f})"
            yield f"{arm['arm']}, assisted: DP gap {limits}{worth}."


def _about_unread(run: RunAnswers, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on how replies without an answer count, and on their effect on the DP gap."""
    unread = {arm: n for arm, a in run.answers.items() if (n := int(a.unread.sum()))}
    if not unread:
        return
    counted = ", ".join(f"{arm} {n:,}" for arm, n in unread.items())
    assumed = run.design.unread
    if assumed != WORST:
        how = "counted as no" if assumed == AS_NO else "left out, as if they were like the others"
        yield (
            f"Replies without an answer ({counted}) are {how}: an assumption (--unread {assumed})."
        )
        return
    yield (
        f"Replies without an answer: {counted}. Values leave them out; verdicts and gates hold "
        f"whether each "
        "counts as yes or as no (--unread as-no or ignore makes an assumption)."
    )
    for arm in content["arms"]:
        low, high = arm["treatments"]["worst case, 95 %"][_PARITY]
        if arm["arm"] in unread and not np.isnan(low):
            yield (
                f"{arm['arm']}: however these replies count, the DP gap lies from {low:.3f} to "
                f"{high:.3f} "
                "(95 %)."
            )


def _about(rows: int) -> str:
    """A number of rows in words, to two digits."""
    if rows < _MANY:
        return f"about {float(f'{rows:.2g}'):,.0f}"
    return f"more than {_MANY:,}"


def _about_arms(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on power, groups without answers, strata, lost replies and comparisons."""
    needed = [
        (arm["arm"], arm[_PARITY]["rows_needed"], arm[_PARITY]["margin"]) for arm in content["arms"]
    ]
    told = [f"{_about(rows)} rows ({arm})" for arm, rows, _ in needed if rows]
    if told:
        yield (
            f"To show, 4 times in 5, that an unsettled DP gap is within {needed[0][2]:g}, if the "
            f"groups are "
            f"treated alike, takes {group_words(told)}."
        )

    for arm in content["arms"]:
        silent = [name for name, group in arm["groups"].items() if group["coverage"] == 0]
        if silent:
            yield f"{arm['arm']}: no parsed answer in group {group_words(silent)}."
        within = arm["conditional_parity"]
        if within is not None:
            yield f"{arm['arm']}: {_within_strata(within)}"
    unanswered = sum(arm["unanswered"] for arm in content["arms"])
    if unanswered:
        have = "question has" if unanswered == 1 else "questions have"
        yield f"{unanswered} {have} no reply at all and count{'s' * (unanswered == 1)} as unparsed."
    reasons = {test["reason"] for test in content["comparisons"] if test["reason"]}
    if reasons:
        yield f"Which arm is better {reasons.pop()}."


def _within_strata(within: Mapping[str, Any]) -> str:
    dropped = len(within["dropped"])
    lacking = f"; {dropped} strata that lack a group are left out" if dropped else ""
    if within["value"] is None:
        return f"no stratum has answers of two groups{lacking}."
    pair = f"{within['first']} and {within['second']}"
    ends = f"{within['low']:.3f} to {within['high']:.3f}"
    return (
        f"within {within['strata']} strata the DP gap is {within['value']:.3f} ({ends}), of "
        f"{pair}: "
        f"{SHOWN[within['verdict']]}{lacking}."
    )
