"""How sure: intervals for a share, a gap between two shares, their ratio, and for everything else.

All are 95 % intervals unless `level` says otherwise. They speak of other rows drawn like these, with the
examples as they were chosen; what another draw of examples would change is in `variance`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fwc_llm.metrics.cells import Cells, Floats, Measures, measure

Interval = tuple[float, float]
NOWHERE: Interval = (np.nan, np.nan)


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a share (Wilson 1927): `successes` of `n`, both ≥ 0.

    Counts need not be whole: an effective sample size may be a fraction. No observation, no interval (NaN).
    """
    if n <= 0:
        return NOWHERE
    z = _z(level)
    share = successes / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    # At the ends the bound is exactly 0 or 1, which rounding may miss.
    low = 0.0 if successes == 0 else max(0.0, float(centre - half))
    high = 1.0 if successes == n else min(1.0, float(centre + half))
    return low, high


def newcombe(
    successes: float, n: float, other_successes: float, other_n: float, level: float = 0.95
) -> Interval:
    """Return Newcombe's hybrid score interval of the signed gap p − p_other (Newcombe 1998, method 10)."""
    if n <= 0 or other_n <= 0:
        return NOWHERE
    p, q = successes / n, other_successes / other_n
    p_low, p_high = wilson(successes, n, level)
    q_low, q_high = wilson(other_successes, other_n, level)
    below = np.hypot(p - p_low, q_high - q)
    above = np.hypot(p_high - p, q - q_low)
    return float(p - q - below), float(p - q + above)


def ratio_interval(
    successes: float, n: float, other_successes: float, other_n: float, level: float = 0.95
) -> Interval:
    """Return the log-method interval of the ratio p / p_other (Katz et al. 1978).

    The logarithm needs at least one success on either side; without, the interval is NaN.
    """
    if successes <= 0 or other_successes <= 0 or n <= 0 or other_n <= 0:
        return NOWHERE
    ratio = (successes / n) / (other_successes / other_n)
    error = np.sqrt(max(0.0, 1 / successes - 1 / n + 1 / other_successes - 1 / other_n))
    factor = np.exp(_z(level) * error)
    return float(ratio / factor), float(ratio * factor)


def resample(cells: Cells, draws: int = 4000, seed: int = 0) -> Measures:
    """Return the metrics of bootstrap resamples, averaged over repeats: arrays (draws,) or (draws, G).

    Stratified: rows are resampled within repeat, group and label, so that the test set's composition stays
    what it was designed to be. A cell whose rows come back in several repeats is resampled at the number of
    different rows (`Cells.distinct`) and scaled back.
    """
    rng = np.random.default_rng(seed)
    size = cells.counts.sum(-1)
    drawn = np.maximum(np.rint(size * cells.distinct), size > 0).astype(np.int64)
    shares = np.where(size[..., None] > 0, cells.counts, [1.0, 0.0, 0.0])
    shares = shares / shares.sum(-1, keepdims=True)
    counts = rng.multinomial(drawn, shares, size=(draws, *drawn.shape))
    scale = np.divide(size, drawn, out=np.ones_like(size), where=drawn > 0)
    return mean_over_repeats(measure(counts * scale[..., None]))


def mean_over_repeats(measures: Measures) -> Measures:
    """Return the means over the repeat axis; undefined when any repeat is."""
    per_group = {"rates", "true_positive_rates", "false_positive_rates", "coverage_by_group"}
    return Measures(
        **{
            name: np.asarray(value.mean(-2 if name in per_group else -1))
            for name, value in vars(measures).items()
        }
    )


def spread_interval(
    observed: Sequence[npt.ArrayLike], draws: Sequence[npt.ArrayLike], level: float = 0.95
) -> Interval:
    """Return the interval of the largest gap between groups, over one or several kinds of rate.

    `observed` holds rates (G,), one array per kind (the rates of yes for DP; the true and the false positive
    rates for equalized odds), `draws` their bootstrap resamples (n, G). The largest gap moves by no more
    than the gap that moves most, and over all pairs of groups that is the range of the rates' deviations:

        | max_k range(r_k*) − max_k range(r_k) |  ≤  max_k range(r_k* − r_k)

    so the gap ± the 95th percentile of the right side holds the true gap at least as often as it says, also
    when it is 0. (The plain percentile interval never does: chance only adds to a largest gap.) The lower end
    is not below 0; NaN when a rate is undefined, or more than a tenth of its resamples.
    """
    kinds = [np.asarray(rates, np.float64) for rates in observed]
    with np.errstate(invalid="ignore"):
        moved = [np.ptp(np.asarray(d, np.float64) - r, axis=-1) for d, r in zip(draws, kinds, strict=True)]
    deviation = np.max(moved, axis=0)
    known = deviation[np.isfinite(deviation)]
    if not all(np.isfinite(r).all() and len(r) > 1 for r in kinds) or len(known) < 0.9 * len(deviation):
        return NOWHERE
    centre, reach = max(float(np.ptp(r)) for r in kinds), float(np.quantile(known, level))
    return max(0.0, centre - reach), centre + reach


def percentile(draws: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Return the percentile interval of bootstrap draws (n,); NaN when more than a tenth are undefined."""
    values: Floats = np.asarray(draws, dtype=np.float64)
    known = values[~np.isnan(values)]
    if len(known) < 0.9 * len(values) or not len(known):
        return NOWHERE
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _z(level: float) -> float:
    return float(ndtri((1 + level) / 2))
