"""The masses that satisfy the parity limit, as a set to optimise over."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ParitySet:
    """All cell masses `w ≥ 0`, `Σw = 1`, with `|w_dy / (p_T(y) W_d) − 1| ≤ ε` in every level `d`.

    The set is the convex hull of one polytope for each level: the minimum of a linear function is found
    level by level, where it is a knapsack. Its outcomes, cheapest first, hold half of the target's mass
    at the upper limit; the other half sits at the lower limit.
    """

    def __init__(self, target: Floats, epsilon: float, n_levels: int) -> None:
        self._target = target
        self._epsilon = epsilon
        self._levels = n_levels
        self._offsets = (np.arange(n_levels) * len(target))[:, None]
        self.n_cells = n_levels * len(target)

    def best(self, prices: Floats) -> tuple[float, Floats]:
        """Return the least `⟨prices, w⟩` over the set, and a vertex (G,) that attains it."""
        table = prices.reshape(self._levels, -1)
        order = table.argsort(axis=1, kind="stable")
        share = self._target[order]
        upto = share.cumsum(axis=1)
        # What of each outcome's share lies in the cheaper half.
        cheap = np.minimum(np.maximum(0.5 - (upto - share), 0.0), share)
        share += self._epsilon * (2 * cheap - share)
        order += self._offsets
        values = (share * prices[order]).sum(axis=1)
        level = int(values.argmin())
        vertex = np.zeros(self.n_cells)
        vertex[order[level]] = share[level]
        return float(values[level]), vertex

    def first_break(
        self, prices: Floats, direction: Floats, vertex: Floats, limit: float
    ) -> tuple[float, Floats] | None:
        """Follow `prices + t · direction` from a minimising vertex until another one becomes cheaper.

        Returns the time `t ≤ limit` and the vertex that is as cheap there and cheaper afterwards, or None.
        Newton's steps on the concave function `min_w ⟨prices + t · direction, w⟩`, from above.
        """
        here, slope = float(prices @ vertex), float(direction @ vertex)
        time, found = limit, None
        scale = float(np.abs(prices).max())
        steep = float(np.abs(direction).max())
        while True:
            end = np.isinf(time)
            value, other = self.best(direction if end else prices + time * direction)
            gain = slope - value if end else here + time * slope - value
            noise = 1e-14 * (steep if end else scale + time * steep)
            other_slope = float(direction @ other)
            if gain <= noise or slope - other_slope <= 1e-12 * steep:
                return None if found is None else (time, found)
            earlier = max(float(prices @ other) - here, 0.0) / (slope - other_slope)
            if found is not None and earlier >= time:
                return time, found
            time, found = earlier, other
