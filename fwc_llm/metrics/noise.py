"""What chance alone would show: the disparity of groups that are treated exactly alike."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class NoiseFloor:
    """What equal treatment would show: the mean and the 95th percentile of the demographic parity difference.

    `p_value` is the share of such draws that show at least the observed difference.
    """

    expected: float
    percentile_95: float
    p_value: float


def noise_floor(yes: npt.ArrayLike, parsed: npt.ArrayLike, draws: int = 20_000, seed: int = 0) -> NoiseFloor:
    """Return what the mean |DP| over R repeats would be if G groups shared one rate of yes.

    `yes` and `parsed` (R, G) are counts. Every group's yes-answers are drawn from a binomial with the
    repeat's pooled rate and the group's own size; the range over groups is averaged over repeats,
    taken as independent (docs/protocol.md, "n = 200 is small"). NaN when a group has no parsed answer,
    or there is only one group.
    """
    k, n = np.atleast_2d(np.asarray(yes, float)), np.atleast_2d(np.asarray(parsed, float))
    if (n <= 0).any() or n.shape[1] < 2:
        return NoiseFloor(np.nan, np.nan, np.nan)
    observed = float(np.ptp(k / n, axis=1).mean())
    pooled = k.sum(1, keepdims=True) / n.sum(1, keepdims=True)
    rng = np.random.default_rng(seed)
    sizes = np.maximum(np.rint(n), 1).astype(np.int64)
    gaps = np.ptp(rng.binomial(sizes, pooled, size=(draws, *n.shape)) / sizes, axis=-1).mean(-1)
    return NoiseFloor(
        expected=float(gaps.mean()),
        percentile_95=float(np.quantile(gaps, 0.95)),
        # One added above and below: a simulated p-value is never 0 (Davison & Hinkley 1997, section 4.2).
        p_value=float((1 + (gaps >= observed - 1e-12).sum()) / (1 + draws)),
    )
