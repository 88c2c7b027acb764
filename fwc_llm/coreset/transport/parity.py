"""The masses that satisfy the parity limit, as a set to optimise over."""

import numpy as np

Floats = np.ndarray  # of float64
Ints = np.ndarray  # of some integer type
Flags = np.ndarray  # of bool


def violation(mass: Floats, target: Floats, limits: float | Floats = 0.0) -> float:
    """Return the largest |p(y|d) / p_T(y) − 1| of the cells' masses (G,), over levels that carry mass.

    Less the `limits` of the levels, a number or (|D|,): by how much a limit is exceeded at most.
    """
    table = mass.reshape(-1, len(target))
    full = table.any(axis=1)
    with np.errstate(over="ignore"):
        apart = np.abs(table[full] / table[full].sum(axis=1, keepdims=True) / target - 1).max(axis=1)
    return float((apart - np.broadcast_to(limits, len(table))[full]).max())


class ParitySet:
    """All cell masses `w ≥ 0`, `Σw = 1`, with `|w_dy / (p_T(y) W_d) − 1| ≤ ε_d` in every level `d`.

    The set is the convex hull of one polytope for each level: the minimum of a linear function is found
    level by level, as a knapsack problem. The cheapest outcomes, with half of the target's mass, are at the
    upper limit; the other half is at the lower limit.
    """

    def __init__(self, target: Floats, epsilon: float | Floats, n_levels: int) -> None:
        self.target = target
        self.limits = np.broadcast_to(np.asarray(epsilon, np.float64), n_levels)
        self.epsilon = np.repeat(self.limits, len(target))  # of every cell
        self.n_levels = n_levels
        self._offsets = (np.arange(n_levels) * len(target))[:, None]
        self.n_cells = n_levels * len(target)

    def best(self, prices: Floats) -> tuple[float, Floats]:
        """Return the least `⟨prices, w⟩` over the set, and a vertex that attains it.

        A vertex (2, G) consists of the target of its level and the direction away from it: its masses
        are `vertex[0] + ε vertex[1]`. Differences between vertices are then exact for tiny ε.
        """
        table = prices.reshape(self.n_levels, -1)
        order = table.argsort(axis=1, kind="stable")
        share = self.target[order]
        upto = share.cumsum(axis=1)
        # The part of each outcome's share in the cheaper half moves up, the rest down.
        lean = 2 * np.minimum(np.maximum(0.5 - (upto - share), 0.0), share) - share
        order += self._offsets
        values = ((share + self.limits[:, None] * lean) * prices[order]).sum(axis=1)
        level = int(values.argmin())
        vertex = np.zeros((2, self.n_cells))
        vertex[0, order[level]] = share[level]
        vertex[1, order[level]] = lean[level]
        return float(values[level]), vertex

    def masses(self, vertex: Floats) -> Floats:
        """Return the cell masses (G,) of a vertex, or of a difference of vertices."""
        masses: Floats = vertex[0] + self.epsilon * vertex[1]
        return masses

    def level(self, vertex: Floats) -> int:
        """Return the level that has all of a vertex's mass."""
        return int(vertex[0].argmax()) // len(self.target)
