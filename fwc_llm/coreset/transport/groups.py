"""Parity in groups of levels that may overlap: those of each of several crossed attributes."""

from typing import Any

import numpy as np

from fwc_llm.coreset.transport.dual_simplex import InfeasibleError
from fwc_llm.coreset.transport.linear_program import linear_program
from fwc_llm.coreset.transport.parity import Flags, Floats, ParitySet, SoftParitySet


class GroupedParitySet(ParitySet):
    """Cell masses that keep limits in each of L `groups` (L, |D|) of levels, which may overlap.

    The levels of one attribute where several are crossed. No knapsack finds a minimum: HiGHS does, and its
    multipliers say what it is at least. They are prices `v` at which no fair masses cost less than 0, so
    `⟨u, w⟩ ≥ min_g (u_g − v_g)`.
    """

    groups: Floats

    def __init__(self, target: Floats, epsilon: float | Floats, groups: Floats) -> None:
        super().__init__(target, 0.0, groups.shape[1])
        self.groups, self.limits = groups, np.broadcast_to(np.asarray(epsilon, np.float64), len(groups))

    def best(self, prices: Floats, far: bool = False) -> tuple[float, Floats]:
        """Return a bound of the least `⟨prices, w⟩`, which it equals up to rounding, and the prices `v`."""
        proof = linear_program(prices[None], np.ones(1), self).prices
        return float((prices - proof).min()), proof


def parity_set(
    target: Floats, epsilon: Any, penalty: float | None, n_levels: int, groups: Floats | None
) -> ParitySet | None:
    """Return the set for limits, of all levels, of each or of groups, or for a penalty; None for neither."""
    if penalty is not None:
        return SoftParitySet(target, penalty, n_levels)
    if epsilon is not None and groups is not None:
        return GroupedParitySet(target, epsilon, groups)
    return None if epsilon is None else ParitySet(target, epsilon, n_levels)


def least_limit(fair: GroupedParitySet, carried: Flags) -> float | None:
    """The least limit at which every group of levels can have mass in the cells that may carry it, (G,).

    0 where the limits of the set let them already; None where no limit does. By bisection.
    """
    from scipy.optimize import bisect

    def fits(limits: float | Floats) -> bool:
        masses = GroupedParitySet(fair.target, limits, fair.groups)
        wanted = -np.repeat(fair.groups, len(fair.target), axis=1)
        try:  # fair masses add up to fair ones: each group may have mass by itself
            return all(masses.best(np.where(carried, own, np.inf))[0] < -1e-9 for own in wanted)
        except InfeasibleError:
            return False

    if fits(fair.limits):
        return 0.0
    return float(bisect(lambda limit: 0.5 - fits(limit), 0.0, 1.0, xtol=1e-9)) if fits(1.0) else None
