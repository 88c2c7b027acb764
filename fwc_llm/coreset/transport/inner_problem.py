"""The inner problem: move every row to a cell at least cost, within parity.

This is the paper's problem F(C), reduced to cells. Any prices u of the cells give the lower bound
D(u) (docs/method.md, "The inner problem").
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fwc_llm.coreset.array_types import Array, Floats, Ints
from fwc_llm.coreset.threads import one_blas_thread
from fwc_llm.coreset.transport.column_generation import (
    CostTable,
    Optimum,
    solve,
    two_cheapest,
)
from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError
from fwc_llm.coreset.transport.linear_program import linear_program, parity_set
from fwc_llm.coreset.transport.parity import SATISFIED, ParitySet, violation
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError

_SLACK = 0.01  # relative error of a bound from `_SOME` rows
_SOME = 1000  # rows from which given prices are judged
_PROGRAM = 4_000_000  # costs, at most, that HiGHS solves in some minutes


@dataclass(frozen=True)
class Transport:
    """An optimal plan with its certificate: `objective` and `lower_bound` enclose the optimum."""

    cell: Array  # (n,) cell of each row, except for the parts of split rows below
    split_row: Array  # (s,) row of each part, s < G
    split_cell: Array  # (s,) cell to which the part goes
    split_share: Floats  # (s,) the part as a share of the row, in (0, 1)
    mass: Floats  # (G,) mass of each cell, sums to 1
    objective: float  # Σ_ig c_ig q_ig, in units of the cost
    lower_bound: float  # D(prices)
    violation: float  # largest |p(y|d) / p_T(y) − 1| over levels that carry mass
    prices: (
        Floats  # (G,) prices of the cells, in units of the cost, to start the next call
    )
    row_mass: Floats  # (n,) mass of each row, sums to 1


@one_blas_thread()
def fair_transport(
    cost: ArrayLike,
    n_sensitive: int,
    n_outcomes: int,
    target: ArrayLike,
    epsilon: float | ArrayLike | None,
    prices: ArrayLike | None = None,
    *,
    sample_weight: "ArrayLike | Masses | None" = None,
    penalty: float | None = None,
    groups: ArrayLike | None = None,
) -> Transport:
    """Solve the inner problem exactly, with a certificate.

    A long-step dual simplex method solves the rows whose cell is in doubt (`dual_simplex`,
    `column_generation`). If double precision stalls it, HiGHS solves the linear program. The result
    does not depend on the number of threads.

    Args:
        cost: (n, G) float32 or float64 (used as it is), G = n_sensitive · n_outcomes, cells ordered
            d · n_outcomes + y. `inf` marks a cell without representatives: a level with such a cell
            can carry no mass.
        n_sensitive: number of protected levels.
        n_outcomes: number of outcomes.
        target: (n_outcomes,) outcome distribution p_T, positive, summing to 1.
        epsilon: parity limit in [0, 1): one number or one per level (n_sensitive,); None: no limit.
        prices: (G,) initial prices, such as those of the previous iteration; they affect only the
            time, and are ignored if zeros give a better bound.
        sample_weight: (n,) row weights w, not negative: row i has the mass w_i / Σw instead of 1/n.
            A row of weight 0 does not count; its `cell` is the cheapest at the prices. The lightest
            rows, with at most 5e-10 of all weight together, do not count either if double precision
            cannot balance them.
        penalty: instead of epsilon, the cost per unit of mass whose outcome would have to change
            for exact parity; `objective` and `lower_bound` then include this charge.
        groups: (L, n_sensitive) of 0 and 1, groups of levels that share a limit; a level may be in
            several groups. `epsilon` then is one number or one per group (L,).

    Returns:
        The plan, whose rows sum to 1/n (or w_i / Σw), and its certificate: `objective` equals
            `lower_bound` to 1e-9 relative to max(1, |objective|), and `violation` exceeds epsilon
            by at most 1e-9.

    Raises:
        InputError: the cost of a row is NaN, −inf, or inf in all cells; every level lacks a
            representative in some cell; no plan keeps the limit; a weight is negative or not
            finite, or all weights are 0.
    """
    costs = np.asarray(cost)
    masses = read_weights(sample_weight, len(costs))
    cells = n_sensitive * n_outcomes
    terms = (
        np.asarray(target, np.float64),
        None if epsilon is None else np.asarray(epsilon, np.float64),
        penalty,
        None if groups is None else np.asarray(groups, np.float64),
        np.zeros(cells) if prices is None else np.asarray(prices, np.float64),
    )
    for rows, by_highs in _attempts(masses):
        try:
            if len(rows) == len(costs):
                return _plan(costs, masses.values, by_highs, *terms)
            plan = _plan(costs[rows], masses.values[rows], by_highs, *terms)
            return _with_idle_rows(plan, costs, rows)
        except _TooRareError as error:
            refused = error
    raise refused


def _attempts(masses: Masses) -> Iterator[tuple[Ints, bool]]:
    """Rows to solve, and whether by HiGHS: the fastest first."""
    for by_highs in (False, True):
        yield masses.positive, by_highs
        heavy = masses.heavy()
        if len(heavy) < len(masses.positive):
            yield heavy, by_highs


def _plan(
    costs: Array,
    weights: Floats,
    by_highs: bool,
    share: Floats,
    epsilon: Floats | None,
    penalty: float | None,
    groups: Floats | None,
    prices: Floats,
) -> Transport:
    """Solve the inner problem of rows with a positive mass."""
    n_outcomes = len(share)
    cells = costs.shape[1]
    live = _live_cells(
        costs, n_outcomes, epsilon, penalty is not None or groups is not None
    )
    rows = CostTable(costs if len(live) == cells else costs[:, live], weights)
    levels = live[::n_outcomes] // n_outcomes
    if groups is not None:
        groups = groups[:, levels]
    elif epsilon is not None:
        epsilon = np.broadcast_to(epsilon, cells // n_outcomes)[levels]
    fair = parity_set(share, epsilon, penalty, len(levels), groups)
    if fair is None:
        best = rows.nearest()
    else:
        best = _optimum(rows, fair, prices[live], by_highs)
    vertex = best.vertex
    total = rows.total
    mass = np.zeros(cells)
    all_prices = np.zeros(cells)
    mass[live] = best.load / total
    all_prices[live] = vertex.prices
    cost = best.cost / total
    bound = best.bound / total
    largest_violation = violation(mass, share)
    if fair:
        if violation(mass[live], share, fair.limits, fair.groups) > SATISFIED:
            raise _too_rare(share, rows)
        cost = (best.cost + fair.charge(best.load)) / total
        bound += fair.best(vertex.prices)[0]
        largest_violation = violation(mass[live], share, groups=fair.groups)
    return Transport(
        cell=(vertex.key if len(live) == cells else live[vertex.key]).astype(
            np.int32, copy=False
        ),
        split_row=vertex.split_row,
        split_cell=live[vertex.split_cell],
        split_share=vertex.split_mass / weights[vertex.split_row],
        mass=mass,
        objective=cost,
        lower_bound=min(cost, bound),
        violation=largest_violation,
        prices=all_prices,
        row_mass=weights / total,
    )


def _optimum(
    rows: CostTable, fair: ParitySet, prices: Floats, by_highs: bool
) -> Optimum:
    """Solve rows and cells that can all carry mass, by HiGHS or by `solve`, from `prices` if
    they help.
    """
    try:
        if not by_highs:
            warm = _are_better_than_none(prices, rows, fair)
            return solve(rows, prices if warm else 0 * prices, fair, warm)
        if rows.cost.size > _PROGRAM:
            raise StalledError(f"{rows.cost.size:,} costs are too many for HiGHS")
        table = rows.rows()
        return table.optimum(linear_program(table.cost, table.mass, fair))
    except (InfeasibleError, StalledError) as error:
        if by_highs and np.isinf(rows.cost).any():
            raise
        raise _too_rare(fair.target, rows) from error


def _with_idle_rows(plan: Transport, costs: Array, rows: Array) -> Transport:
    """Extend the plan of `rows` to all rows: the others get their cheapest cells, and mass 0."""
    idle = np.ones(len(costs), dtype=np.bool_)
    idle[rows] = False
    live = np.flatnonzero(plan.mass > 0)  # a cell that cannot carry mass has no price
    cell = np.empty(len(costs), dtype=np.int32)
    mass = np.zeros(len(costs))
    resting = np.flatnonzero(idle)
    idle_costs = costs[np.ix_(resting, live)]
    cell[resting] = live[two_cheapest(idle_costs, plan.prices[live])[0]]
    cell[rows] = plan.cell
    mass[rows] = plan.row_mass
    return replace(plan, cell=cell, split_row=rows[plan.split_row], row_mass=mass)


def _are_better_than_none(prices: Floats, rows: CostTable, fair: ParitySet) -> bool:
    """Whether these prices give about as good a lower bound as zeros do, or better, on a sample."""
    if not prices.any() or fair.groups is not None:
        return bool(prices.any())  # judging those of groups takes a linear program
    some = rows.sample(_SOME)
    with_prices, none = (
        some.mass @ two_cheapest(some.cost, at)[1] + some.total * fair.best(at)[0]
        for at in (prices, 0 * prices)
    )
    return bool(with_prices >= none - _SLACK * abs(none))


class _TooRareError(InputError):
    """The share of an outcome or of a row's weight is too small for double precision."""


def _too_rare(share: Floats, rows: CostTable) -> _TooRareError:
    least = float(rows.mass.min()) / rows.total
    if least < min(share.min(), 1 / rows.size):
        return _TooRareError(
            f"the smallest weight, {least:.3g} of all, is too small for double precision: give "
            f"such rows 0"
        )
    return _TooRareError(
        f"the target's smallest share, {share.min():.3g}, is too small for double precision: leave "
        f"out that "
        "outcome, or give it more"
    )


def _live_cells(
    costs: Array, n_outcomes: int, epsilon: Floats | None, partial: bool
) -> Array:
    """Cells that can carry mass: with a limit, those of levels with all cells, or any cells if
    `partial`.
    """
    live = np.array(
        [
            np.isfinite(cell_costs[0]) or np.isfinite(cell_costs).any()
            for cell_costs in costs.T
        ]
    )
    if epsilon is not None or partial:
        table = live.reshape(-1, n_outcomes)
        live = np.repeat(
            table.any(axis=1) if partial else table.all(axis=1), n_outcomes
        )
    if not live.any():
        raise InputError(
            "no protected level has a representative in each of its cells (their costs are inf): "
            "give every cell of at least one level a representative"
        )
    return np.flatnonzero(live)
