"""The inner problem as a linear program for HiGHS.

This program is solved if the dual simplex method stalls, or for groups. With `crossed=False`, a
level of one attribute is a group of crossed levels that share a limit; groups of different
attributes overlap.
"""

from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Floats
from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError, Vertex
from fwc_llm.coreset.transport.parity import (
    SATISFIED,
    ParitySet,
    SoftParitySet,
    violation,
)

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
    from scipy.sparse import csc_array, hstack, vstack

    n, cells = cost.shape
    outcomes = len(fair.target)
    levels = len(fair.limits)
    per_cell, others, charges = _limits(fair)
    count = 2 * levels * outcomes  # limits; the sums of the levels follow
    row, cell = np.nonzero(np.isfinite(cost))
    share = mass / mass.sum()
    light = np.minimum(
        share / _LIGHT, 1.0
    )  # the sum of a row's parts, below 1 for light rows
    part = share[row] / light[row]
    objective = np.concatenate([part * cost[row, cell], charges])
    # Every variable x_ig has its cell's column, times the row's mass.
    columns: Any = csc_array(per_cell)[:, cell]
    columns.data *= np.repeat(part, np.diff(columns.indptr))
    rules: Any = hstack([columns, csc_array(others)], format="csr")
    sums: Any = csc_array(
        (np.ones(len(row)), (row, np.arange(len(row)))), (n, len(objective))
    )
    bounds = np.append(light, np.zeros(levels))
    solver: Any = linprog
    unit = np.ones(levels)
    for _ in range(_RESCALED):
        scale = 1 / np.concatenate([np.tile(np.repeat(unit, outcomes), 2), unit])
        scaled = (rules * scale[:, None]).tocsr()
        solution = solver(
            objective,
            scaled[:count],
            np.zeros(count),
            vstack([sums, scaled[count:]]),
            bounds,
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": 1e-10,
                "dual_feasibility_tolerance": 1e-10,
            },
        )
        if solution.status == 2:
            raise InfeasibleError
        if solution.x is None:
            raise StalledError(f"the inner problem is not solved: {solution.message}")
        parts = solution.x[: len(row)]
        carried = np.bincount(cell, part * parts, cells)
        if violation(carried, fair.target, fair.limits, fair.groups) <= SATISFIED / 10:
            break
        unit = np.clip(-per_cell[count:] @ carried, _LIGHTEST, 1.0)
    multipliers = (
        np.append(solution.ineqlin.marginals, solution.eqlin.marginals[n:]) * scale
    )
    if fair.groups is not None:  # the exact bound that the limits' multipliers prove
        multipliers = np.minimum(multipliers[:count], 0.0)
        multipliers = np.append(multipliers, -multipliers @ others[:count, :levels])
    prices = multipliers @ per_cell
    if fair.groups is not None:
        fair.proven = prices
    plan = np.zeros((n, cells))
    plan[row, cell] = parts
    lost = np.flatnonzero(~plan.any(axis=1))  # too light for HiGHS
    plan[lost, cost[lost].argmin(axis=1)] = 1.0
    plan[light < 1] /= plan[light < 1].sum(axis=1, keepdims=True)
    key = plan.argmax(axis=1)
    plan[np.arange(n), key] = 0.0
    split_row, split_cell = np.nonzero(plan > 0)
    amount = plan[split_row, split_cell] * mass[split_row]
    return Vertex(prices, key, split_row, split_cell, amount)


def _limits(fair: ParitySet) -> tuple[Floats, Floats, Floats]:
    """The limits as rows over the cells' masses (R, G) and over other variables (R, L + S), and
    the costs of these variables (L + S,).

    Of the R rows, those for the upper limits of each level and outcome come first, then those for
    the lower limits, which must not exceed 0, then a sum for each level, which must be 0. The other
    variables are the levels' masses and, with a penalty, the masses above the target.
    """
    outcomes = len(fair.target)
    levels = len(fair.limits)
    groups = np.eye(levels) if fair.groups is None else fair.groups
    share = np.tile(fair.target, levels)
    member = np.kron(groups, np.eye(outcomes))  # (levels · outcomes, cells)
    level = np.kron(np.eye(levels), np.ones((outcomes, 1)))
    soft = np.isinf(fair.limits)  # mass above the target is charged
    most = np.where(soft, 1.0, 1 + fair.limits)
    least = np.where(soft, 0.0, 1 - fair.limits)
    above = np.eye(len(share))[:, np.repeat(soft, outcomes)]
    weighted = member / share[:, None]
    per_cell = np.vstack([weighted, -weighted, -level.T @ member])
    per_level = np.vstack([-level * most, level * least, np.eye(levels)])
    per_charge = np.vstack([-above, 0 * above, np.zeros((levels, above.shape[1]))])
    charges = np.append(np.zeros(levels), fair.penalty * share @ above)
    return per_cell, np.hstack([per_level, per_charge]), charges


class GroupedParitySet(ParitySet):
    """Cell masses within limits for `groups` (L, |D|) of levels, which may overlap.

    HiGHS minimises. Its multipliers are prices `v` at which no fair masses cost less than 0, so
    `⟨u, w⟩ ≥ min_g (u_g − v_g)`.
    """

    groups: Floats

    def __init__(self, target: Floats, epsilon: float | Floats, groups: Floats) -> None:
        super().__init__(target, 0.0, groups.shape[1])
        self.groups = groups
        self.limits = np.broadcast_to(np.asarray(epsilon, np.float64), len(groups))

    def best(self, prices: Floats, far: bool = False) -> tuple[float, Floats]:
        """Return a lower bound of `⟨prices, w⟩`, equal to the minimum up to rounding, and the
        prices `v`.
        """
        if self.proven is not None and np.array_equal(prices, self.proven):
            return 0.0, prices
        proof = linear_program(prices[None], np.ones(1), self).prices
        return float((prices - proof).min()), proof

    def reaches_all(self, carried: Array) -> bool:
        """Whether every group can have mass in the cells `carried` (G,)."""
        # Sums of fair masses are fair: one group at a time suffices.
        wanted = -np.repeat(self.groups, len(self.target), axis=1)
        try:
            return all(
                self.best(np.where(carried, own, np.inf))[0] < -1e-9 for own in wanted
            )
        except (InfeasibleError, StalledError):
            return False


def parity_set(
    target: Floats,
    epsilon: Any,
    penalty: float | None,
    n_levels: int,
    groups: Floats | None,
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
