"""Where the spread of a value comes from: rows, examples, order, wording, and asking again.

See docs/statistics.md, "Where the spread comes from". Estimates by the method of moments, each unbiased; they
can fall below 0. Only that of examples has an interval: the others are of few levels, or as sure as the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from fwc_llm.metrics.counts import Codes, Floats
from fwc_llm.metrics.intervals import NOWHERE, Interval

PARTS = ("rows", "examples", "order", "wording", "order_and_wording", "repetition")
_LEAST_FREEDOM = 4  # below it a variance's interval spans two orders of magnitude


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


@dataclass(frozen=True)
class _Units:
    """Rows within repeats, U of them: a row's mean answer and the variance of its answers to one prompt.

    `across` is the variance of its answers over all ways of asking, each less the way's mean, and `due` what
    such differences and chance add to that of its mean answer. All are (U,), NaN where unknown. `parsed`
    (R,) counts the answers to one prompt each that a repeat has.
    """

    mean: Floats
    within: Floats
    across: Floats
    due: Floats
    repeat: Codes
    row: Codes
    stratum: Codes
    parsed: Floats


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
    units = [(factor, _units(asked)) for factor, asked in shares]
    values = np.asarray(sum(factor * _values(asked, number) for factor, asked in shares), np.float64)
    values = values[..., ~np.isnan(values).any((0, 1))]  # (O, T, R)
    orders, wordings, repeats = values.shape
    found = dict.fromkeys(PARTS, np.nan)
    if not repeats:
        return found, NOWHERE
    sampled = sum(len(asked.row) for _, asked in shares) / sum(len(one.mean) for _, one in units)
    if sampled > 1:
        found["repetition"] = sum(_independent(f, one, one.within, one.parsed)[0].sum() for f, one in units)
    each = max(0.0, np.nan_to_num(found["repetition"]) / sampled)  # what chance adds to the mean over samples
    parts = [_over_rows(factor, one) for factor, one in units]
    over_rows = float(sum(part.sum() for part, _ in parts))
    ways = orders * wordings
    # Of one way of asking, as long as it is not known what asking again does.
    more = [-one.due if sampled > 1 else one.across * (1.0 - 1.0 / ways) for _, one in units]
    beside = (_independent(f, one, part)[0].sum() for (f, one), part in zip(units, more, strict=True))
    found["rows"] = over_rows + float(sum(beside)) if any(len(part) for part, _ in parts) else np.nan
    interval = NOWHERE
    if repeats > 1:
        between = float(values.mean((0, 1)).var(ddof=1))
        found["examples"] = between - over_rows
        interval = _difference(between, _limits(between, repeats - 1), over_rows, _limits_of_rows(parts))
    if orders > 1:
        found["order"] = float(values.mean(1).var(0, ddof=1).mean()) - each / wordings
    if wordings > 1:
        found["wording"] = float(values.mean(0).var(0, ddof=1).mean()) - each / orders
    if orders > 1 and wordings > 1:
        left = values - values.mean(0) - values.mean(1)[:, None] + values.mean((0, 1))
        freedom = (orders - 1) * (wordings - 1)
        found["order_and_wording"] = float((left**2).sum((0, 1)).mean() / freedom) - each
    return found, interval


def _limits(variance: float, freedom: float) -> Interval:
    """The limits of chi-squared of a mean square; none where its freedom is too small."""
    if freedom < _LEAST_FREEDOM:
        return NOWHERE
    low, high = (freedom / chdtri(freedom, tail) for tail in (0.025, 0.975))
    return variance * float(low), variance * float(high)


def _limits_of_rows(parts: Sequence["Contributions"]) -> Interval:
    """The limits of a sum of squares over rows, at the freedom that their unevenness leaves."""
    value = np.concatenate([part for part, _ in parts])
    row = np.unique(np.concatenate([row for _, row in parts]), return_inverse=True)[1].ravel()
    by_row = np.bincount(row, value) if len(row) else np.zeros(0)
    total = float(by_row.sum())
    if len(by_row) < 2 or not by_row.any():
        return (0.0, 0.0) if len(by_row) else NOWHERE
    spread = len(by_row) * float(by_row.var(ddof=1))
    return _limits(total, min(2.0 * total**2 / spread, 1e6) if spread > 0 else 1e6)


def _difference(one: float, own: Interval, other: float, others: Interval) -> Interval:
    """The limits of the difference of two independent estimates, by MOVER; not below 0."""
    if np.isnan([*own, *others]).any():
        return NOWHERE
    below = np.hypot(one - own[0], others[1] - other)
    above = np.hypot(own[1] - one, other - others[0])
    return float(max(0.0, one - other - below)), float(max(0.0, one - other + above))


def _values(asked: Asked, number: int) -> Floats:
    """The share of yes (O, T, R) in every repeat, all samples together; NaN without an answer."""
    shape = asked.answer.shape[:2]
    found = np.empty((*shape, number))
    for place in np.ndindex(shape):
        answer = asked.answer[place]
        known = ~np.isnan(answer)
        total = np.bincount(asked.repeat[known], minlength=number)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[place] = np.bincount(asked.repeat[known], answer[known], number) / total
    return found


def _unit(asked: Asked) -> Codes:
    """The row within its repeat that each question is about (n,), as a number."""
    many = int(asked.row.max(initial=-1)) + 1
    found = np.unique(asked.repeat * many + asked.row, return_inverse=True)[1].ravel()
    return np.asarray(found, np.int64)


def _units(asked: Asked) -> _Units:
    unit = _unit(asked)
    first = np.unique(unit, return_index=True)[1]
    number = len(first)
    means, within, single = [], [], []
    for place in np.ndindex(asked.answer.shape[:2]):
        answer = asked.answer[place]
        known = ~np.isnan(answer)
        count = np.bincount(unit[known], minlength=number)
        total = np.bincount(unit[known], answer[known], number)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / count
            means.append(mean)
            within.append(np.where(count > 1, count / (count - 1) * mean * (1 - mean), np.nan))
            single.append(within[-1] / count)
    repeat, stratum = asked.repeat[first], asked.stratum[first]
    cell = np.unique(repeat * (int(stratum.max(initial=-1)) + 1) + stratum, return_inverse=True)[1].ravel()
    across, due = _over_ways(np.array([_centred(one, cell) for one in means]), asked.answer.shape[:2])
    if len(means) == 1:
        due = single[0]
    parsed = np.bincount(asked.repeat, (~np.isnan(asked.answer)).mean((0, 1)))
    return _Units(
        _mean_of(means), _mean_of(within), across, due, repeat, asked.row[first], stratum,
        parsed * number / max(len(unit), 1),
    )  # fmt: skip


def _centred(mean: Floats, cell: Codes) -> Floats:
    """Answers (U,) less their cell's mean, as far apart as before on average."""
    known = ~np.isnan(mean)
    number = int(cell.max(initial=-1)) + 1
    count = np.bincount(cell[known], minlength=number).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.bincount(cell[known], mean[known], number) / count
        grown = np.sqrt(count / (count - 1.0))
        return np.asarray((mean - middle[cell]) * grown[cell], np.float64)


