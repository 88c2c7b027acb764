"""The numbers of the main table: accuracy, demographic parity, equalized odds, rates and coverage.

Everything is over parsed answers, with the coverage beside it (docs/protocol.md,
"Metrics"). What is not defined is NaN, never 0, and `reasons` says why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import Floats, Measures, count_cells, measure


@dataclass(frozen=True)
class GroupMetrics:
    """What n answers say about accuracy and fairness. Shares, not percent; NaN where undefined.

    `rates`, `true_positive_rates` and `false_positive_rates` are shares of "yes" per group: among all
    parsed answers, among those whose label is yes, and among those whose label is no. `sizes` counts rows,
    parsed or not. `reasons` has one sentence for every metric that is NaN.
    """

    n: int
    coverage: float
    accuracy: float
    demographic_parity_difference: float
    demographic_parity_ratio: float
    equalized_odds_difference: float
    rates: Mapping[str, float]
    true_positive_rates: Mapping[str, float]
    false_positive_rates: Mapping[str, float]
    coverage_by_group: Mapping[str, float]
    sizes: Mapping[str, int]
    reasons: Mapping[str, str] = field(default_factory=dict)


def group_metrics(
    predicted: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    order: Sequence[str] | None = None,
) -> GroupMetrics:
    """Return accuracy and fairness of n answers.

    `predicted` (n,) is 1 for yes, 0 for no, NaN for an unparsed answer; `labels` (n,) 0 or 1; `groups` (n,)
    protected levels. `order` names the groups in the order wanted, those without rows included (default:
    sorted). The demographic parity difference is the largest rate minus the smallest, the ratio the
    smallest over the largest, and equalized odds the larger of the gap in true and in false positive rates
    (docs/protocol.md, "Metrics"; the same definitions as fairlearn's). Raises `FwcError` for arrays that do
    not fit.
    """
    cells = count_cells(predicted, labels, groups, order)
    found = measure(cells.counts)

    def per_group(values: Floats) -> dict[str, float]:
        return {name: float(value) for name, value in zip(cells.groups, values[0], strict=True)}

    sizes = cells.counts.sum((0, 2, 3))
    return GroupMetrics(
        n=int(cells.counts.sum()),
        coverage=float(found.coverage[0]),
        accuracy=float(found.accuracy[0]),
        demographic_parity_difference=float(found.demographic_parity_difference[0]),
        demographic_parity_ratio=float(found.demographic_parity_ratio[0]),
        equalized_odds_difference=float(found.equalized_odds_difference[0]),
        rates=per_group(found.rates),
        true_positive_rates=per_group(found.true_positive_rates),
        false_positive_rates=per_group(found.false_positive_rates),
        coverage_by_group=per_group(found.coverage_by_group),
        sizes={name: int(size) for name, size in zip(cells.groups, sizes, strict=True)},
        reasons=dict(undefined_reasons(found, cells.groups)),
    )


def undefined_reasons(found: Measures, groups: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (metric, sentence) for each metric of one repeat's measures that is undefined."""
    parity = ("demographic_parity_difference", "demographic_parity_ratio")
    if np.isnan(found.accuracy[0]):
        yield "accuracy", "no answer could be parsed"
    if len(groups) < 2:
        for metric in (*parity, "equalized_odds_difference"):
            yield metric, "it takes two groups to differ"
        return
    if silent := [name for name, rate in zip(groups, found.rates[0], strict=True) if np.isnan(rate)]:
        for metric in parity:
            yield metric, f"no parsed answer in group {' and '.join(silent)}"
    elif np.isnan(found.demographic_parity_ratio[0]):
        yield "demographic_parity_ratio", "no group was answered yes even once"
    sides = (("yes", found.true_positive_rates[0]), ("no", found.false_positive_rates[0]))
    empty = [
        f"{name} with label {label}"
        for label, rates in sides
        for name, rate in zip(groups, rates, strict=True)
        if np.isnan(rate)
    ]
    if empty:
        yield "equalized_odds_difference", f"no parsed answer for {', '.join(empty)}"
