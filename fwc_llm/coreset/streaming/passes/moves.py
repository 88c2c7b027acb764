"""Moves of free representatives: means, medians and most frequent categories of what they carry, exactly.

Where a median lies, the sample says up to its own noise. The reading that solves the inner problem counts,
for every representative and column, what lies on steps about that place, and on both sides of them. A second
one brings the values on the step where the median is. Should it lie beside the steps, they are laid anew.
Where readings are short, points move to that step alone.
"""

from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np

from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.streaming.collecting.collect import Categories, Collector, Steps, Sums, Values, Within
from fwc_llm.coreset.streaming.collecting.sums import BlockSums
from fwc_llm.coreset.streaming.passes.inner import Solved
from fwc_llm.coreset.streaming.passes.readings import Readings

_NOISE = 2.75  # places a median of s rows may be off, in √s: five and a half standard deviations
_NUMBERS = 2**21  # counts at most, and
_BINS = 32  # steps about each median
_WIDER = 8.0  # times as wide are steps that are laid anew


@dataclass(frozen=True)
class Sampled:
    """The rows of the sample as the next reading is expected to find them."""

    table: Table
    label: np.ndarray  # (s,) the representative that carries each row


class Mover(Protocol):
    """Moves representatives to the best places for what they carry."""

    def collectors(self, sampled: Sampled) -> tuple[Collector, ...]:
        """What the reading that solves the inner problem has to collect."""

    def move(self, readings: Readings, solved: Solved, points: np.ndarray) -> np.ndarray:
        """The points (m, p) moved; may read the table again."""


def set_modes(points: np.ndarray, n_numeric: int, widths: tuple[int, ...], held: np.ndarray) -> None:
    """Sets categories, in place, to the heaviest ones of `held` (m, Σ widths); a tie keeps one's own."""
    first, places = 0, np.arange(len(points))
    for k, width in enumerate(widths):
        total = held[:, first : first + width]
        own = points[:, n_numeric + k].astype(np.int64)
        better = total.max(axis=1) > total[places, own]
        points[better, n_numeric + k] = total.argmax(axis=1)[better]
        first += width


@dataclass(frozen=True)
class Means:
    """Moves to means; categories have `widths` values each."""

    m: int
    widths: tuple[int, ...]

    def collectors(self, sampled: Sampled) -> tuple[Collector, ...]:
        """See `Mover`."""
        return Sums(self.m), Categories(self.m, self.widths)

    def move(self, readings: Readings, solved: Solved, points: np.ndarray) -> np.ndarray:
        """See `Mover`."""
        moved, q = points.copy(), points.shape[1] - len(self.widths)
        sums: BlockSums = solved.collected(0)
        weights = solved.weights / readings.terms.unit
        some = weights > 0
        moved[some, :q] = sums.total()[some] / weights[some, None]
        set_modes(moved, q, self.widths, solved.collected(1))
        return moved


@dataclass(frozen=True)
class Medians:
    """Moves the least that reaches medians; categories have `widths` values each."""

    m: int
    widths: tuple[int, ...]

    def collectors(self, sampled: Sampled) -> tuple[Collector, ...]:
        """See `Mover`."""
        return expected_steps(sampled, self.m), Categories(self.m, self.widths)

    def move(self, readings: Readings, solved: Solved, points: np.ndarray) -> np.ndarray:
        """See `Mover`."""
        moved, q = points.copy(), points.shape[1] - len(self.widths)
        set_modes(moved, q, self.widths, solved.collected(1))
        if q == 0:
            return moved
        steps, count = cast(Steps, solved.visit.collectors[0]), solved.collected(0)
        total = count.sum(axis=2)
        if readings.left < 2:  # one for the values on a step, one for what the move gains
            return _to_steps(moved, steps, count)
        wider: np.ndarray | None = None
        while True:
            upto = 2 * np.cumsum(count, axis=2)
            left, right = (upto < total[..., None]).sum(2), (upto <= total[..., None]).sum(2)
            beside = (total > 0) & ((left == 0) | (right > steps.bins))
            if not beside.any():
                break
            if wider is None:
                wider = np.maximum(np.ptp(readings.survey.sample.numbers, axis=0).astype(np.float64), 1e-3)
            steps = _laid_anew(steps, beside, left, right, wider)
            wider = wider * _WIDER
            visit = replace(solved.visit, collectors=(steps,))
            part = readings.read_again(visit, solved.part, "medians beside")
            count = solved.collected(0, part, steps)
        known = (total > 0) & (steps.low == steps.high)
        moved[:, :q][known] = steps.low[known]
        sought = (total > 0) & ~known
        if sought.any():
            collector = _around(steps, sought, left, right)
            visit = replace(solved.visit, collectors=(collector,))
            part = readings.read_again(visit, solved.part, "medians")
            found: Values = solved.collected(0, part, collector)
            if not _to_middle(moved[:, :q], found.tidy(), total, sought):
                raise readings.changed("other values than before")
        return moved


