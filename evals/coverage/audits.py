"""The audit of a sample: through the public door, and the same numbers from arrays, fast enough
to repeat.

The public door reads a table, checks it and says much more than intervals and tests. The fast way
calls what is beneath it, `estimate` and `compare_estimates`; `tally.measure` holds one against the
other.
"""

from typing import Any

import numpy as np

from evals.coverage.worlds import ARMS, Sample
from fwc_llm.metrics.arm_comparison import COMPARED, compare_estimates
from fwc_llm.metrics.arm_estimates import ArmEstimates, MetricEstimate, conditional_parity
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import ArmArrays

_METRICS = ("accuracy", "dp_gap", "dp_ratio", "eo_gap")


def public_audit(sample: Sample) -> dict[str, Any]:
    """The audit as any caller has it."""
    from fwc_llm import audit

    if isinstance(sample.world.rows, int):
        design = "group"
    else:
        design = "group and label"
    world = sample.world
    document: dict[str, Any] = audit(
        sample.frame(),
        design=design,
        cluster="person" if world.people > 1 else None,
        weight="counts_for" if world.weight is not None else None,
        min_group=world.min_group,
        given="stratum" if world.strata else None,
        unread="ignore",  # `evals.coverage.unread` simulates the rest
    ).to_dict()
    return document


def array_audit(sample: Sample) -> dict[str, Any]:
    """The same document as far as intervals and tests go."""
    levels = list(sample.world.groups)
    found = [ArmEstimates(_arrays(sample, arm, levels)) for arm in range(len(ARMS))]
    test = compare_estimates(found[0], found[1], metrics=COMPARED) | {
        "first": ARMS[0],
        "second": ARMS[1],
    }
    arms = [
        _arm(name, one, levels, sample.world.further) | {"by_attribute": _attributes(sample, arm)}
        for arm, (name, one) in enumerate(zip(ARMS, found, strict=True))
    ]
    document: dict[str, Any] = plain({"arms": arms, "comparisons": [test]})
    return document


def _arrays(sample: Sample, arm: int, levels: list[str]) -> ArmArrays:
    """One arm's answers; groups of one name among `levels` are one."""
    repeats, n = sample.ids.shape
    names = list(dict.fromkeys(levels))
    world = sample.world
    asked = sample.asked.ravel()
    group, label = np.divmod(sample.cell.ravel()[asked], 2)
    sets = sample.sets(arm)
    return ArmArrays(
        answer=sample.answers[arm].ravel()[asked],
        label=label,
        group=np.array([names.index(level) for level in levels])[group],
        repeat=np.repeat(np.arange(repeats), n)[asked],
        row=sample.rows[asked],
        groups=len(names),
        design=SamplingDesign(
            labels_fixed=not isinstance(world.rows, int), min_group=world.min_group, unread="ignore"
        ),
        examples=None if sets is None else sets[asked],
        weight=None if world.weight is None else sample.weight[asked],
        cluster=(sample.ids // world.people).ravel()[asked] if world.people > 1 else None,
        p_yes=None if world.separation is None else sample.p_yes[arm].ravel()[asked],
        strata=sample.stratum.astype(np.str_)[asked] if world.strata else None,
    )


def _arm(
    name: str, found: ArmEstimates, levels: list[str], further: tuple[str, ...]
) -> dict[str, Any]:
    kinds = {
        "rate": found.rates(),
        "true_positive_rate": found.rates("true_positive_rate"),
        "false_positive_rate": found.rates("false_positive_rate"),
        "coverage": found.rates("coverage"),
    }
    groups: dict[str, dict[str, float]] = {level: {} for level in levels}
    for kind, rates in kinds.items():
        prefix = "" if kind == "rate" else f"{kind}_"
        for place, level in enumerate(levels):
            one = rates[place]
            groups[level] |= {kind: one.value, f"{prefix}low": one.low, f"{prefix}high": one.high}
    described = {metric: _ends(found[metric]) for metric in _METRICS}
    described["dp_gap"] |= {"p_value": found["dp_gap"].p_value}
    for metric in _METRICS[1:]:
        described[metric]["verdict"] = found[metric].verdict()
    for metric in further:
        if metric == "conditional_parity":
            described[metric] = conditional_parity(found.sample, levels) or {}
        else:
            own = {"verdict": found[metric].verdict(), "p_value": found[metric].p_value}
            described[metric] = _ends(found[metric]) | own
    return {
        "arm": name,
        "of": found.sample.scope,
        **described,
        "coverage": found["coverage"].value,
        "coverage_low": found["coverage"].low,
        "coverage_high": found["coverage"].high,
        "groups": groups,
    }


def _attributes(sample: Sample, arm: int) -> list[dict[str, Any]]:
    parts = [group.split(" & ") for group in sample.world.groups]
    if len(parts[0]) < 2:
        return []
    found = []
    for place in range(len(parts[0])):
        one = ArmEstimates(_arrays(sample, arm, [part[place] for part in parts]))
        values = {metric: one[metric].value for metric in _METRICS}
        ends = {metric: [one[metric].low, one[metric].high] for metric in _METRICS}
        found.append({"attribute": f"attribute {place + 1}", **values, "intervals": ends})
    return found


def _ends(one: MetricEstimate) -> dict[str, Any]:
    return {"value": one.value, "low": one.low, "high": one.high}
