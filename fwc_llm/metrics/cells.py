"""Answers as counts per repeat, group, label and answer: all that any group metric needs.

A metric's value depends on the answers only through these counts. How sure it is depends on the rows as well:
`sample`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]
Strings = npt.NDArray[np.str_]

NO, YES, UNPARSED = 0, 1, 2
_RATES = ("rates", "true_positive_rates", "false_positive_rates", "coverage_by_group")


# The headline metrics, in the order of every table.
METRICS = (
    "accuracy",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
)


@dataclass(frozen=True)
class Cells:
    """Counts (R, G, 2, 3): repeat, group, label (no, yes), answer (no, yes, unparsed)."""

    counts: Floats
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Measures:
    """Every metric of counts (..., R, G, 2, 3): arrays (..., R), per group (..., R, G); NaN if undefined."""

    accuracy: Floats
    coverage: Floats
    demographic_parity_difference: Floats
    demographic_parity_ratio: Floats
    equalized_odds_difference: Floats
    rates: Floats
    true_positive_rates: Floats
    false_positive_rates: Floats
    coverage_by_group: Floats


def count_cells(
    predicted: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    order: Sequence[str] | None = None,
    repeats: npt.ArrayLike | None = None,
) -> Cells:
    """Count n answers: `predicted` 1, 0 or NaN; `labels` 1 or 0; `groups` and `repeats` names.

    `order` names the groups in the order wanted, those without rows included (default: sorted); without
    `repeats` all answers are of one. Raises `FwcError` for arrays that do not fit.
    """
    yes, truth, level = checked_answers(predicted, labels, groups)
    levels, place = levels_of(level)
    names = group_order(levels, order)
    member = np.array([names.index(name) for name in levels], dtype=np.intp)[place]
    repeat = np.zeros(len(yes), dtype=np.intp)
    if repeats is not None:
        repeat = np.unique(np.asarray(repeats), return_inverse=True)[1]
    answer = np.where(np.isnan(yes), UNPARSED, yes).astype(np.intp)
    shape = int(repeat.max()) + 1, len(names), 2, 3
    cell = np.ravel_multi_index((repeat, member, truth, answer), shape)
    counts = np.bincount(cell, minlength=int(np.prod(shape))).astype(np.float64).reshape(shape)
    return Cells(counts, tuple(names))


def measure(counts: Floats) -> Measures:
    """Return every metric of counts (..., R, G, 2, 3), for as many resamples at once as the array holds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parsed = counts[..., NO] + counts[..., YES]
        yes = counts[..., YES]
        right = counts[..., 0, NO] + counts[..., 1, YES]
        asked = counts.sum(axis=(-1, -2))
        rates = yes.sum(-1) / parsed.sum(-1)
        true_positive, false_positive = (yes / parsed)[..., 1], (yes / parsed)[..., 0]
        return Measures(
            accuracy=right.sum(-1) / parsed.sum((-1, -2)),
            coverage=parsed.sum((-1, -2)) / asked.sum(-1),
            demographic_parity_difference=_spread(rates),
            demographic_parity_ratio=_ratio(rates),
            equalized_odds_difference=np.maximum(_spread(true_positive), _spread(false_positive)),
            rates=rates,
            true_positive_rates=true_positive,
            false_positive_rates=false_positive,
            coverage_by_group=parsed.sum(-1) / asked,
        )


def overall(counts: Floats) -> Measures:
    """Return the metrics of all repeats together, as one repeat's: gaps and ratios are those of the mean
    rates.

    A rate is the mean over the repeats in which it is defined. The mean of every repeat's |gap| is another
    quantity, larger the fewer rows a repeat has (docs/statistics.md, "The paper's summary").
    """
    each = measure(counts)
    means = {name: _mean(getattr(each, name)) for name in (*_RATES, "accuracy", "coverage")}
    rates = means["rates"]
    return Measures(
        **means,
        demographic_parity_difference=_spread(rates),
        demographic_parity_ratio=_ratio(rates),
        equalized_odds_difference=np.maximum(
            _spread(means["true_positive_rates"]), _spread(means["false_positive_rates"])
        ),
    )


def _mean(values: Floats) -> Floats:
    """The mean over repeats, an axis of one left in their place; NaN only where no repeat has a value."""
    known = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(known, values, 0.0).sum(0, keepdims=True)
        return np.asarray(total / known.sum(0, keepdims=True))


def _ratio(rates: Floats) -> Floats:
    """Smallest over largest rate of the last axis; undefined for one group, and where no rate is above 0."""
    highest = rates.max(-1)
    if rates.shape[-1] < 2:
        return np.full(highest.shape, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(rates.min(-1) / highest)


def _spread(rates: Floats) -> Floats:
    """Largest minus smallest rate over the last axis; undefined for one group."""
    if rates.shape[-1] < 2:
        return np.full(rates.shape[:-1], np.nan)
    return np.asarray(rates.max(-1) - rates.min(-1))


def checked_answers(
    predicted: npt.ArrayLike, labels: npt.ArrayLike, groups: Any
) -> tuple[Floats, Labels, Any]:
    """Return the three arrays with their proper types, or raise `FwcError` saying what does not fit."""
    try:
        yes = np.asarray(predicted, dtype=np.float64)
        truth = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise FwcError(
            "answers and labels must be numbers: 1 for yes, 0 for no, NaN for an unparsed answer"
        ) from None
    level = groups if hasattr(groups, "categories") else np.asarray(groups).astype(np.str_)
    if not yes.shape == truth.shape == np.shape(level) or yes.ndim != 1:
        shapes = f"{yes.shape}, {truth.shape}, {np.shape(level)}"
        raise FwcError(f"answers, labels and groups must be lists of one length, not {shapes}")
    if not len(yes):
        raise FwcError("there are no answers to measure")
    if not np.isin(yes[~np.isnan(yes)], (0.0, 1.0)).all():
        raise FwcError("an answer is 1 (yes), 0 (no) or NaN (unparsed): something else was given")
    if not np.isin(truth, (0.0, 1.0)).all():
        raise FwcError("a label is 1 (yes) or 0 (no): something else was given")
    return yes, truth.astype(np.int8), level


def levels_of(names: Any) -> tuple[list[str], Codes]:
    """Return the names (n,) that occur, in order, and the place of each: of texts or of categories."""
    if hasattr(names, "categories"):
        present = np.flatnonzero(np.bincount(names.codes, minlength=len(names.categories)))
        texts = [str(text) for text in names.categories[present]]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        place = np.zeros(len(names.categories), dtype=np.int64)
        place[present[order]] = np.arange(len(order))
        return [texts[number] for number in order], place[names.codes]
    found, place = np.unique(np.asarray(names).astype(np.str_), return_inverse=True)
    return found.tolist(), place.ravel().astype(np.int64, copy=False)


def group_order(present: list[str], order: Sequence[str] | None) -> list[str]:
    """Return the group names in the order asked for, or sorted; refuse rows of a group not in `order`."""
    if order is None:
        return present
    strangers = [name for name in present if name not in order]
    if strangers:
        raise FwcError(f"rows belong to group {strangers[0]!r}, which is not among {', '.join(order)}")
    return [str(name) for name in order]