def count_bins(m: int, q: int) -> int:
    """Steps about each of m · q medians."""
    return int(np.clip(_NUMBERS // max(1, m * q), 6, _BINS))


def expected_steps(sampled: Sampled, m: int) -> Steps:
    """Steps about the medians of what each representative carries of the sample."""
    q = sampled.table.n_numeric
    bins = count_bins(m, q)
    low, high = np.zeros((m, q)), np.zeros((m, q))
    order = np.argsort(sampled.label, kind="stable")
    start = np.searchsorted(sampled.label[order], np.arange(m + 1))
    for j in range(m):
        rows = order[start[j] : start[j + 1]]
        if len(rows):
            width = _NOISE * len(rows) ** 0.5 + 1
            ends = [int(max(0, len(rows) / 2 - width)), int(min(len(rows) - 1, len(rows) / 2 + width))]
            columns = np.ascontiguousarray(sampled.table.numbers[rows].T)
            columns.partition(ends[0], axis=1)
            low[j], behind = columns[:, ends[0]], columns[:, ends[0] :]
            high[j] = np.partition(behind, ends[1] - ends[0], axis=1)[:, ends[1] - ends[0]]
    return Steps(low, high, bins)


def _to_steps(points: np.ndarray, steps: Steps, count: np.ndarray) -> np.ndarray:
    """Moves `points` (m, p) onto the steps of the medians, as far as the `count` of each says."""
    total = count.sum(axis=2)
    upto = 2 * np.cumsum(count, axis=2)
    left, right = (upto < total[..., None]).sum(2), (upto <= total[..., None]).sum(2)
    width = (steps.high - steps.low) / steps.bins
    least = np.clip(steps.low + (left - 1) * width, steps.low, steps.high)
    most = np.clip(steps.low + right * width, steps.low, steps.high)
    numbers = points[:, : steps.low.shape[1]]
    points[:, : steps.low.shape[1]] = np.where(total > 0, np.clip(numbers, least, most), numbers)
    return points


def _laid_anew(
    steps: Steps, beside: np.ndarray, left: np.ndarray, right: np.ndarray, wider: np.ndarray
) -> Steps:
    """The steps, with those that a median lies `beside` made wider on that side."""
    low = np.where(beside & (left == 0), steps.low - wider, steps.low)
    high = np.where(beside & (right > steps.bins), steps.high + wider, steps.high)
    return replace(steps, low=low, high=high)


def _around(steps: Steps, sought: np.ndarray, left: np.ndarray, right: np.ndarray) -> Within:
    """The places (m, q) from step `left` to step `right`, a little wider, as steps are rounded."""
    with np.errstate(divide="ignore"):
        step = np.where(steps.scale > 0, 1 / steps.scale, np.inf)
    rounding = 8 * np.spacing(np.maximum(np.abs(steps.low), np.abs(steps.high)))
    low = np.fmax(steps.low, steps.low + (left - 1.001) * step - rounding)
    high = np.fmin(steps.high, steps.low + (right + 0.001) * step + rounding)
    return Within(np.where(sought, low, np.inf), np.where(sought, high, -np.inf))


def _to_middle(points: np.ndarray, found: Values, total: np.ndarray, sought: np.ndarray) -> bool:
    """Moves `points` (m, q), in place, the least that reaches medians among the values that were `found`.

    `total` (m, q) is all mass. Returns whether the medians are among them.
    """
    places = np.flatnonzero(sought)
    start = np.searchsorted(found.place, places)
    # Sums over all places may pass the end of int64; their differences are right all the same.
    upto = np.concatenate([[0], np.cumsum(found.mass)])
    own = np.repeat(np.arange(len(places)), np.diff(np.append(start, len(found.place))))
    twice = 2 * (found.below.ravel()[places][own] + upto[1:] - upto[start][own])
    whole = total.ravel()[places][own]
    before = 2 * found.below.ravel()[places] >= total.ravel()[places]
    left = np.bincount(own[twice < whole], minlength=len(places))
    right = np.bincount(own[twice <= whole], minlength=len(places))
    if before.any() or (right >= np.bincount(own, minlength=len(places))).any():
        return False
    least, most = found.value[start + left], found.value[start + right]
    flat = points.reshape(-1) if points.flags.c_contiguous else points.ravel()
    flat[places] = np.clip(flat[places], least, most)
    points[:] = flat.reshape(points.shape)
    return True
