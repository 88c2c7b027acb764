"""The table of rates and metrics that everything reads, and their values from counts of answers.

A metric's value depends on the answers only through counts per repeat, group, label and answer. Everything is
over parsed answers, with the coverage beside it; what is not defined is NaN, never 0, and a sentence says why
(docs/statistics.md, "What is estimated"). How sure a value is depends on the rows as well: `variance`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]

NO, YES, UNPARSED = 0, 1, 2


@dataclass(frozen=True)
class Rate:
    """A share of answers: which kinds (2, 3), label (no, yes) by answer (no, yes, unparsed), are hits, of
    those that are `counted`. `among` says of what, where nothing is.
    """

    hits: npt.NDArray[np.bool_]
    counted: npt.NDArray[np.bool_]
    among: str

    @property
    def of_answers(self) -> bool:
        """Whether the answer decides what is counted, as in a precision."""
        return bool((self.counted[:, NO] != self.counted[:, YES]).any())


def _kinds(no: str, yes: str) -> npt.NDArray[np.bool_]:
    return np.array([[letter == "x" for letter in row] for row in (no, yes)])


# Columns: answered no, answered yes, not parsed; first the rows with label no, then those with label yes.
RATES: Mapping[str, Rate] = {
    "accuracy": Rate(_kinds("x..", ".x."), _kinds("xx.", "xx."), "parsed answer"),
    "coverage": Rate(_kinds("xx.", "xx."), _kinds("xxx", "xxx"), "answer"),
    "rate": Rate(_kinds(".x.", ".x."), _kinds("xx.", "xx."), "parsed answer"),
    "true_positive_rate": Rate(_kinds("...", ".x."), _kinds("...", "xx."), "parsed answer with label yes"),
    "false_positive_rate": Rate(_kinds(".x.", "..."), _kinds("xx.", "..."), "parsed answer with label no"),
    "precision": Rate(_kinds("...", ".x."), _kinds(".x.", ".x."), "yes"),
}


@dataclass(frozen=True)
class Metric:
    """A number of an arm: its key in documents, its name in gates and its title in tables.

    `kind`: the "share" of all answers, or the "gap" (largest less smallest) or "ratio" (smallest over
    largest) of the groups' `rates`, the largest gap of several. `source`: rates of answers, of P(yes), or of
    replies, whether they hold an answer or not. `headline` metrics stand in every table. Values are
    multiplied by `scale` and shown with `digits`.
    """

    key: str
    gate: str
    title: str
    kind: Literal["share", "gap", "ratio"]
    rates: tuple[str, ...]
    headline: bool = False
    source: Literal["answers", "p_yes", "replies"] = "answers"
    scale: int = 1
    digits: int = 3

    @property
    def equal(self) -> float:
        """The value of groups that are treated alike."""
        return 1.0 if self.kind == "ratio" else 0.0


_ODDS = "true_positive_rate", "false_positive_rate"
TABLE: tuple[Metric, ...] = (
    Metric("accuracy", "accuracy", "Accuracy %", "share", ("accuracy",), True, scale=100, digits=2),
    Metric("demographic_parity_difference", "dp", "DP gap", "gap", ("rate",), True),
    Metric("demographic_parity_ratio", "dp_ratio", "DP ratio", "ratio", ("rate",), True, digits=2),
    Metric("equalized_odds_difference", "eo", "EO gap", "gap", _ODDS, True),
    Metric("equal_opportunity_difference", "equal_opportunity", "TPR gap", "gap", _ODDS[:1]),
    Metric("false_positive_rate_difference", "fpr", "FPR gap", "gap", _ODDS[1:]),
    Metric("predictive_parity_difference", "ppv", "Precision gap", "gap", ("precision",)),
    Metric("auc_difference", "auc", "AUC gap", "gap", ("auc",), source="p_yes"),
    Metric("brier_difference", "brier", "Brier gap", "gap", ("brier",), source="p_yes"),
)
REPLY_RATES = "coverage", "refused", "filtered"  # of all replies, with and without an answer
REPLIES: tuple[Metric, ...] = (
    Metric(
        "coverage", "coverage", "Coverage %", "share", ("coverage",), source="replies", scale=100, digits=1
    ),
    Metric("coverage_difference", "coverage_gap", "Coverage gap", "gap", ("coverage",), source="replies"),
    Metric("refusals", "refusals", "Refused %", "share", ("refused",), source="replies", scale=100, digits=1),
    Metric("refusals_difference", "refusals_gap", "Refusals gap", "gap", ("refused",), source="replies"),
    Metric(
        "filtered", "filtered", "Filtered %", "share", ("filtered",), source="replies", scale=100, digits=1
    ),
    Metric("filtered_difference", "filtered_gap", "Filtered gap", "gap", ("filtered",), source="replies"),
)
BY_KEY: Mapping[str, Metric] = {metric.key: metric for metric in (*TABLE, *REPLIES)}
OVERALL_RATES = "accuracy", "coverage"  # rates of all answers together
METRICS: tuple[str, ...] = tuple(metric.key for metric in TABLE if metric.headline)
COUNTED: tuple[Metric, ...] = tuple(metric for metric in TABLE if metric.source == "answers")


class Measures(NamedTuple):
    """Metrics of counts, and the "coverage", in `values` by key (R,); `rates` by name (R, G)."""

    values: Mapping[str, Floats]
    rates: Mapping[str, Floats]


def count_cells(
    predicted: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    order: Sequence[str] | None = None,
    repeats: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
) -> tuple[Floats, tuple[str, ...]]:
    """Count n answers: `predicted` 1, 0 or NaN; `labels` 1 or 0; `groups` and `repeats` names.

    Returns counts (R, G, 2, 3) by repeat, group, label and answer, weighted where rows have weights, and the
    groups. `order` names the groups in the order wanted, those without rows included (default: sorted);
    without `repeats` all answers are of one.
    """
    yes, truth = np.asarray(predicted, np.float64), np.asarray(labels, np.intp)
    names, member = levels_of(groups)
    if order is not None:
        number = {str(name): place for place, name in enumerate(order)}
        member, names = np.array([number[name] for name in names], dtype=np.int64)[member], list(number)
    repeat = np.zeros(len(yes), dtype=np.intp)
    if repeats is not None:
        repeat = np.unique(np.asarray(repeats), return_inverse=True)[1]
    answer = np.where(np.isnan(yes), UNPARSED, yes).astype(np.intp)
    shape = int(repeat.max()) + 1, len(names), 2, 3
    cell = np.ravel_multi_index((repeat, member, truth, answer), shape)
    weight = None if weights is None else np.asarray(weights, np.float64)
    counts = np.bincount(cell, weight, int(np.prod(shape))).astype(np.float64).reshape(shape)
    return counts, tuple(names)


def measure(counts: Floats) -> Measures:
    """Return every metric of counts (R, G, 2, 3), repeat by repeat."""
    each = {name: _share(rate, counts, (-1, -2)) for name, rate in RATES.items()}
    return _measures(each, {name: _share(RATES[name], counts, (-1, -2, -3)) for name in OVERALL_RATES})


def overall(counts: Floats) -> Measures:
    """Return the metrics of all repeats together, as one repeat's: gaps and ratios are those of the mean
    rates.

    A rate is the mean over the repeats in which it is defined. The mean of every repeat's |gap| is another
    quantity, larger the fewer rows a repeat has (docs/statistics.md, "What is estimated").
    """
    each = measure(counts)
    rates = {name: mean_of_known(rates) for name, rates in each.rates.items()}
    return _measures(rates, {name: mean_of_known(each.values[name]) for name in OVERALL_RATES})


def _share(rate: Rate, counts: Floats, axes: tuple[int, ...]) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        hits, counted = (np.where(kinds, counts, 0.0).sum(axes) for kinds in (rate.hits, rate.counted))
        return np.asarray(hits / counted)


def _measures(rates: Mapping[str, Floats], of_all: Mapping[str, Floats]) -> Measures:
    return Measures({**of_all, **{metric.key: value_of(metric, rates, of_all) for metric in COUNTED}}, rates)


def value_of(metric: Metric, rates: Mapping[str, Floats], whole: Mapping[str, Floats]) -> Floats:
    """Return a metric (...) of the groups' rates (..., G) by name, and of the shares (...) of `whole`.

    Gaps and ratios are undefined for one group, a ratio also where no rate is above 0.
    """
    if metric.kind == "share":
        return whole[metric.rates[0]]
    each = [rates[name] for name in metric.rates]
    if each[0].shape[-1] < 2:
        return np.full(each[0].shape[:-1], np.nan)
    if metric.kind == "gap":
        return np.asarray(np.maximum.reduce([np.ptp(rate, axis=-1) for rate in each]))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(each[0].min(-1) / each[0].max(-1))


def mean_of_known(values: Floats) -> Floats:
    """Nanmean over repeats (the axis is kept); NaN where all are missing."""
    known = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(0, keepdims=True) / known.sum(0, keepdims=True))


def levels_of(names: Any) -> tuple[list[str], Codes]:
    """Return the names (n,) that occur, in order, and the place of each: of texts or of categories."""
    import pandas as pd

    if hasattr(names, "categories"):
        occurs = np.bincount(names.codes, minlength=len(names.categories)) > 0
        code, texts = (np.cumsum(occurs) - 1)[names.codes], names.categories[occurs]
    else:
        code, different = pd.factorize(np.asarray(names), use_na_sentinel=False)
        place, texts = pd.factorize(pd.Index(different.astype(np.str_), dtype="str"))
        code = place[code]
    order = texts.argsort()
    return texts[order].tolist(), np.argsort(order)[code]


def undefined_reasons(values: Measures, groups: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (metric, sentence) for each metric of one repeat's measures that is undefined."""
    for metric in COUNTED:
        if not np.isnan(values.values[metric.key][0]):
            continue
        empty = {
            name: [group for group, rate in zip(groups, values.rates[name][0], strict=True) if np.isnan(rate)]
            for name in metric.rates
        }
        if metric.kind == "share":
            yield metric.key, "no answer could be parsed"
        elif len(groups) < 2:
            yield metric.key, "it takes two groups to differ"
        elif silent := [
            f"no {RATES[name].among} in group {' and '.join(g)}" for name, g in empty.items() if g
        ]:
            yield metric.key, "; ".join(silent)
        else:
            yield metric.key, "no group was answered yes even once"
