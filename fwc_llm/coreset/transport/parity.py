"""The set of cell masses within the parity limit, and its linear minimisation."""

import numpy as np

from fwc_llm.coreset.array_types import Floats

SATISFIED = 1e-9  # largest excess of the violation over its limit


def violation(
    mass: Floats,
    target: Floats,
    limits: float | Floats = 0.0,
    groups: Floats | None = None,
) -> float:
    """Return the largest |p(y|d) / p_T(y) − 1| − limit of cell masses (G,), over levels that
    carry mass.

    `limits` is a number or (|D|,). Groups (L, |D|) replace the levels; `limits` may then be (L,).
    """
    if groups is None:
        table = mass.reshape(-1, len(target))
    else:
        table = groups @ mass.reshape(-1, len(target))
    full = table.any(axis=1)
    if not full.any():  # no group carries mass
        return 0.0
    with np.errstate(over="ignore"):
        deviation = np.abs(
            table[full] / table[full].sum(axis=1, keepdims=True) / target - 1
        ).max(axis=1)
    return float((deviation - np.broadcast_to(limits, len(table))[full]).max())


def imbalance(mass: Floats, target: Floats) -> float:
    """Return the share of all mass that would have to change its outcome for exact parity in
    every level.
    """
    table = mass.reshape(-1, len(target))
    return float(
        np.abs(table - table.sum(axis=1, keepdims=True) * target).sum() / 2 / mass.sum()
    )


class ParitySet:
    """All cell masses `w ≥ 0`, `Σw = 1`, with `|w_dy / (p_T(y) W_d) − 1| ≤ ε_d` in every level `d`.

    The set is the convex hull of one polytope per level, so a linear function is minimised in each
    level, as a knapsack problem. The cheapest outcomes, with half of the target's mass, are at the
    upper limit; the other half is at the lower limit.
    """

    def __init__(self, target: Floats, epsilon: float | Floats, n_levels: int) -> None:
        self.target = target
        self.limits = np.broadcast_to(np.asarray(epsilon, np.float64), n_levels)
        self.epsilon = np.repeat(self.limits, len(target))  # (G,) of every cell
        self.n_levels = n_levels
        self._offsets = (np.arange(n_levels) * len(target))[:, None]

    penalty = 0.0  # cost per unit of mass that changes its outcome
    groups: Floats | None = None  # (L, |D|) marks the levels that share a limit
    proven: Floats | None = (
        None  # with groups: prices (G,) at which no fair masses cost less than 0
    )

    def best(self, prices: Floats, far: bool = False) -> tuple[float, Floats]:
        """Return the least `⟨prices, w⟩` over the set, and a vertex that attains it; `far` omits
        tolls.

        A vertex (2, G) consists of the target of its level and a direction: its masses are
        `vertex[0] + ε vertex[1]`. So differences between vertices are exact for tiny ε.
        """
        table = prices.reshape(self.n_levels, -1)
        order = table.argsort(axis=1, kind="stable")
        share = self.target[order]
        upto = share.cumsum(axis=1)
        # The part of each outcome's share in the cheaper half goes to the upper limit, the rest to
        # the lower.
        lean = 2 * np.minimum(np.maximum(0.5 - (upto - share), 0.0), share) - share
        order += self._offsets
        values = ((share + self.limits[:, None] * lean) * prices[order]).sum(axis=1)
        level = int(values.argmin())
        vertex = np.zeros((2, len(prices)))
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

    def toll(self, vertex: Floats) -> float:
        """Return the penalty on a vertex."""
        return self.penalty * float(vertex[1].clip(0.0).sum())

    def charge(self, mass: Floats) -> float:
        """Return the penalty on masses (G,), which scales with their sum."""
        return self.penalty * imbalance(mass, self.target) * float(mass.sum())


class SoftParitySet(ParitySet):
    """All cell masses `w ≥ 0`, `Σw = 1`, at a charge: `penalty` times their `imbalance`.

    The least cost is `min_d Σ_y p_T(y) min(u_dy, min u_d + penalty)`: an outcome dearer than the
    cheapest by more than the penalty changes to the cheapest. `vertex[0]` is the target of the
    level, `vertex[1]` the mass that changes its outcome.
    """

    def __init__(self, target: Floats, penalty: float, n_levels: int) -> None:
        super().__init__(target, 0.0, n_levels)
        self.penalty = penalty
        self.limits = self.limits + np.inf
        self.epsilon = self.epsilon + 1.0

    def best(self, prices: Floats, far: bool = False) -> tuple[float, Floats]:
        """Return the least `⟨prices, w⟩` plus toll, and a vertex that attains it; `far` omits
        the toll.
        """
        table = prices.reshape(self.n_levels, -1)
        most = table.min(axis=1, keepdims=True) + (0.0 if far else self.penalty)
        values = np.minimum(table, most) @ self.target
        level = int(values.argmin())
        moved = np.where(table[level] > most[level], self.target, 0.0)
        vertex = np.zeros((2, self.n_levels, len(self.target)))
        vertex[:, level] = self.target, -moved
        vertex[1, level, table[level].argmin()] += moved.sum()
        return float(values[level]), vertex.reshape(2, -1)
