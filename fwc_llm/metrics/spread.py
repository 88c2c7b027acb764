"""The sources of a value's spread: rows, examples, order, wording, and asking again.

See docs/statistics.md, "Where the spread comes from". Estimates by the method of moments, each unbiased; they
can fall below 0. Only that of examples has an interval: the others are of few levels, or as sure as the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from fwc_llm.metrics.counts import Codes, Floats, mean_of_known
from fwc_llm.metrics.intervals import LEVEL, NOWHERE, Interval, mover

PARTS = ("rows", "examples", "order", "wording", "order_and_wording", "repetition")
_LEAST_FREEDOM = 4  # below it a variance's interval spans two orders of magnitude
Contributions = tuple[Floats, Codes]  # of units to a variance, and their rows


@dataclass(frozen=True)
class Asked:
    """The answers of one family: n questions, each under every order and wording.

    `answer` (O, T, n) is 1, 0 or NaN. Of the questions: `repeat` and `row` (n,) count from 0, `stratum` (n,)
    is what the design fixed. A row that stands more than once in a repeat was asked again.
    """

    answer: Floats
    repeat: Codes
    row: Codes
    stratum: Codes


def split_variance(shares: Sequence[tuple[float, Asked]]) -> tuple[dict[str, float], Interval]:
    """Return the parts (`PARTS`) of the variance of one repeat's value, and the interval of `examples`.

    What was not varied is NaN. The value is a sum of shares of yes, each with its factor (1 of all rows; 1
    and −1 of two groups).

    * `repetition`: the same prompts asked again. From the answers to each row.
    * `rows`: other rows of the same design, by the average answer to each over all ways of asking. Where
      nothing was asked again, chance in the single answers is not told apart from it.
    * `examples`: another draw of the examples; what is left of the spread over repeats of the average value.
    * `order`, `wording`: others of those that were asked, averaged over the other one of both.
    * `order_and_wording`: that orders matter more in one wording than in another.
    """
    number = max(int(asked.repeat.max(initial=-1)) + 1 for _, asked in shares)
    by_repeat = [factor * _means(asked.answer, asked.repeat, number)[0] for factor, asked in shares]
    values = np.sum(by_repeat, axis=0)
    values = values[..., ~np.isnan(values).any((0, 1))]  # (O, T, R)
    orders, wordings, repeats = values.shape
    parts, interval = dict.fromkeys(PARTS, np.nan), NOWHERE
    if not repeats:
        return parts, interval
    units = [_Units(factor, asked) for factor, asked in shares]
    sampled = sum(len(asked.row) for _, asked in shares) / sum(len(unit.row) for unit in units)
    if sampled > 1:
        parts["repetition"] = sum(unit.independent(unit.within, unit.parsed) for unit in units)
    chance = max(0.0, np.nan_to_num(parts["repetition"]) / sampled)  # in the mean over samples
    rows = [unit.over_rows() for unit in units]
    over_rows = float(sum(part.sum() for part, _ in rows))
    if any(len(part) for part, _ in rows):
        # Of one way of asking, as long as it is not known what asking again does.
        single = 1.0 - 1.0 / (orders * wordings)
        beside = (unit.independent(-unit.due if sampled > 1 else unit.across * single) for unit in units)
        parts["rows"] = over_rows + float(sum(beside))
    if repeats > 1:
        between = float(values.mean((0, 1)).var(ddof=1))
        parts["examples"] = between - over_rows
        interval = _difference(between, _limits(between, repeats - 1), over_rows, _limits_of_rows(rows))
    if orders > 1:
        parts["order"] = float(values.mean(1).var(0, ddof=1).mean()) - chance / wordings
    if wordings > 1:
        parts["wording"] = float(values.mean(0).var(0, ddof=1).mean()) - chance / orders
    if orders > 1 and wordings > 1:
        parts["order_and_wording"] = float(_interaction(values).mean()) - chance
    return parts, interval


def _means(answer: Floats, unit: Codes, number: int) -> tuple[Floats, Floats]:
    """The mean answer (O, T, U) under each way of asking about each unit, and the answers that it is of."""
    shape = (*answer.shape[:2], number)
    place = np.arange(shape[0] * shape[1]).reshape(*shape[:2], 1) * number + unit
    known = ~np.isnan(answer)
    size = int(np.prod(shape))
    count = np.bincount(place[known], minlength=size).reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(place[known], answer[known], size).reshape(shape) / count
    return mean, count


def _interaction(values: Floats) -> Floats:
    """The variance (...,) of what orders and wordings (O, T, ...) do together."""
    left = values - values.mean(0) - values.mean(1)[:, None] + values.mean((0, 1))
    return np.asarray((left**2).sum((0, 1)) / ((len(values) - 1) * (values.shape[1] - 1)))


class _Units:
    """Rows within repeats, U of them: a row's mean answer and the variance of its answers to one prompt.

    `across` is the variance of its answers over all ways of asking, each less the way's mean, and `due` what
    such differences and chance add to that of its mean answer. All are (U,), NaN where unknown. `parsed`
    (R,) counts the answers to one prompt each that a repeat has, `factor` is that of the share.
    """

    def __init__(self, factor: float, asked: Asked) -> None:
        key = asked.repeat * (int(asked.row.max(initial=-1)) + 1) + asked.row
        _, first, unit = np.unique(key, return_index=True, return_inverse=True)
        number, (orders, wordings) = len(first), asked.answer.shape[:2]
        self.factor, self.repeat, self.row = factor, asked.repeat[first], asked.row[first]
        self.stratum = stratum = asked.stratum[first]
        mean, count = _means(asked.answer, unit.ravel(), number)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.where(count > 1, count / (count - 1) * mean * (1 - mean), np.nan)
            single = (within / count)[0, 0]
            cell = np.unique(self.repeat * (int(stratum.max(initial=-1)) + 1) + stratum, return_inverse=True)[
                1
            ]
            centre, size = _means(mean, cell.ravel(), int(cell.max(initial=-1)) + 1)
            # As far apart as before on average.
            away = ((mean - centre[..., cell]) * np.sqrt(size / (size - 1.0))[..., cell]).reshape(mean.shape)
        self.across, self.due = np.full(number, np.nan), single
        if orders * wordings > 1:
            self.across, self.due = away.reshape(-1, number).var(0, ddof=1), np.zeros(number)
            if orders > 1:
                self.due += away.mean(1).var(0, ddof=1) / orders
            if wordings > 1:
                self.due += away.mean(0).var(0, ddof=1) / wordings
            if orders > 1 and wordings > 1:
                self.due -= _interaction(away) / (orders * wordings)
        parsed = np.bincount(asked.repeat, (~np.isnan(asked.answer)).mean((0, 1))) * number
        self.parsed = parsed / max(len(key), 1)
        self.mean, self.within = (mean_of_known(part.reshape(-1, number))[0] for part in (mean, within))

    def independent(self, variance: Floats, answers: Floats | None = None) -> float:
        """Return the variance of one repeat's share of rows that vary by themselves.

        `answers` (R,) are the answers that the share is of; by default one to every row.
        """
        known = ~np.isnan(variance)
        repeat = self.repeat[known]
        rows = np.bincount(repeat).astype(np.float64)
        each = variance[known] / rows[repeat] / (rows if answers is None else answers)[repeat]
        return self.factor**2 * float(each.sum()) / max(int(np.count_nonzero(rows)), 1)

    def over_rows(self) -> Contributions:
        """Return what the draw of rows adds to one repeat's share: within what the design fixed, pooled over
        repeats.
        """
        known = ~np.isnan(self.mean)
        mean, repeat, row = self.mean[known], self.repeat[known], self.row[known]
        strata = int(self.stratum.max(initial=-1)) + 1
        cells, cell = np.unique(repeat * strata + self.stratum[known], return_inverse=True)
        cell = cell.ravel()
        repeat_of, of_cell = np.divmod(cells, max(strata, 1))
        rows = np.bincount(cell).astype(np.float64)
        away = mean - (np.bincount(cell, mean) / rows)[cell]
        size = np.bincount(repeat).astype(np.float64)
        # A cell's part of the share is rows / size: its variance over rows is (rows / size)² s² / rows.
        weight = np.bincount(of_cell, rows / size[repeat_of] ** 2, strata) / max(
            int(np.count_nonzero(size)), 1
        )
        freedom = np.bincount(of_cell, rows - 1, strata)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(freedom > 0, weight / freedom, 0.0)
        return self.factor**2 * each[of_cell[cell]] * away**2, row


def _limits(variance: float, freedom: float) -> Interval:
    """The limits of chi-squared of a mean square; none where its freedom is too small."""
    if freedom < _LEAST_FREEDOM:
        return NOWHERE
    low, high = (freedom / chdtri(freedom, tail) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return variance * float(low), variance * float(high)


def _limits_of_rows(parts: Sequence[Contributions]) -> Interval:
    """The limits of a sum of squares over rows, at the freedom that their unevenness leaves."""
    value = np.concatenate([part for part, _ in parts])
    row = np.unique(np.concatenate([row for _, row in parts]), return_inverse=True)[1].ravel()
    by_row = np.bincount(row, value) if len(row) else np.zeros(0)
    total = float(by_row.sum())
    if len(by_row) < 2 or not by_row.any():
        return (0.0, 0.0) if len(by_row) else NOWHERE
    spread = len(by_row) * float(by_row.var(ddof=1))
    return _limits(total, min(2.0 * total**2 / spread, 1e6) if spread > 0 else 1e6)


def _difference(value: float, own: Interval, other: float, others: Interval) -> Interval:
    """The limits of the difference of two independent estimates; not below 0."""
    if np.isnan([*own, *others]).any():
        return NOWHERE
    down, up = mover(value, own, other, others)
    return max(0.0, value - other - down), max(0.0, value - other + up)


def as_numbers(parts: Mapping[str, float], interval: Interval) -> dict[str, object]:
    """Return the parts for JSON: none below 0, the interval of examples, and what was not measured."""
    return {
        **{name: value if np.isnan(value) else max(0.0, value) for name, value in parts.items()},
        "intervals": dict.fromkeys(PARTS) | {"examples": None if np.isnan(interval[0]) else list(interval)},
        "not_measured": [name for name, value in parts.items() if np.isnan(value)],
    }
