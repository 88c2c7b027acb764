"""The second pass: solve the inner problem of the whole table exactly.

At the sample's prices, most rows have one cell that is cheapest by more than a margin. In each cell
these rows become one heavy row, an *anchor*. In all other cells, cost minus price of the anchor is
higher by the margin alone, so the anchor costs at most what its rows cost. The problem of the
anchors and the rows in doubt is thus a relaxation. If no anchor moves, its plan is optimal for the
table; else the next pass has a wider margin.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.descent.assignment import nearest_points
from fwc_llm.coreset.descent.loop import share_out
from fwc_llm.coreset.out_of_core.block_tables import Block
from fwc_llm.coreset.out_of_core.sampling_pass import SamplePass, read_labels
from fwc_llm.coreset.problem.encoding import Encoder
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import missed
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.column_generation import (
    CostTable,
    anchor_costs,
    sampled_doubt,
    two_cheapest,
)
from fwc_llm.coreset.transport.inner_problem import Transport
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError
from fwc_llm.notices import SampleWarning, tell

_WIDER = 4.0  # ratio of the margins of successive passes
ROOM = 2**31  # bytes of rows in doubt, at most
_SAME = (
    1e-9  # relative difference of two sums of the same weights that counts as rounding
)


def _summarise(
    terms: Problem,
    points: Array,
    prices: Array,
    margin: float,
    encoder: Encoder,
    cell_of: dict[str, int],
    block: Block,
) -> tuple[Array, ...]:
    """Summarise a block at fixed prices; `terms` has the problem's parameters, but no rows.

    Returns, of the settled rows, the mass by representative (m,) and the total cost by cell (G,);
    of the rows in doubt, costs and labels (d, G) and masses (d,).
    """
    used, mass, found = read_labels(block)
    if not len(used):
        none = np.zeros((0, len(prices)))
        return np.zeros(terms.m), none.sum(axis=0), none, none.astype(np.int32), mass
    cells = np.full(found.n_cells, -1)
    for g in np.flatnonzero(found.counts).tolist():
        if found.name(g) not in cell_of:
            raise _changed(block.where, f"the cell {found.name(g)} is new")
        cells[g] = cell_of[found.name(g)]
    table = encoder.encode(block.columns.X, strict=False, role=block.where).take(used)
    problem = replace(
        terms, table=table, cells=replace(terms.cells, cell=cells[found.cell])
    )
    cost, label = nearest_points(problem, points, Threads(1))
    rows = np.arange(len(used))
    cell, least, second = two_cheapest(cost, prices)
    if not np.isfinite(least).all():
        raise InputError(
            f"{block.where} holds numbers whose costs exceed double precision: scale X"
        )
    sure = second > least + margin
    carrier = label[cell[sure], rows[sure]]
    at = cell[sure]
    carried = np.bincount(carrier, mass[sure], terms.m)
    paid = np.bincount(at, mass[sure] * cost[rows[sure], at], len(prices))
    doubt = np.flatnonzero(~sure)
    return carried, paid, cost[doubt], label[:, doubt].T.astype(np.int32), mass[doubt]


def certify_table(
    sample_pass: SamplePass,
    problem: Problem,
    points: Array,
    tick: Callable[[int, float], None],
) -> tuple[Any, float, float]:
    """Solve the whole table's inner problem for representatives at `points` (m, p), in X's
    precision.

    Return the mass (m,) of each representative, the objective and its lower bound. `problem` is the
    sample's. `tick` gets the number of this pass, from 1, and the share of rows read so far.
    """
    cost = nearest_points(problem, points, Threads(1))[0]
    inner = problem.transport(cost, None)
    prices = inner.prices
    share = sampled_doubt(len(prices), len(cost))
    # A row with one cell is never in doubt.
    margin = np.nan_to_num(CostTable(cost, problem.masses.values).margin(prices, share))
    terms = problem.without_rows()  # which workers do not need
    table = sample_pass.table
    before = float(problem.cells.sizes.sum())
    for number in count(1):
        given = (
            terms,
            points,
            prices,
            margin,
            sample_pass.rows.encoder,
            sample_pass.cell_of,
        )
        _check_room(sample_pass, cost, prices, margin)
        blocks = table.read(partial(_summarise, *given), list, partial(tick, number))
        parts = list(zip(*blocks, strict=True))
        carried, paid = (sum(part, np.zeros(len(part[0]))) for part in parts[:2])
        doubt = [np.concatenate(part) for part in parts[2:]]
        total = float(carried.sum()) + float(doubt[2].sum())
        if abs(total - before) > _SAME * before:
            raise _changed(table.name, "other rows or weights than before")
        solved, weights = _solve(terms, doubt, carried, paid, prices, margin)
        objective = solved.objective
        if weights is not None:
            break
        moved = float(np.ptp(solved.prices - prices))
        prices = solved.prices
        margin = max(_WIDER * margin, 2 * moved)
    if missed(objective, inner.objective, problem.table.n / problem.m):
        tell(
            f"the objective of the whole table is {objective / inner.objective:.3g} times the "
            "sample's: some rows lie far from all others, and the sample lacks them; the "
            "certificate holds, "
            "but other representatives can be much nearer: raise sample, or scale or clip the "
            "columns in "
            "which these rows lie far out",
            SampleWarning,
        )
    return weights, objective, solved.lower_bound


def _solve(
    terms: Problem,
    doubt: list[Array],
    carried: Array,
    paid: Array,
    prices: Array,
    margin: float,
) -> tuple[Transport, Array | None]:
    """Solve rows in doubt and anchors; return the plan and the weights (m,), None if an anchor
    moves.
    """
    costs, labels, mass = doubt
    by_cell = np.bincount(terms.cell_of, carried, len(prices))
    cells = np.flatnonzero(by_cell > 0)
    anchors = anchor_costs(cells, prices, margin)
    anchors += (paid[cells] / by_cell[cells] - prices[cells])[:, None]
    masses = np.concatenate([mass, by_cell[cells]])
    plan = terms.transport(np.concatenate([costs, anchors]), prices, masses)
    count = len(costs)
    if (plan.cell[count:] != cells).any() or (plan.split_row >= count).any():
        return plan, None
    rows = replace(plan, cell=plan.cell[:count], row_mass=plan.row_mass[:count])
    shares = share_out(rows, labels.T, terms.m, Masses(mass))
    return plan, np.maximum(carried + shares.weights(), 0.0)


def _check_room(
    sample_pass: SamplePass, cost: Array, prices: Array, margin: float
) -> None:
    """Refuse a margin with more rows in doubt, estimated from the sample, than memory may hold."""
    _, least, second = two_cheapest(cost, prices)
    rows = sample_pass.table.n * float((second - least <= margin).mean())
    size = rows * (len(prices) * 12 + 8)
    if size > ROOM:
        raise InputError(
            f"about {rows:,.0f} rows cost nearly the same in two cells and would have to be kept "
            f"in memory "
            f"({size / 2**30:.1f} GB): raise cost_sensitive or cost_outcome"
        )


def _changed(name: str, how: str) -> InputError:
    return InputError(
        f"{name} changed while it was read: {how}; fit it while nobody writes to it"
    )
