"""The numbers of the main table: accuracy, demographic parity, equalized odds, rates and coverage.

Everything is over parsed answers, with the coverage beside it (protocol.md, "Facts that decide the
numbers"). What is not defined is NaN, never 0, and `reasons` says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int8]
Groups = npt.NDArray[np.str_]


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
    groups: npt.ArrayLike,
    order: Sequence[str] | None = None,
) -> GroupMetrics:
    """Return accuracy and fairness of n answers.

    `predicted` (n,) is 1 for yes, 0 for no, NaN for an unparsed answer; `labels` (n,) 0 or 1; `groups` (n,)
    protected levels. `order` names the groups in the order wanted, those without rows included (default:
    sorted). The demographic parity difference is the largest rate minus the smallest, the ratio the
    smallest over the largest, and equalized odds the larger of the gap in true and in false positive rates
    (protocol.md, "Ours"; the same definitions as fairlearn's). Raises `FwcError` for arrays that do not fit.
    """
    yes, truth, level = checked_answers(predicted, labels, groups)
    names = group_order(level, order)
    parsed = ~np.isnan(yes)
    member = {name: level == name for name in names}
    rates = {name: _share(yes, rows & parsed) for name, rows in member.items()}
    true_positive = {name: _share(yes, rows & parsed & (truth == 1)) for name, rows in member.items()}
    false_positive = {name: _share(yes, rows & parsed & (truth == 0)) for name, rows in member.items()}

    reasons: dict[str, str] = {}
    accuracy = float(np.mean(yes[parsed] == truth[parsed])) if parsed.any() else np.nan
    if np.isnan(accuracy):
        reasons["accuracy"] = "no answer could be parsed"
    difference, ratio = rate_metrics(rates, reasons)
    return GroupMetrics(
        n=len(yes),
        coverage=float(parsed.mean()),
        accuracy=accuracy,
        demographic_parity_difference=difference,
        demographic_parity_ratio=ratio,
        equalized_odds_difference=_odds_difference(true_positive, false_positive, reasons),
        rates=rates,
        true_positive_rates=true_positive,
        false_positive_rates=false_positive,
        coverage_by_group={
            name: float(parsed[rows].mean()) if rows.any() else np.nan for name, rows in member.items()
        },
        sizes={name: int(rows.sum()) for name, rows in member.items()},
        reasons=reasons,
    )


def rate_metrics(rates: Mapping[str, float], reasons: dict[str, str] | None = None) -> tuple[float, float]:
    """Return the demographic parity difference and ratio of group rates; NaN where a rate is missing.

    `reasons`, when given, gains an entry for each that is NaN.
    """
    why = {} if reasons is None else reasons
    silent = [name for name, rate in rates.items() if np.isnan(rate)]
    reason = ""
    if len(rates) < 2:
        reason = "it takes two groups to differ"
    elif silent:
        reason = f"no parsed answer in group {' and '.join(silent)}"
    if reason:
        why["demographic_parity_difference"] = why["demographic_parity_ratio"] = reason
        return np.nan, np.nan
    low, high = min(rates.values()), max(rates.values())
    if high == 0.0:
        why["demographic_parity_ratio"] = "no group was answered yes even once"
        return 0.0, np.nan
    return high - low, low / high


def _odds_difference(
    true_positive: Mapping[str, float], false_positive: Mapping[str, float], reasons: dict[str, str]
) -> float:
    cells = [
        (name, word, rates[name])
        for word, rates in (("yes", true_positive), ("no", false_positive))
        for name in rates
    ]
    empty = [f"{name} with label {word}" for name, word, rate in cells if np.isnan(rate)]
    if len(true_positive) < 2:
        reasons["equalized_odds_difference"] = "it takes two groups to differ"
        return np.nan
    if empty:
        reasons["equalized_odds_difference"] = f"no parsed answer for {', '.join(empty)}"
        return np.nan
    gaps = [max(rates.values()) - min(rates.values()) for rates in (true_positive, false_positive)]
    return max(gaps)


def _share(yes: Floats, rows: npt.NDArray[np.bool_]) -> float:
    return float(yes[rows].mean()) if rows.any() else np.nan


def checked_answers(
    predicted: npt.ArrayLike, labels: npt.ArrayLike, groups: npt.ArrayLike
) -> tuple[Floats, Labels, Groups]:
    """Return the three arrays with their proper types, or raise `FwcError` saying what does not fit."""
    try:
        yes = np.asarray(predicted, dtype=np.float64)
        truth = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise FwcError(
            "answers and labels must be numbers: 1 for yes, 0 for no, NaN for an unparsed answer"
        ) from None
    level = np.asarray(groups).astype(np.str_)
    if not yes.shape == truth.shape == level.shape or yes.ndim != 1:
        raise FwcError(
            "answers, labels and groups must be lists of one length, "
            f"not {yes.shape}, {truth.shape}, {level.shape}"
        )
    if not len(yes):
        raise FwcError("there are no answers to measure")
    if not np.isin(yes[~np.isnan(yes)], (0.0, 1.0)).all():
        raise FwcError("an answer is 1 (yes), 0 (no) or NaN (unparsed): something else was given")
    if not np.isin(truth, (0.0, 1.0)).all():
        raise FwcError("a label is 1 (yes) or 0 (no): something else was given")
    return yes, truth.astype(np.int8), level


def group_order(groups: Groups, order: Sequence[str] | None) -> list[str]:
    """Return the group names in the order asked for, or sorted; refuse rows of a group not in `order`."""
    present = sorted({str(name) for name in groups})
    if order is None:
        return present
    strangers = [name for name in present if name not in order]
    if strangers:
        raise FwcError(f"rows belong to group {strangers[0]!r}, which is not among {', '.join(order)}")
    return [str(name) for name in order]
