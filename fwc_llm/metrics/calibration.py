"""Whether P(yes) means what it says, for one set of rows (docs/statistics.md, "Calibration").

Rows that are asked about in several repeats count once: their label is one label, however often it was asked.
Intervals are over rows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import Z, clopper_pearson

BINS = 10
_SIMULATIONS = 200
_AT_ONCE = 4_000_000  # uniform numbers
_MOST_DRAWN = 100_000  # rows whose labels are drawn one by one
_NORMAL_DRAWS = 10_000

Codes = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Bins:
    """The non-empty bins (B,) of equal width: lower edge, questions, rows, mean P(yes), share of yes."""

    start: Floats
    questions: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    mean: Floats
    share: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Calibration:
    """How P(yes) of some rows compares with their labels.

    `difference` is the mean P(yes) less the share of label yes ("in the large"), with 95 % limits. `error` is
    the expected calibration error of the bins. It is never negative, and noise adds to it: P(yes) that is
    calibrated has `expected` on average, and more than `noise_95` in 1 of 20 samples of this size.
    """

    bins: Bins
    mean: float
    share: float
    difference: float
    low: float
    high: float
    error: float
    expected: float
    noise_95: float


def calibrate(p: Floats, labels: Floats, rows: npt.NDArray[np.int64], strata: Codes) -> Calibration:
    """Return the calibration of n > 0 answers: `p` (n,), `labels` 1 or 0, `rows` numbers from 0.

    `strata` (n,) numbers what the design fixed: the label where it set base rates, else all 0.
    """
    _, row = np.unique(rows, return_inverse=True)
    difference = float(np.mean(p - labels))
    reach = Z * float(np.sqrt(_variance(p - labels, row, strata)))
    place = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    bins = _bins(p, labels, row, place)
    expected, noise = _by_chance(p, row, place)
    return Calibration(
        bins=bins,
        mean=float(p.mean()),
        share=float(labels.mean()),
        difference=difference,
        low=max(-1.0, difference - reach),
        high=min(1.0, difference + reach),
        error=float(np.abs(bins.mean - bins.share) @ bins.questions / len(p)),
        expected=expected,
        noise_95=noise,
    )


def _variance(off: Floats, row: Codes, strata: Codes) -> float:
    """The variance of a mean over rows, as of the difference of two arms: two pseudo-rows in each stratum.

    With them no variance is 0, however alike a few rows are (after Agresti & Min 2005).
    """
    total = 0.0
    for stratum in np.unique(strata):
        here = strata == stratum
        units, code = np.unique(row[here], return_inverse=True)
        k, weight = len(units), here.mean()
        own = np.bincount(code, off[here] - off[here].mean()) / len(off)
        spread = k / (k - 1) * float(own @ own) if k > 1 else weight**2
        total += spread + 2.0 * weight * (weight / k) ** 2
    return total


def _bins(p: Floats, labels: Floats, row: Codes, place: Codes) -> Bins:
    questions = np.bincount(place, minlength=BINS)
    filled = np.flatnonzero(questions)
    # A row counts once in a bin, whatever the number of its questions there: its label is the same in all.
    pairs, often = np.unique(row * BINS + place, return_counts=True)
    squares = np.bincount(pairs % BINS, often.astype(float) ** 2, BINS)[filled]
    size = questions[filled].astype(float)
    share = np.bincount(place, labels, BINS)[filled] / size
    low, high = clopper_pearson(share, size**2 / squares)
    return Bins(
        start=filled / BINS,
        questions=questions[filled],
        rows=np.bincount(pairs % BINS, minlength=BINS)[filled],
        mean=np.bincount(place, p, BINS)[filled] / size,
        share=share,
        low=np.minimum(low, share),
        high=np.maximum(high, share),
    )


def _by_chance(p: Floats, row: Codes, place: Codes) -> tuple[float, float]:
    """The mean and the 95th percentile of the error of labels that are yes as often as P(yes) says.

    With more than `_MOST_DRAWN` rows, each asked about once, a bin's number of yes is drawn as a normal
    variable. The difference is far below that between two sets of 200 drawn tables.
    """
    number = int(row.max()) + 1
    if number == len(p) > _MOST_DRAWN:
        deviation = np.sqrt(np.bincount(place, p * (1.0 - p), BINS))
        drawn_off = np.random.default_rng(0).standard_normal((_NORMAL_DRAWS, BINS)) * deviation
        away = np.abs(drawn_off).sum(1) / len(p)
        return float(away.mean()), float(np.quantile(away, 0.95))
    order = np.argsort(place, kind="stable")
    said, unit = p[order], row[order]
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    stated = np.add.reduceat(said, starts)
    rng = np.random.default_rng(0)
    errors: list[Floats] = []
    while (done := sum(map(len, errors))) < _SIMULATIONS:
        size = min(_SIMULATIONS - done, max(1, _AT_ONCE // len(p)))
        uniform = rng.random((size, number))
        drawn = (uniform if number == len(p) else uniform[:, unit]) < said
        yes = np.add.reduceat(drawn, starts, axis=1, dtype=np.int64)
        errors.append(np.abs(yes - stated).sum(1) / len(p))
    found = np.concatenate(errors)
    return float(found.mean()), float(np.quantile(found, 0.95))
