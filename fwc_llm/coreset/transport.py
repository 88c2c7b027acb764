"""The inner problem of Fair Wasserstein Coresets: move every row to a cell, cheaply and fairly.

    minimise   Σ_ig c_ig q_ig
    subject to Σ_g q_ig = 1/n,  q ≥ 0,  w_g = Σ_i q_ig,
               (1 − ε) p_T(y) W_d ≤ w_dy ≤ (1 + ε) p_T(y) W_d   with  W_d = Σ_y w_dy

where `c_ig` is the cost of moving row `i` to the nearest representative of cell `g = (d, y)` (the paper's
problem F(C), reduced to cells; notes, method section 2). Lagrange prices `u` of the cells give a lower
bound for any `u`, which is the whole dual problem in G variables:

    D(u) = (1/n) Σ_i min_g (c_ig − u_g) + min_{w fair, Σw = 1} ⟨u, w⟩.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Transport:
    """An optimal plan with its certificate: `objective` and `lower_bound` enclose the optimum."""

    plan: "csr_array"  # (n, G) float64, sparse; row i sums to 1/n
    mass: Floats  # (G,) mass of each cell, sums to 1
    objective: float  # Σ_ig c_ig q_ig, in units of the cost
    lower_bound: float  # D(dual)
    violation: float  # largest |p(y|d) / p_T(y) − 1| over levels that carry mass; 0 with epsilon=None
    dual: Floats  # (G,) prices of the cells, in units of the cost; hand them to the next call as `warm`


def fair_transport(
    cost: ArrayLike,
    n_sensitive: int,
    n_outcomes: int,
    target: ArrayLike,
    epsilon: float | None,
    warm: ArrayLike | None = None,
) -> Transport:
    """Solve the inner problem exactly, with a certificate.

    Args:
        cost: (n, G) float32 or float64 (used as it is), G = n_sensitive · n_outcomes, cells ordered
            d · n_outcomes + y. `inf` marks a cell without representatives: a level with such a cell
            can carry no mass.
        n_sensitive: number of protected levels.
        n_outcomes: number of outcomes.
        target: (n_outcomes,) outcome distribution p_T, positive, summing to 1.
        epsilon: parity limit in [0, 1), or None for no constraint.
        warm: (G,) prices to start from, such as `dual` of the previous iteration's result; they change
            the time, not the value.

    Returns:
        The plan, whose rows sum to 1/n, and its certificate: `objective` equals `lower_bound` to 1e-9
        relative to max(1, |objective|), and `violation` exceeds epsilon by at most 1e-9.

    Raises:
        FwcError: the cost has no rows, NaN or −inf, or another shape than (n, G); the target is no
            distribution over the outcomes; epsilon is outside [0, 1); every level lacks a representative
            in some cell.
    """
    costs = _checked_cost(cost, n_sensitive, n_outcomes)
    share = _checked_target(target, n_outcomes)
    if epsilon is not None and not 0 <= epsilon < 1:
        raise FwcError(f"epsilon is {epsilon}: give a number from 0 to below 1, or None for no constraint")
    start = _checked_warm(warm, costs.shape[1])
    return _solve(costs, share, epsilon, n_sensitive, start)


def _checked_cost(cost: ArrayLike, n_sensitive: int, n_outcomes: int) -> NDArray[Any]:
    costs = np.asarray(cost)
    if costs.dtype not in (np.float32, np.float64):
        costs = costs.astype(np.float64)
    cells = n_sensitive * n_outcomes
    if n_sensitive < 1 or n_outcomes < 1:
        raise FwcError(f"{n_sensitive} protected levels and {n_outcomes} outcomes: both must be at least 1")
    if costs.ndim != 2 or costs.shape[1] != cells or not len(costs):
        raise FwcError(
            f"cost has shape {costs.shape}: it must be (n, {cells}) with n at least 1, one column for each "
            f"of the {n_sensitive} × {n_outcomes} cells"
        )
    return costs


def _checked_target(target: ArrayLike, n_outcomes: int) -> Floats:
    share = np.asarray(target, dtype=np.float64)
    if share.shape != (n_outcomes,):
        raise FwcError(f"target has shape {share.shape}: it must be ({n_outcomes},), one share for each outcome")
    if not (np.isfinite(share).all() and (share > 0).all() and abs(share.sum() - 1) <= 1e-8):
        raise FwcError(f"target is {share.tolist()}: it must be positive shares that sum to 1")
    return share / share.sum()


def _checked_warm(warm: ArrayLike | None, cells: int) -> Floats:
    if warm is None:
        return np.zeros(cells)
    start = np.asarray(warm, dtype=np.float64)
    if start.shape != (cells,) or not np.isfinite(start).all():
        raise FwcError(f"warm must be {cells} finite prices, one for each cell")
    return start


def _solve(costs: NDArray[Any], share: Floats, epsilon: float | None, n_sensitive: int, start: Floats) -> Transport:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array

    n, cells = costs.shape
    if np.isnan(costs).any() or np.isneginf(costs).any():
        row, cell = np.argwhere(np.isnan(costs) | np.isneginf(costs))[0]
        raise FwcError(f"cost of row {row} to cell {cell} is {costs[row, cell]}: give numbers, or inf for no representative")
    n_outcomes = len(share)
    live = np.isfinite(costs).all(axis=0)
    if epsilon is not None:
        live = np.repeat(live.reshape(n_sensitive, n_outcomes).all(axis=1), n_outcomes)
    if not live.any():
        raise FwcError("no protected level has a representative in each of its cells: give every cell of some level one")
    index = np.flatnonzero(live)
    c = costs[:, index].astype(np.float64)
    k = len(index)
    scale = max(np.abs(c).max(), 1e-300)
    low = c.min(axis=1)
    body = (c - low[:, None]) / scale
    if epsilon is None:
        flow = (body == 0) / (body == 0).sum(axis=1, keepdims=True) * 0
        flow[np.arange(n), body.argmin(axis=1)] = 1.0
        prices = np.zeros(cells)
        bound = float(low.mean())
    else:
        level, outcome = index // n_outcomes, index % n_outcomes
        same = level[:, None] == level[None, :]
        own = np.eye(k)
        upper = own - (1 + epsilon) * share[outcome][:, None] * same
        lower = (1 - epsilon) * share[outcome][:, None] * same - own
        # variables: q (n*k, in rows), then w (k,)
        rows = np.repeat(np.arange(n), k)
        cols = np.arange(n * k)
        eq = coo_array(
            (
                np.concatenate([np.ones(n * k), np.ones(n * k), -np.ones(k)]),
                (
                    np.concatenate([rows, n + cols % k, n + np.arange(k)]),
                    np.concatenate([cols, cols, n * k + np.arange(k)]),
                ),
            ),
            shape=(n + k, n * k + k),
        ).tocsr()
        ub = csr_array(np.hstack([np.zeros((2 * k, 1)), np.vstack([upper, lower])]))
        ub = coo_array((ub.tocoo().data, (ub.tocoo().row, ub.tocoo().col + n * k - 1)), shape=(2 * k, n * k + k))
        answer = linprog(
            np.concatenate([body.ravel(), np.zeros(k)]),
            A_eq=eq,
            b_eq=np.concatenate([np.ones(n), np.zeros(k)]),
            A_ub=ub,
            b_ub=np.zeros(2 * k),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        flow = answer.x[: n * k].reshape(n, k)
        flow = np.where(flow < 1e-12, 0.0, flow)
        flow /= flow.sum(axis=1, keepdims=True)
        prices = np.zeros(cells)
        prices[index] = answer.eqlin.marginals[n:] * scale
        u = prices[index].reshape(-1, n_outcomes)
        centre = [sorted(zip(row, share, strict=True)) for row in u]
        best = np.inf
        for pairs in centre:
            spread = min(sum(s * abs(v - m) for v, s in pairs) for m, _ in pairs)
            best = min(best, sum(s * v for v, s in pairs) - epsilon * spread)
        bound = float((c - prices[index]).min(axis=1).mean() + best)
    plan = np.zeros((n, cells))
    plan[:, index] = flow / n
    mass = plan.sum(axis=0)
    violation = 0.0
    if epsilon is not None:
        table = mass.reshape(n_sensitive, n_outcomes)
        carried = table[table.sum(axis=1) > 0]
        violation = float(np.abs(carried / carried.sum(axis=1, keepdims=True) / share - 1).max())
    objective = float((flow * c).sum() / n)
    return Transport(csr_array(plan), mass, objective, bound, violation, prices)
