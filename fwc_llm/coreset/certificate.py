"""Certify representatives for rows: ground costs, objective and lower bound.

See docs/method.md, "Plan and certificate".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.descent.loop import Steps
from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.fit import CoresetFit
from fwc_llm.coreset.problem.cells import check_known, find_cells
from fwc_llm.coreset.problem.encoded_input import check_terms, read_rows
from fwc_llm.coreset.problem.encoding import ColumnWeights
from fwc_llm.coreset.problem.frames import Columns
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.transport.parity import SATISFIED, imbalance, violation
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import checked


@dataclass(frozen=True, repr=False, eq=False)
class CoresetCertificate:
    """The quality of m weighted representatives of n rows.

    `objective` is the Wasserstein distance between the rows and the weighted representatives, in
    units of the cost. No plan for these representatives costs less than `lower_bound`; if weights
    were given, it holds for plans with these weights. `weights` (m,) sum to m; `violation` is their
    largest |p(y|d) / p_T(y) − 1|, and `epsilon` its limit (None: no limit). `n_rows` is n. `excess`
    is the violation minus the limit, of the level where this difference is largest; −inf without a
    limit. `imbalance` is the share of weight that would have to change its outcome for exact
    parity. With a penalty, `objective` and `lower_bound` include penalty · `imbalance`.
    """

    objective: float
    lower_bound: float
    violation: float
    weights: Array
    epsilon: float | Mapping[Any, float] | None
    n_rows: int
    excess: float
    imbalance: float

    @property
    def is_fair(self) -> bool:
        """Whether no level exceeds its limit by more than 1e-9; True without a limit."""
        return self.epsilon is None or self.excess <= SATISFIED

    def __repr__(self) -> str:
        if self.epsilon is None:
            limit = "no limit"
        else:
            limit = f"limit {self.epsilon}"
        return (
            f"<CoresetCertificate of {len(self.weights):,} representatives for {self.n_rows:,} "
            f"rows: "
            f"objective {self.objective:.6g}, lower bound {self.lower_bound:.6g}, violation "
            f"{self.violation:.4g} ({limit})>"
        )


@checked
def certify(
    X: Any,
    y: Any,
    sensitive: Any,
    points: Any,
    points_y: Any,
    points_sensitive: Any,
    weights: Any = None,
    *,
    epsilon: float | Mapping[Any, float] | None = 0.01,
    cost: str = "l1",
    target: Any = None,
    cost_sensitive: float = 1.0,
    cost_outcome: float = 1.0,
    scale: bool | str = "auto",
    column_weights: ColumnWeights = None,
    penalty: float | None = None,
    crossed: bool = True,
    sample_weight: Any = None,
) -> CoresetCertificate:
    """Certify any weighted points as a coreset of the rows.

    Args:
        X, y, sensitive, sample_weight: the rows, as in `FairCoreset.fit`, in memory.
        points: (m, p) features of the points, in the units and the type of X.
        points_y: (m,) outcomes of the points.
        points_sensitive: (m,) or (m, k) protected levels of the points.
        weights: (m,) weights of the points, in any unit; None: the best weights within the parity
            limit.
        epsilon: the parity limit; given weights need not keep it, and `is_fair` says whether they
            do.
        cost, target, cost_sensitive, cost_outcome, scale, column_weights, penalty, crossed: as in
            `FairCoreset`.

    Raises:
        InputError: bad input, or no weights of these points keep the limit.
    """
    model = CoresetFit(
        1,
        epsilon,
        cost,
        target=target,
        cost_sensitive=cost_sensitive,
        cost_outcome=cost_outcome,
        scale=scale,
        column_weights=column_weights,
        penalty=penalty,
        crossed=crossed,
    )
    check_terms(model)
    unlimited = replace(model, epsilon=None, penalty=None)
    rows = read_rows(unlimited, Columns(X, y, sensitive, sample_weight))
    encoded = rows.encoder.encode(points, strict=False, role="points").values.astype(
        np.float64
    )
    given = find_cells(points_y, points_sensitive, len(encoded))
    outcome = check_known(
        given.outcomes, rows.cells.outcomes, "points_y", "no row of X has"
    )
    level, index = np.divmod(given.cell, given.n_outcomes)
    cells = replace(rows.cells, levels=given.levels)
    cell_of = level * cells.n_outcomes + outcome[index]
    problem = Problem.of(rows, model, cells, cell_of)
    return certified(problem, encoded, weights, epsilon)


def certified(
    problem: Problem, points: Array, weights: Any, epsilon: Any
) -> CoresetCertificate:
    """Certify points (m, p) for the rows with `weights` (m,); None: with the best for these rows.

    `epsilon` is the limit as the caller gave it.
    """
    m = problem.m
    if weights is None:
        plan, shares = Steps(problem).certify(points)
        weight = shares.weights()
        charge = 0.0
    else:
        weight = read_weights(weights, m, "weights", "point").values
        plan = wasserstein(
            problem.costs(points, problem.cell_of), weight, problem.masses
        )
        charge = problem.penalty or 0.0
    weight = weight * (m / weight.sum())
    mass = np.bincount(problem.cell_of, weight, problem.cells.n_cells)
    moving = imbalance(mass, problem.target)
    excess = -np.inf
    if problem.epsilon is not None:
        excess = violation(mass, problem.target, problem.epsilon, problem.groups)
    return CoresetCertificate(
        plan.objective + charge * moving,
        plan.lower_bound + charge * moving,
        violation(mass, problem.target, groups=problem.groups),
        weight,
        epsilon,
        problem.table.n,
        excess,
        moving,
    )
