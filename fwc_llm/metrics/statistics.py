"""A run's answers as statistics: one plain document that every output then writes down."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answered, Answers
from fwc_llm.metrics.cells import NO, YES, Cells, Floats, Measures, count_cells, measure
from fwc_llm.metrics.comparisons import comparisons
from fwc_llm.metrics.flips import flips
from fwc_llm.metrics.frontier import constant_answers, frontier
from fwc_llm.metrics.groups import undefined_reasons
from fwc_llm.metrics.intervals import (
    NOWHERE,
    Interval,
    mean_over_repeats,
    newcombe,
    ratio_interval,
    resample,
    spread_interval,
    wilson,
)
from fwc_llm.metrics.noise import noise_floor
from fwc_llm.metrics.probability import probability_statistics
from fwc_llm.metrics.unparsed import TREATMENTS, bounds, treated
from fwc_llm.metrics.variance import split_variance

METRICS = (
    "accuracy",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
)
SMALL = 10  # rows a repeat; a group below says little
_DRAWS = 4000


def statistics(run: Answered) -> dict[str, Any]:
    """Return all that a run's answers say, ready for JSON (undefined values are None).

    Keys: `groups` (name, n, base_rate, small), `arms` (one object each, see `arm_statistics`),
    `comparisons`, `context` (answers that need no model), `frontier` (gap, accuracy), `notes`.
    """
    cells = {arm: run.cells(arm) for arm in run.arms}
    counts = next(iter(cells.values())).counts
    size, repeats = counts.sum((0, 3)), len(counts)  # (G, 2) rows, the same for every arm
    arms = [arm_statistics(run, arm, cells[arm]) for arm in run.arms]
    _split_variances(run, cells, arms)
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
        "comparisons": comparisons(run),
        "context": _context(next(iter(run.answers.values())), run.groups),
        "frontier": {"gap": gaps.tolist(), "accuracy": best.tolist()},
    }
    described: dict[str, Any] = plain({**found, "notes": _notes(run, cells, found)})
    return described


def arm_statistics(run: Answered, arm: str, cells: Cells) -> dict[str, Any]:
    """Return one arm's statistics; every metric is the mean over repeats, with `sd` and each repeat.

    Intervals (`low`, `high`) are 95 %: Wilson for accuracy, rates and coverage, Newcombe for the signed gap
    of two groups, the log method for their ratio, a stratified bootstrap for the rest.
    """
    a = run.answers[arm]
    measured = measure(cells.counts)
    drawn = resample(cells, _DRAWS)
    groups = _group_statistics(cells, measured)
    found: dict[str, Any] = {"arm": arm, "n": len(a), "unanswered": int((a.reason == "error").sum())}
    for metric in METRICS:
        values = getattr(measured, metric)
        found[metric] = _over_repeats(values) | _ends(_interval(metric, cells, measured, drawn))
    parsed, yes = _pooled(cells)
    floor = noise_floor(cells.counts[..., YES].sum(-1), cells.counts[..., :2].sum((-1, -2)))
    found["demographic_parity_difference"] |= {
        "noise_expected": floor.expected,
        "noise_95": floor.percentile_95,
        "p_value": floor.p_value,
    }
    found["signed_gap"] = None
    if len(cells.groups) == 2:
        low_group, high_group = cells.groups
        gap = measured.rates[:, 1] - measured.rates[:, 0]
        ends = newcombe(yes[1], parsed[1], yes[0], parsed[0])
        found["signed_gap"] = {"of": f"{high_group} − {low_group}"} | _over_repeats(gap) | _ends(ends)
    found["coverage"] = float(measured.coverage.mean())
    found["groups"] = groups
    found["unparsed"] = dict(Counter(a.reason[np.isnan(a.answer)].tolist()))
    found["treatments"] = _treatments(cells)
    found["reasons"] = _reasons(cells, measured)
    found["probabilities"] = probability_statistics(a)
    found["flips"] = _flips(run, arm)
    found["by_attribute"] = _by_attribute(run, a)
    return found


def _over_repeats(values: Floats) -> dict[str, Any]:
    sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return {"value": float(values.mean()), "sd": sd, "per_repeat": values.tolist()}


def _ends(interval: Interval) -> dict[str, float]:
    return {"low": interval[0], "high": interval[1]}


def _pooled(cells: Cells) -> tuple[Floats, Floats]:
    """Parsed and yes answers per group (G,) over all repeats, a row asked twice counting once."""
    counts = (cells.counts * cells.distinct[None, :, :, None]).sum((0, 2))
    return counts[:, NO] + counts[:, YES], counts[:, YES]


def _interval(metric: str, cells: Cells, measured: Measures, drawn: Measures) -> Interval:
    """The metric's 95 % interval: of the gaps it is that of the rates averaged over repeats."""
    if metric == "accuracy":
        counts = (cells.counts * cells.distinct[None, :, :, None]).sum((0, 1))
        return wilson(counts[0, NO] + counts[1, YES], counts[:, :2].sum())
    if metric == "equalized_odds_difference":
        kinds = (measured.true_positive_rates, measured.false_positive_rates)
        low, high = spread_interval(
            [rates.mean(0) for rates in kinds], [drawn.true_positive_rates, drawn.false_positive_rates]
        )
        return low, min(1.0, high)
    rates = measured.rates.mean(0)
    if metric == "demographic_parity_difference":
        low, high = spread_interval([rates], [drawn.rates])
        return low, min(1.0, high)
    if len(cells.groups) == 2:
        return _ratio_of_two(cells)
    with np.errstate(divide="ignore"):
        low, high = spread_interval([np.log(rates)], [np.log(drawn.rates)])
    return math.exp(-high), math.exp(-low)


