"""All that answers say, as one plain document that every output then writes down (docs/statistics.md)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import Answered, Answers, Variation, mapped, questions_of
from fwc_llm.metrics.cells import METRICS, Cells, Floats, count_cells, levels_of, overall
from fwc_llm.metrics.comparisons import comparisons
from fwc_llm.metrics.estimates import Estimate, Estimates, estimate
from fwc_llm.metrics.flips import flips
from fwc_llm.metrics.frame import part_of
from fwc_llm.metrics.frontier import constant_answers, frontier
from fwc_llm.metrics.groups import undefined_reasons
from fwc_llm.metrics.notes import SMALL, notes
from fwc_llm.metrics.probability import probability_statistics
from fwc_llm.metrics.references import References, reference_statistics
from fwc_llm.metrics.repetition import repetition_statistics
from fwc_llm.metrics.sample import Codes
from fwc_llm.metrics.unparsed import TREATMENTS, bounds, treated
from fwc_llm.metrics.variance import PARTS, UNKNOWN, Asked, as_numbers, split_variance


def statistics(run: Answered, references: References | None = None) -> dict[str, Any]:
    """Return all that the answers say, ready for JSON (undefined values are None).

    Keys: `groups` (name, n, base_rate, small), `arms` (one object each, see `arm_statistics`),
    `comparisons`, `context` (answers that need no model), `frontier` (gap, accuracy), `with_examples`
    (false where no answer is known to have had any), `reference_lines` (None, or see
    `reference_statistics`), `notes`.
    """
    estimates = {arm: estimate(sample) for arm, sample in run.samples.items()}
    cells = {arm: run.cells(arm) for arm in run.arms}
    counts = next(iter(cells.values())).counts
    size, repeats = counts.sum((0, 3)), len(counts)  # (G, 2) rows, the same for every arm
    arms = [arm_statistics(run, arm, estimates[arm], cells[arm]) for arm in run.arms]
    _split_variances(run, estimates, arms)
    gaps, best = frontier(size[:, 1] / size.sum(1), size.sum(1))
    found = {
        "groups": [
            {
                "group": name,
                "n": int(n.sum()),
                "base_rate": float(n[1] / n.sum()),
                "small": bool(n.sum() < SMALL * repeats),
            }
            for name, n in zip(run.groups, size, strict=True)
        ],
        "arms": arms,
        "comparisons": comparisons(run, estimates),
        "context": _context(next(iter(run.answers.values())), run.groups),
        "frontier": {"gap": gaps.tolist(), "accuracy": best.tolist()},
        "with_examples": run.with_examples,
        "reference_lines": None if references is None else reference_statistics(run, references, estimates),
    }
    described: dict[str, Any] = plain({**found, "notes": notes(run, found)})
    return described


def arm_statistics(run: Answered, arm: str, found: Estimates, cells: Cells) -> dict[str, Any]:
    """Return one arm's statistics.

    Every metric has its `value` over all repeats, the 95 % interval (`low`, `high`) and what it speaks of
    (`of`), each repeat's own value (`per_repeat`) and their standard deviation (`sd`), and the paper's
    summary, the mean and the standard deviation of the repeats' values.
    """
    a, measured = run.answers[arm], overall(cells.counts)
    described: dict[str, Any] = {
        "arm": arm,
        "n": len(a),
        "of": found.of,
        "unanswered": int((a.reason == "error").sum()),
    }
    for metric in METRICS:
        described[metric] = _described(getattr(found, metric)) | {"of": found.of}
    described["demographic_parity_difference"] |= {
        "noise_expected": found.noise.expected,
        "noise_95": found.noise.percentile_95,
        "p_value": found.noise.p_value,
        "smallest_found": found.noise.smallest_found,
    }
    described["signed_gap"] = None
    if found.signed_gap is not None:
        low_group, high_group = run.groups
        described["signed_gap"] = _described(found.signed_gap) | {"of": f"{high_group} − {low_group}"}
    described["coverage"] = found.coverage.value
    described["coverage_low"], described["coverage_high"] = found.coverage.low, found.coverage.high
    described["groups"] = _groups(run.groups, found, cells.counts)
    described["unparsed"] = a.unparsed
    described["treatments"] = _treatments(cells)
    described["reasons"] = dict(undefined_reasons(measured, cells.groups))
    described["probabilities"] = probability_statistics(a, run.groups, run.labels_fixed)
    described["repetition"] = repetition_statistics(a, run.times, run.groups, run.labels_fixed)
    described["flips"] = _flips(run, arm)
    described["by_attribute"] = _by_attribute(run, a)
    return described


def _described(found: Estimate) -> dict[str, Any]:
    """A metric for JSON. The paper's summary is undefined where a repeat's value is."""
    each = found.per_repeat
    sd = float(each.std(ddof=1)) if len(each) > 1 else math.nan
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "sd": sd,
        "per_repeat": each.tolist(),
        "paper_summary": {"mean": float(each.mean()), "sd": sd},
    }


def _groups(names: tuple[str, ...], found: Estimates, counts: Floats) -> dict[str, Any]:
    size = counts.sum((0, 2, 3))
    kinds = {
        "rate": found.rates,
        "true_positive_rate": found.true_positive_rates,
        "false_positive_rate": found.false_positive_rates,
        "coverage": found.coverage_by_group,
    }
    described: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(names):
        described[name] = {"n": int(size[place]), "small": bool(size[place] / len(counts) < SMALL)}
        for kind, rates in kinds.items():
            ends = ("low", "high") if kind == "rate" else (f"{kind}_low", f"{kind}_high")
            one = rates.at(place)
            described[name] |= {kind: one.value, ends[0]: one.low, ends[1]: one.high}
    return described


def _treatments(cells: Cells) -> dict[str, Any]:
    """Each metric with unparsed answers dropped, as no, as yes, and its worst-case bounds."""
    found: dict[str, Any] = {}
    for treatment in TREATMENTS:
        measured = treated(cells.counts, treatment)
        found[treatment] = {metric: float(getattr(measured, metric)[0]) for metric in METRICS}
    found["worst case"] = {metric: list(ends) for metric, ends in bounds(cells.counts).items()}
    return found


def _split_variances(run: Answered, estimates: Mapping[str, Estimates], arms: list[dict[str, Any]]) -> None:
    """Add `variance` to each arm, and `variation`: what it and the others of its family differ in.

    Arms of one family share their split.
    """
    for described in arms:
        arm = described["arm"]
        own = run.variations.get(arm)
        described["variation"] = None if own is None else dict(vars(own))
        family = [
            a for a in run.arms if own and a in run.variations and run.variations[a].family == own.family
        ]
        described["variance"] = _family_variances(run, estimates, family or [arm])


def _family_variances(run: Answered, estimates: Mapping[str, Estimates], family: list[str]) -> dict[str, Any]:
    """The split of the accuracy, and of the signed gap of the two groups that are farthest apart."""
    ways = [run.variations.get(arm, Variation(arm, "", "")) for arm in family]
    orders, wordings = (
        [*dict.fromkeys(names)] for names in zip(*((w.order, w.template) for w in ways), strict=True)
    )
    sample = run.samples[family[0]]
    shape = len(orders), len(wordings), len(sample.answer)
    right, yes = np.full(shape, np.nan), np.full(shape, np.nan)
    for arm, way in zip(family, ways, strict=True):
        place, one = (orders.index(way.order), wordings.index(way.template)), run.samples[arm]
        yes[place] = one.answer
        right[place] = np.where(one.parsed, one.yes == one.label, np.nan)
    repeat = sample.repeat // run.times

    def asked(answer: Floats, here: npt.NDArray[np.bool_], alone: Codes) -> Asked:
        stratum = sample.cell if run.labels_fixed else alone
        return Asked(answer[..., here], repeat[here], sample.row[here], stratum[here])

    found = {"accuracy": as_numbers(split_variance([(1.0, asked(right, sample.asked, sample.everyone))]))}
    rates = np.mean([estimates[arm].counted_rates.values for arm in family], axis=0)
    gap = dict.fromkeys(PARTS, UNKNOWN)
    if len(rates) > 1 and not np.isnan(rates).any():
        ends = (1.0, int(np.argmax(rates))), (-1.0, int(np.argmin(rates)))
        gap = split_variance([(sign, asked(yes, sample.group == one, sample.group)) for sign, one in ends])
    return {**found, "demographic_parity_difference": as_numbers(gap)}


def _flips(run: Answered, arm: str) -> list[dict[str, Any]]:
    """The counterfactual probe: every changed row against the row as it is."""
    if arm not in run.counterfactuals:
        return []
    changed, factual = run.counterfactuals[arm], run.answers[arm]
    own, other = questions_of([factual, changed])
    order = np.argsort(own, kind="stable")
    place = order[np.minimum(np.searchsorted(own[order], other), len(own) - 1)]
    known = own[place] == other
    changed, twin = changed.where(known), factual.where(place[known])
    told_as = mapped(changed.variant, lambda variant: variant.partition(":")[2])
    return [
        vars(one) | {"interval": list(one.interval)}
        for one in flips(twin.answer, changed.answer, changed.group, told_as, changed.row)
    ]


def _by_attribute(run: Answered, a: Answers) -> list[dict[str, Any]]:
    """With several protected attributes: each by itself; the crossed groups are the main table's."""
    parts = [name.split(" & ") for name in run.groups]
    width = {len(part) for part in parts}
    if width == {1} or len(width) != 1:
        return []
    names = run.attributes or [f"attribute {place + 1}" for place in range(width.pop())]
    found = []
    for place, name in enumerate(names):
        level = part_of(a.group, place)
        levels = levels_of(level)[0]
        alone = Answered({"": replace(a, group=level)}, tuple(levels), run.labels_fixed)
        measured = estimate(alone.samples[""])
        found.append(
            {
                "attribute": str(name),
                "rates": dict(zip(levels, measured.rates.values.tolist(), strict=True)),
                "sizes": {one: int((level == one).sum()) for one in levels},
                **{metric: getattr(measured, metric).value for metric in METRICS},
                "intervals": {
                    metric: [getattr(measured, metric).low, getattr(measured, metric).high]
                    for metric in METRICS
                },
                "noise_95": measured.noise.percentile_95,
                "p_value": measured.noise.p_value,
            }
        )
    return found


def _context(a: Answers, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    """Answers that need no model, on the same rows, decided in each repeat by itself."""
    found: dict[str, Floats] = {}
    for repeat in np.unique(a.repeat):
        here = a.repeat == repeat
        for name, answers in constant_answers(a.label[here], a.group[here]).items():
            found.setdefault(name, np.empty(len(a)))[here] = answers
    rows = []
    for name, answers in found.items():
        measured = overall(count_cells(answers, a.label, a.group, groups, a.repeat).counts)
        rows.append({"name": name, **{metric: float(getattr(measured, metric)[0]) for metric in METRICS}})
    return rows


def plain(value: Any) -> Any:
    """Return the value as JSON holds it: NaN and infinities become None, numpy numbers Python's."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
