"""The inner problem as a linear program for HiGHS: where the dual simplex method stalls, and in tests."""

from typing import Any

import numpy as np

from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError, Vertex
from fwc_llm.coreset.transport.parity import Floats, ParitySet


def linear_program(cost: np.ndarray, mass: Floats, fair: ParitySet) -> Vertex:
    """Minimise Σ r_i c_ig x_ig over x ≥ 0, Σ_g x_ig = 1, with cell masses in the parity set.

    `cost` (n, G), `mass` (n,) r. Each limit is divided by its outcome's share, so that rare ones hold as well
    as others. Level d has the variable W_d, its share of all mass.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack, vstack

    (n, cells), outcomes = cost.shape, len(fair.target)
    total, share = float(mass.sum()), np.tile(fair.target, fair.n_levels)
    row, cell = np.nonzero(np.isfinite(cost))
    each = np.arange(len(row))
    rows = hstack([coo_array((np.ones(len(row)), (row, each)), (n, len(row))), coo_array((n, fair.n_levels))])
    level = np.repeat(np.arange(fair.n_levels), outcomes)
    into = coo_array((mass[row] / total / share[cell], (cell, each)), (cells, len(row)))
    of_level = coo_array((np.ones(cells), (np.arange(cells), level)), (cells, fair.n_levels))
    limits: Any = vstack(
        [
            hstack([into, -of_level * (1 + fair.limits)]),
            hstack([-into, of_level * (1 - fair.limits)]),
        ]
    )
    whole = hstack([coo_array((fair.n_levels, len(row))), coo_array(np.eye(fair.n_levels))])
    sums = coo_array((mass[row] / total, (level[cell], each)), (fair.n_levels, len(row)))
    solver: Any = linprog
    found = solver(
        np.append(mass[row] / total * cost[row, cell], np.zeros(fair.n_levels)),
        limits.tocsr(),
        np.zeros(2 * cells),
        vstack([rows, whole - hstack([sums, coo_array((fair.n_levels, fair.n_levels))])]).tocsr(),
        np.append(np.ones(n), np.zeros(fair.n_levels)),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status == 2:
        raise InfeasibleError("no plan satisfies the parity limit: too many costs are inf")
    if found.x is None:
        raise StalledError(f"the inner problem is not solved: {found.message}")
    up, down = np.split(found.ineqlin.marginals, 2)
    prices = (up - down) / share + np.repeat(-found.eqlin.marginals[n:], outcomes)
    part = np.zeros((n, cells))
    part[row, cell] = found.x[: len(row)]
    key = part.argmax(axis=1)
    part[np.arange(n), key] = 0.0
    split_row, split_cell = np.nonzero(part > 0)
    amount = part[split_row, split_cell] * mass[split_row]
    return Vertex(prices, key, split_row, split_cell, amount, int(found.nit))