def _ratio_of_two(cells: Cells) -> Interval:
    parsed, yes = _pooled(cells)
    if (parsed == 0).any():
        return NOWHERE
    low, high = np.argsort(yes / parsed, kind="stable")
    return ratio_interval(yes[low], parsed[low], yes[high], parsed[high])


def _group_statistics(cells: Cells, measured: Measures) -> dict[str, Any]:
    parsed, yes = _pooled(cells)
    asked = (cells.counts * cells.distinct[None, :, :, None]).sum((0, 2, 3))
    size = cells.counts.sum((0, 2, 3))
    found = {}
    for place, name in enumerate(cells.groups):
        found[name] = {
            "n": int(size[place]),
            "small": bool(size[place] / len(cells.counts) < SMALL),
            "rate": float(measured.rates[:, place].mean()),
            **_ends(wilson(yes[place], parsed[place])),
            "true_positive_rate": float(measured.true_positive_rates[:, place].mean()),
            "false_positive_rate": float(measured.false_positive_rates[:, place].mean()),
            "coverage": float(measured.coverage_by_group[:, place].mean()),
            "coverage_low": wilson(parsed[place], asked[place])[0],
            "coverage_high": wilson(parsed[place], asked[place])[1],
        }
    return found


def _treatments(cells: Cells) -> dict[str, Any]:
    """Each metric with unparsed answers dropped, as no, as yes, and its worst-case bounds."""
    found: dict[str, Any] = {}
    for treatment in TREATMENTS:
        measured = treated(cells.counts, treatment)
        found[treatment] = {metric: float(getattr(measured, metric).mean()) for metric in METRICS}
    found["worst case"] = {metric: list(ends) for metric, ends in bounds(cells.counts).items()}
    return found


def _reasons(cells: Cells, measured: Measures) -> dict[str, str]:
    """Why a metric is undefined, in the words of `group_metrics`."""
    found: dict[str, str] = {}
    for repeat in range(len(cells.counts)):
        one = Measures(**{name: values[repeat : repeat + 1] for name, values in vars(measured).items()})
        for metric, reason in undefined_reasons(one, cells.groups):
            where = f" in repeat {repeat + 1}" if len(cells.counts) > 1 else ""
            found.setdefault(metric, reason + where)
    return found


