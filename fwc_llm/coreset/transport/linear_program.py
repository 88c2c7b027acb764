"""The inner problem as a linear program for HiGHS.

This program is solved if the dual simplex method stalls, or for groups. With `crossed=False`, a
level of one attribute is a group of crossed levels that share a limit; groups of different
attributes overlap.
"""

from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Flags, Floats
from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError, Vertex
from fwc_llm.coreset.transport.parity import SATISFIED, ParitySet, SoftParitySet, violation

_RESCALED = 4  # programs at most, each scaled by the solution of the last one
_LIGHT = 1e-6  # share of all mass below which a row is rescaled: HiGHS drops numbers below 1e-9
_LIGHTEST = 1e-13  # least scale of a level, as a share of all mass


def linear_program(cost: Array, mass: Floats, fair: ParitySet) -> Vertex:
    """Minimise Σ r_i c_ig x_ig over x ≥ 0, Σ_g x_ig = 1, with cell masses in the parity set.

    `cost` is (n, G), `mass` r (n,). Each limit is divided by its outcome's share, so that limits of
    rare outcomes are as precise as others. Level d has the variable W_d, its share of all mass. If
    W_d is so small that HiGHS overlooks the level's limits, these are divided by W_d, and the
    program is solved again.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csc_array, diags_array

    (n, cells), outcomes, levels = cost.shape, len(fair.target), len(fair.limits)
    total = float(mass.sum())
    share = np.tile(fair.target, levels)
    row, cell = np.nonzero(np.isfinite(cost))
    variable = np.arange(len(row))
    light = np.minimum(
        mass / total / _LIGHT, 1.0
    )  # the sum of a row's parts, below 1 for light rows
    part = mass[row] / total / light[row]
    if fair.groups is None:
        groups = np.eye(levels)
    else:
        groups = fair.groups
    member = np.kron(groups, np.eye(outcomes))  # (levels · outcomes, cells)
    level = np.kron(np.eye(levels), np.ones((outcomes, 1)))
    level_of = level.T @ member
    soft = np.flatnonzero(
        np.isinf(np.repeat(fair.limits, outcomes))
    )  # mass above the target is charged
    over = np.zeros((len(share), len(soft)))
    over[soft, np.arange(len(soft))] = 1.0
    most = np.where(np.isinf(fair.limits), 1.0, 1 + fair.limits)
    least = np.where(np.isinf(fair.limits), 0.0, 1 - fair.limits)
    # Every variable x_ig has its cell's column of these three blocks, times the row's mass.
    into: Any = csc_array(
        np.vstack([member / share[:, None], -member / share[:, None], -level_of])
    )[:, cell]
    into.data *= np.repeat(part, np.diff(into.indptr))
    sides = np.block([[-level * most, -over], [level * least, 0 * over]])
    limits: Any = block_array([[into[: 2 * len(share)], csc_array(sides)]])
    sums: Any = csc_array((np.ones(len(row)), (row, variable)), (n, len(row)))
    matrix: Any = block_array(
        [
            [sums, csc_array((n, levels + len(soft)))],
            [into[2 * len(share) :], csc_array(np.eye(levels, levels + len(soft)))],
        ]
    )
    solver: Any = linprog
    unit = np.ones(levels)
    for _ in range(_RESCALED):
        of_limit = np.tile(np.repeat(unit, outcomes), 2)
        of_sum = np.append(np.ones(n), unit)
        solution = solver(
            np.concatenate([part * cost[row, cell], np.zeros(levels), fair.penalty * share[soft]]),
            diags_array(1 / of_limit) @ limits,
            np.zeros(2 * len(share)),
            diags_array(1 / of_sum) @ matrix,
            np.append(light, np.zeros(levels)),
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if solution.status == 2:
            raise InfeasibleError("no plan satisfies the parity limit: too many costs are inf")
        if solution.x is None:
            raise StalledError(f"the inner problem is not solved: {solution.message}")
        carried = np.bincount(cell, part * solution.x[: len(row)], cells)
        if violation(carried, fair.target, fair.limits, fair.groups) <= SATISFIED / 10:
            break
        unit = np.clip(level_of @ carried, _LIGHTEST, 1.0)
    up, down = np.split(solution.ineqlin.marginals / of_limit, 2)
    rise = -(solution.eqlin.marginals / of_sum)[n:]
    if fair.groups is not None:  # the exact bound that the multipliers prove
        up = np.minimum(up, 0.0)
        down = np.minimum(down, 0.0)
        rise = level.T @ (down * np.repeat(least, outcomes) - up * np.repeat(most, outcomes))
    prices = member.T @ ((up - down) / share + level @ rise)
    fair.proven = None if fair.groups is None else prices
    plan = np.zeros((n, cells))
    plan[row, cell] = solution.x[: len(row)]
    lost = np.flatnonzero(~plan.any(axis=1))  # too light for HiGHS
    plan[lost, cost[lost].argmin(axis=1)] = 1.0
    plan[light < 1] /= plan[light < 1].sum(axis=1, keepdims=True)
    key = plan.argmax(axis=1)
    plan[np.arange(n), key] = 0.0
    split_row, split_cell = np.nonzero(plan > 0)
    amount = plan[split_row, split_cell] * mass[split_row]
    return Vertex(prices, key, split_row, split_cell, amount)


class GroupedParitySet(ParitySet):
    """Cell masses within limits for `groups` (L, |D|) of levels, which may overlap.

    HiGHS minimises. Its multipliers are prices `v` at which no fair masses cost less than 0, so
    `⟨u, w⟩ ≥ min_g (u_g − v_g)`.
    """

    groups: Floats

    def __init__(self, target: Floats, epsilon: float | Floats, groups: Floats) -> None:
        super().__init__(target, 0.0, groups.shape[1])
        self.groups, self.limits = (
            groups,
            np.broadcast_to(np.asarray(epsilon, np.float64), len(groups)),
        )

    def best(self, prices: Floats, far: bool = False) -> tuple[float, Floats]:
        """Return a lower bound of `⟨prices, w⟩`, equal to the minimum up to rounding, and the
        prices `v`.
        """
        if self.proven is not None and np.array_equal(prices, self.proven):
            return 0.0, prices
        proof = linear_program(prices[None], np.ones(1), self).prices
        return float((prices - proof).min()), proof


def parity_set(
    target: Floats, epsilon: Any, penalty: float | None, n_levels: int, groups: Floats | None
) -> ParitySet | None:
    """Return the set of masses for a parity limit, per group if `groups`, or for a penalty; else
    None.
    """
    if penalty is not None:
        return SoftParitySet(target, penalty, n_levels)
    if epsilon is not None and groups is not None:
        return GroupedParitySet(target, epsilon, groups)
    if epsilon is None:
        return None
    return ParitySet(target, epsilon, n_levels)


def least_limit(fair: GroupedParitySet, carried: Flags) -> float | None:
    """Return the least limit at which every group of levels can have mass, in the cells
    `carried` (G,).

    Returns 0 if the limits of `fair` are wide enough, and None if no limit is.
    """
    from scipy.optimize import bisect

    def fits(limits: float | Floats) -> bool:
        masses = GroupedParitySet(fair.target, limits, fair.groups)
        wanted = -np.repeat(fair.groups, len(fair.target), axis=1)
        try:  # sums of fair masses are fair: one group at a time suffices
            return all(
                masses.best(np.where(carried, group_cells, np.inf))[0] < -1e-9
                for group_cells in wanted
            )
        except (InfeasibleError, StalledError):  # near the least limit HiGHS may fail
            return False

    if fits(fair.limits):
        return 0.0
    if fits(1.0):
        return float(bisect(lambda limit: 0.5 - fits(limit), 0.0, 1.0, xtol=1e-9))
    return None
