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

    def level(self, vertex: Floats) -> int:
        """The level that holds all of a vertex's mass."""
        return int(vertex.argmax()) // len(self._target)

    def first_break(
        self, prices: Floats, direction: Floats, vertex: Floats, limit: float
    ) -> tuple[float, Floats] | None:
        """Follow `prices + t · direction` from a minimising vertex until another one becomes cheaper.

        Returns the time `t ≤ limit` and the vertex that is as cheap there and cheaper afterwards, or None.
        Newton's steps on the concave function `min_w ⟨prices + t · direction, w⟩`, from above.
        """
        time, found = limit, None
        size, steep = float(np.abs(prices).max()), float(np.abs(direction).max())
        while True:
            end = np.isinf(time)
            other = self.best(direction if end else prices + time * direction)[1]
            apart = vertex - other  # as small as ε within a level: sums over it must not cancel
            length = float(np.abs(apart).sum())
            lead, faster = -float(prices @ apart), float(direction @ apart)
            gain = faster if end else time * faster - lead
            noise = 1e-14 * length * (steep if end else size + time * steep)
            if length <= 1e-14 or gain <= noise or faster <= 1e-9 * steep * length:
                return None if found is None else (time, found)
            earlier = max(lead, 0.0) / faster
            if found is not None and earlier >= time:
                return time, found
            time, found = earlier, other