def _over_ways(table: Floats, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """The variance (U,) over all ways of asking, and what differences between them add to the mean's."""
    orders, wordings = shape
    if orders * wordings == 1:
        return np.full(table.shape[1], np.nan), np.full(table.shape[1], np.nan)
    each = table.reshape(orders, wordings, -1)
    due = np.zeros(table.shape[1])
    if orders > 1:
        due = due + each.mean(1).var(0, ddof=1) / orders
    if wordings > 1:
        due = due + each.mean(0).var(0, ddof=1) / wordings
    if orders > 1 and wordings > 1:
        left = each - each.mean(0) - each.mean(1)[:, None] + each.mean((0, 1))
        due = due - (left**2).sum((0, 1)) / ((orders - 1) * (wordings - 1)) / (orders * wordings)
    return table.var(0, ddof=1), due


def _mean_of(parts: Sequence[Floats]) -> Floats:
    """The mean over the first axis of what is known."""
    table = np.array(parts)
    known = ~np.isnan(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(known, table, 0.0).sum(0) / known.sum(0), np.float64)


Contributions = tuple[Floats, Codes]  # of units to a variance, and their rows


def _independent(
    factor: float, units: _Units, variance: Floats, answers: Floats | None = None
) -> Contributions:
    """The variance of one repeat's share of rows that vary by themselves.

    `answers` (R,) are the answers that the share is of; by default one to every row.
    """
    known = ~np.isnan(variance)
    repeat, row = units.repeat[known], units.row[known]
    rows = np.bincount(repeat).astype(np.float64)
    size = rows if answers is None else answers
    each = variance[known] / rows[repeat] / size[repeat]
    return factor**2 * each / max(len(np.unique(repeat)), 1), row


def _over_rows(factor: float, units: _Units) -> Contributions:
    """What the draw of rows adds to one repeat's share: within what the design fixed, pooled over repeats."""
    known = ~np.isnan(units.mean)
    mean, repeat, row = units.mean[known], units.repeat[known], units.row[known]
    strata = int(units.stratum.max(initial=-1)) + 1
    cell = np.unique(repeat * strata + units.stratum[known], return_inverse=True)[1].ravel()
    rows = np.bincount(cell).astype(np.float64)
    away = mean - (np.bincount(cell, mean) / rows)[cell]
    size = np.bincount(repeat).astype(np.float64)
    of_cell = np.zeros(len(rows), dtype=np.int64)
    of_cell[cell] = units.stratum[known]
    repeat_of = np.zeros(len(rows), dtype=np.int64)
    repeat_of[cell] = repeat
    # A cell's part of the share is rows / size: its variance over rows is (rows / size)² s² / rows.
    weight = np.bincount(of_cell, rows / size[repeat_of] ** 2, strata) / max(len(np.unique(repeat)), 1)
    freedom = np.bincount(of_cell, rows - 1, strata)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(freedom > 0, weight / freedom, 0.0)
    return factor**2 * each[of_cell[cell]] * away**2, row


def as_numbers(found: Mapping[str, float], interval: Interval) -> dict[str, object]:
    """Return the parts for JSON: none below 0, the interval of examples, and what was not measured."""
    return {
        **{name: value if np.isnan(value) else max(0.0, value) for name, value in found.items()},
        "intervals": dict.fromkeys(PARTS) | {"examples": None if np.isnan(interval[0]) else list(interval)},
        "not_measured": [name for name, value in found.items() if np.isnan(value)],
    }
