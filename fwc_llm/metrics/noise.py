"""What chance alone would show: the disparity of groups that are treated exactly alike."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.limits import LEVEL, ranges_of_noise
from fwc_llm.metrics.planning import smallest_difference


@dataclass(frozen=True)
class NoiseFloor:
    """What equal treatment would show: the mean and the 95th percentile of the demographic parity difference.

    `p_value` is how often equal treatment shows at least the observed difference. `smallest_found` is the
    difference that exceeds the percentile four times in five (see `planning`).
    """

    expected: float
    percentile_95: float
    p_value: float
    smallest_found: float


def noise_floor(gap: float, deviations: Floats, freedom: float = np.inf) -> NoiseFloor:
    """Return the noise floor of a gap of mean rates (docs/statistics.md, "Noise floor").

    `deviations` (G,) are the standard deviations of the groups' rates. The gap of two groups is the size of a
    normal variable (Student's, where the deviations rest on `freedom` repeats), that of more groups the range
    of as many. NaN where the gap is, or a deviation.
    """
    if np.isnan(gap) or len(deviations) < 2 or np.isnan(deviations).any():
        return NoiseFloor(np.nan, np.nan, np.nan, np.nan)
    smallest = smallest_difference(float(np.sort(deviations**2)[-2:].sum()), len(deviations), freedom)
    wider = 1.0
    if freedom != np.inf:
        wider = float(stdtrit(freedom, (1 + LEVEL) / 2) / ndtri((1 + LEVEL) / 2))
    if len(deviations) == 2:
        deviation = float(np.hypot(*deviations))
        reach = float(ndtri((1 + LEVEL) / 2))
        far = 2 * (ndtr(-gap / deviation) if freedom == np.inf else stdtr(freedom, -gap / deviation))
        mean = deviation * float(np.sqrt(2 / np.pi))
        return NoiseFloor(min(1.0, mean), min(1.0, wider * reach * deviation), float(far), smallest)
    ranges = ranges_of_noise(np.asarray(deviations)) * wider
    beyond = len(ranges) - int(np.searchsorted(ranges, gap - 1e-12))
    return NoiseFloor(
        expected=min(1.0, float(ranges.mean() / wider)),
        percentile_95=min(1.0, float(np.quantile(ranges, LEVEL))),
        # One added above and below: a simulated p-value is never 0 (Davison & Hinkley 1997, section 4.2).
        p_value=(1 + beyond) / (1 + len(ranges)),
        smallest_found=smallest,
    )
