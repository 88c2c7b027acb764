"""Certify representatives for rows: ground costs, objective and lower bound.

See docs/method.md, "Plan and certificate".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.descent.loop import share_out
from fwc_llm.coreset.distance import check_weights, wasserstein
from fwc_llm.coreset.problem.cells import find_cells, groups_of, limits_of, overall_target
from fwc_llm.coreset.problem.encoded_input import ProblemParams
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.encoding import ColumnWeights, Encoder
from fwc_llm.coreset.problem.frames import Columns, take_named
from fwc_llm.coreset.problem.ground_cost import blocks, cost_matrix
from fwc_llm.coreset.transport.inner_problem import fair_transport
from fwc_llm.coreset.transport.parity import SATISFIED, imbalance, violation
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class ComparedRows:
    """Encoded rows to compare with representatives."""

    table: EncodedTable
    # (n,) indices of the representatives' labels, −1 for other labels; None: unknown, they cost
    # nothing
    level: np.ndarray | None
    outcome: np.ndarray | None
    masses: Masses | None = None  # None: 1 per row


@dataclass(frozen=True)
class Represented:
    """m encoded representatives, and the parameters of their problem."""

    points: EncodedTable
    encoder: Encoder
    cell_of: np.ndarray  # (m,)
    levels: np.ndarray | None  # labels of the cells; None if the fit got no labels
    outcomes: np.ndarray | None
    target: np.ndarray  # (|Y|,) p_T
    limits: Any  # the parity limit: one number, one per level (or row of `groups`), or None
    groups: np.ndarray | None  # (L, |D|), row l: 1 for crossed levels that share limit l, else 0
    terms: ProblemParams

    def read(self, columns: Columns) -> ComparedRows:
        """Encode rows as in the fit; y and sensitive may be None."""
        X, y, sensitive, sample_weight = take_named(*columns)
        table = self.encoder.encode(X, strict=False, what="X")
        cells = find_cells(y, sensitive, table.n)
        level, outcome = np.divmod(cells.cell, cells.n_outcomes)
        return ComparedRows(
            table,
            None
            if sensitive is None or self.levels is None
            else places(cells.levels, self.levels)[level],
            None
            if y is None or self.outcomes is None
            else places(cells.outcomes, self.outcomes)[outcome],
            read_weights(sample_weight, table.n),
        )

    def costs(self, rows: ComparedRows, block: slice = slice(None)) -> np.ndarray:
        """Ground costs (b, m) from a block of rows (default: all rows) to all representatives."""
        level, outcome = np.divmod(self.cell_of, len(self.target))
        costs = cost_matrix(rows.table.take(block), self.points, self.terms.cost)
        if rows.level is not None:
            costs += self.terms.cost_sensitive * (rows.level[block, None] != level)
        if rows.outcome is not None:
            costs += self.terms.cost_outcome * (rows.outcome[block, None] != outcome)
        return costs


def places(labels: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Index (n,) of every label in `categories`, −1 if absent; labels of crossed attributes are
    rows.

    A number and its text are the same label: files may store numbers as text.
    """

    def read(label: Any) -> tuple[Any, Any]:
        if isinstance(label, list):
            parts = label
        else:
            parts = [label]
        return tuple(map(str, parts)), tuple(parts)

    known = [read(label) for label in categories.tolist()]
    place = {label: k for labels in zip(*known, strict=True) for k, label in enumerate(labels)}
    return np.array(
        [place.get(own, place.get(text, -1)) for text, own in map(read, labels.tolist())], np.intp
    )


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
    weights: np.ndarray
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
    costs = cost_sensitive, cost_outcome
    terms = ProblemParams(epsilon, cost, target, *costs, scale, column_weights, penalty, crossed)
    rows = replace(terms, epsilon=None, penalty=None).read(Columns(X, y, sensitive, sample_weight))
    table = rows.table
    cells = rows.cells
    encoded = rows.encoder.encode(points, strict=False, what="points")
    own = find_cells(points_y, points_sensitive, encoded.n)
    outcome = places(own.outcomes, cells.outcomes)
    if (outcome < 0).any():
        unknown = own.outcomes.tolist()[outcome.argmin()]
        raise InputError(f"points_y holds {unknown!r}, which no row has: leave out such points")
    level, which = np.divmod(own.cell, own.n_outcomes)
    encoded = EncodedTable(encoded.numbers.astype(np.float64), encoded.codes)
    cell_of = level * cells.n_outcomes + outcome[which]
    labels = own.levels, cells.outcomes, overall_target(cells, target)
    limits = limits_of(epsilon, own.levels, crossed), groups_of(own.levels, crossed)
    own_points = Represented(encoded, rows.encoder, cell_of, *labels, *limits, terms)
    row_level, row_outcome = np.divmod(cells.cell, cells.n_outcomes)
    compared = ComparedRows(
        table, places(cells.levels, own.levels)[row_level], row_outcome, rows.masses
    )
    return certified(own_points, compared, weights)


def certified(points: Represented, rows: ComparedRows, weights: Any) -> CoresetCertificate:
    """Certify representatives for rows with `weights` (m,); None: with the best weights for
    these rows.
    """
    n = rows.table.n
    m = len(points.cell_of)
    target = points.target
    terms = points.terms
    if points.levels is None:
        n_levels = 1
    else:
        n_levels = len(points.levels)
    charge = 0.0
    n_cells = n_levels * len(target)
    if weights is None:
        cost = np.full((n, n_cells), np.inf)
        label = np.zeros((n_cells, n), np.int32)
        for block in blocks(n):
            costs = points.costs(rows, block)
            for g in np.unique(points.cell_of):
                members = np.flatnonzero(points.cell_of == g)
                nearest = costs[:, members].argmin(axis=1)
                label[g, block] = members[nearest]
                cost[block, g] = costs[np.arange(len(costs)), members[nearest]]
        given = cost, n_levels, len(target), target, points.limits
        plan = fair_transport(
            *given, sample_weight=rows.masses, penalty=terms.penalty, groups=points.groups
        )
        weight = share_out(plan, label, m, rows.masses).weights()
    else:
        weight = check_weights(weights, m)
        charge = terms.penalty or 0.0
        plan = wasserstein(points.costs(rows), weight, rows.masses)
    weight = weight * (m / weight.sum())
    mass = np.bincount(points.cell_of, weight, n_cells)
    moving = imbalance(mass, target)
    apart = violation(mass, target, groups=points.groups)
    if terms.epsilon is None:
        excess = -np.inf
    else:
        excess = violation(mass, target, points.limits, points.groups)
    objective = plan.objective + charge * moving
    lower_bound = plan.lower_bound + charge * moving
    return CoresetCertificate(
        objective, lower_bound, apart, weight, terms.epsilon, n, excess, moving
    )