def _split_variances(run: Answered, cells: Mapping[str, Cells], arms: list[dict[str, Any]]) -> None:
    """Add `variance` to each arm: by rows, examples, and (for arms that differ in it alone) order."""
    sources = run.sources
    for found in arms:
        arm = found["arm"]
        family = [a for a in arms if sources.get(a["arm"], a["arm"]) == sources.get(arm, arm)]
        # Of R repeats' mean the variance over rows is one repeat's, divided by R.
        alone = Cells(cells[arm].counts, cells[arm].groups, np.ones_like(cells[arm].distinct))
        drawn = resample(alone, 1000)
        found["variance"] = {}
        for metric in ("accuracy", "demographic_parity_difference"):
            values = [a[metric]["per_repeat"] for a in family]
            rows = float(np.var(getattr(drawn, metric))) * len(alone.counts)
            found["variance"][metric] = vars(split_variance(values, rows))


def _flips(run: Answered, arm: str) -> list[dict[str, Any]]:
    """The counterfactual probe: every changed row against the row as it is."""
    if arm not in run.counterfactuals:
        return []
    changed, factual = run.counterfactuals[arm], run.answers[arm]
    place = {key: index for index, key in enumerate(factual.key.tolist())}
    known = np.array([key in place for key in changed.key.tolist()])
    changed = changed.where(known)
    twin = factual.where(np.array([place[key] for key in changed.key.tolist()], dtype=np.intp))
    told_as = [variant.partition(":")[2] for variant in changed.variant.tolist()]
    return [
        vars(one) | {"interval": list(one.interval)}
        for one in flips(twin.answer, changed.answer, changed.group, told_as)
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
        level = np.array([group.split(" & ")[place] for group in a.group.tolist()])
        measured = mean_over_repeats(measure(count_cells(a.answer, a.label, level, repeats=a.repeat).counts))
        levels = sorted(set(level.tolist()))
        found.append(
            {
                "attribute": str(name),
                "rates": dict(zip(levels, measured.rates.tolist(), strict=True)),
                "sizes": {one: int((level == one).sum()) for one in levels},
                **{metric: float(getattr(measured, metric)) for metric in METRICS},
            }
        )
    return found


def _context(a: Answers, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    """Answers that need no model, on the same rows: each repeat by itself, then averaged."""
    found: dict[str, Floats] = {}
    for repeat in np.unique(a.repeat):
        here = a.repeat == repeat
        for name, answers in constant_answers(a.label[here], a.group[here]).items():
            found.setdefault(name, np.empty(len(a)))[here] = answers
    rows = []
    for name, answers in found.items():
        measured = mean_over_repeats(measure(count_cells(answers, a.label, a.group, groups, a.repeat).counts))
        rows.append({"name": name, **{metric: float(getattr(measured, metric)) for metric in METRICS}})
    return rows


def _notes(run: Answered, cells: Mapping[str, Cells], found: Mapping[str, Any]) -> list[str]:
    """What a reader must know before believing a number."""
    notes = []
    for group in found["groups"]:
        per_repeat = group["n"] / len(next(iter(cells.values())).counts)
        if per_repeat < SMALL:
            notes.append(
                f"Group {group['group']} has {per_repeat:g} rows a repeat: too few to say much about it."
            )
    share = min(float(one.distinct.min()) for one in cells.values())
    if share < 1:
        notes.append(
            "Repeats share test rows; intervals and tests count a row once, however often it was asked."
        )
    if len(run.groups) < 2:
        notes.append("All rows are of one group: there is no disparity to measure.")
    if len(run.arms) < 2:
        notes.append("The run has one arm: there is nothing to compare it with.")
    for arm in found["arms"]:
        silent = [name for name, group in arm["groups"].items() if group["coverage"] == 0]
        if silent:
            notes.append(f"{arm['arm']}: no parsed answer in group {' and '.join(silent)}.")
    unanswered = sum(arm["unanswered"] for arm in found["arms"])
    if unanswered:
        have = "question has" if unanswered == 1 else "questions have"
        notes.append(f"{unanswered} {have} no reply at all and count{'s' * (unanswered == 1)} as unparsed.")
    return notes


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
