"""Solve large tables by narrowing them to the rows whose cell is in doubt.

1. Solve a sample of the rows: its prices differ from the table's only by sampling noise.
2. Scan all rows at these prices. A row whose cheapest cell beats the others by more than a margin
   is settled; the settled rows of one cell become one heavy row (an *anchor*), which may move at
   the cost of the margin.
3. Solve the rows in doubt together with the anchors. This problem is a relaxation: if no anchor
   moves, its optimum is the optimum of the whole table. Otherwise continue from its prices with a
   wider margin.

Prices from a similar table can replace the sample's. Small margins are tried first, because prices
are often better than a sample guarantees. Of costs on a grid many rows tie at every margin: these
are perturbed.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fwc_llm.coreset.array_types import Array, Floats, Ints
from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.dual_simplex import (
    RANDOM,
    InfeasibleError,
    StalledError,
    Vertex,
    dual_simplex,
)
from fwc_llm.coreset.transport.linear_program import linear_program
from fwc_llm.coreset.transport.parity import ParitySet
from fwc_llm.errors import InputError

_IN_MEMORY = 20_000  # costs up to which the simplex method solves a table directly
AT_ONCE = 8192  # rows that are copied at once
_BLOCK = 65_536  # rows per block of a scan; the blocks' sums are added in order
_SAMPLE = 8192  # rows from which the margin is computed
_SOLVED = 600  # rows of the first sample to solve, at least
_EACH = 4  # rows of this sample per cell, at least
_GROWTH = 4  # ratio of the sizes of successive samples
_DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices
# the share in doubt starts at this part of the expected one, and grows by _MORE
_PART = 1 / 30
_MORE = 3.0
_WHOLE = 10.0  # share in doubt from which all rows are solved
_ATTEMPTS = 20  # attempts of the simplex method, each from the prices of the last
_STALLS = 8  # attempts after which `width` becomes infinite
_WIDER = 4.0  # ratio of the widths of successive attempts
EXACT = 1e-10  # gap between cost and bound, relative to the costs, that needs no further attempt
_EQUAL = 0.5  # share of distinct costs up to which costs often tie
_SOME = 512  # rows from which this share is estimated
_ON_GRID = 1e-9  # relative rounding of costs that are multiples of one step
_TIED = 0.25  # share of rows that tie at given prices from which these are not used
_PERTURBED = 1e-3  # share of this step by which costs are perturbed


@dataclass(frozen=True)
class Optimum:
    """An optimal vertex of a table, and the sums that certify it."""

    vertex: Vertex
    cost: float  # Σ mass · cost over the plan
    bound: float  # Σ_i r_i min_g (c_ig − u_g), the rows' part of the dual function
    load: Floats  # (G,) mass of each cell


@dataclass(frozen=True)
class CostTable:
    """Costs of rows to cells; the caller's table is never copied as a whole."""

    cost: Array  # (n, G) float32 or float64
    mass: Floats  # (n,) positive
    plain: Array | None = (
        None  # (n, G) costs before they were perturbed; None: they are not
    )

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.cost)

    @cached_property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self.mass.sum())

    @cached_property
    def noise(self) -> float:
        """Largest random change of costs that breaks ties: far below the certificate's tolerance
        of 1e-9.

        It scales with the rows' second smallest costs, so that neither huge costs nor rows of
        hardly any mass raise it.
        """
        every = slice(None, None, max(1, self.size // 1000))
        some = np.abs(self.cost[every], dtype=np.float64)
        two = np.sort(some, axis=1)[:, :2]
        second = two[:, -1][np.isfinite(two[:, -1])]
        costs = next(
            costs
            for costs in (second, some[np.isfinite(some)], np.ones(1))
            if costs.any()
        )
        return min(
            1e-12 * float(costs.mean()),
            1e-11 * max(1.0, float(np.average(two[:, 0], weights=self.mass[every]))),
        )

    def nearest(self) -> Optimum:
        """Plan without a parity limit: every row goes to its cheapest cell, the first on ties."""
        prices = np.zeros(self.cost.shape[1])
        none = np.zeros(0, np.intp)
        key, _, load, cost = self.scan(
            prices, -np.inf
        )  # no row is in doubt, however large the costs are
        return Optimum(Vertex(prices, key, none, none, np.zeros(0)), cost, cost, load)

    def optimum(self, vertex: Vertex) -> Optimum:
        """Compute the sums that certify an optimal vertex of these rows."""
        key_cost = self.cost[np.arange(self.size), vertex.key]
        extra = (
            self.cost[vertex.split_row, vertex.split_cell] - key_cost[vertex.split_row]
        )
        load = np.bincount(vertex.key, self.mass, self.cost.shape[1])
        np.add.at(load, vertex.split_cell, vertex.split_mass)
        np.subtract.at(load, vertex.key[vertex.split_row], vertex.split_mass)
        cost = float(self.mass @ key_cost + vertex.split_mass @ extra)
        _, _, cheapest, least = self.scan(vertex.prices, -np.inf)
        return Optimum(vertex, cost, least - float(cheapest @ vertex.prices), load)

    @np.errstate(invalid="ignore")  # the scan will refuse such rows
    def margin(self, prices: Floats, share: float) -> float:
        """Return a margin with this share of the rows in doubt, midway between two distinct gaps
        of rows.
        """
        _, least, second = two_cheapest(self.cost, prices)
        gaps = np.sort(second - least)
        last = len(gaps) - 1
        gap = gaps[min(int(share * len(gaps)), last)]
        following = gaps.searchsorted(1.0001 * gap + 1e-9 * gaps[-1])
        return float(gap + gaps[min(following, last)]) / 2

    @np.errstate(invalid="ignore")  # the scan will refuse such rows
    def tied(self, prices: Floats) -> float:
        """The share of rows whose two cheapest cells cost the same at the prices, judged by some
        rows.
        """
        some = np.asarray(self.cost[:: max(1, self.size // _SAMPLE)], np.float64)
        _, least, second = two_cheapest(some, prices)
        return float((second - least <= 1e3 * self.noise).mean())

    def sample(self, count: int) -> "CostTable":
        """Copy about `count` rows as float64, at equal steps of mass."""
        if self.mass.min() == self.mass.max():
            rows = np.arange(0, self.size, max(1, self.size // count))
            mass = np.full(len(rows), self.total / len(rows))
        else:
            upto = np.cumsum(self.mass)
            steps = upto.searchsorted((np.arange(count) + 0.5) * (upto[-1] / count))
            last = self.size - 1
            rows, times = np.unique(np.minimum(steps, last), return_counts=True)
            mass = times * (self.total / count)
        return CostTable(np.asarray(self.cost[rows], np.float64), mass)

    def rows(self, rows: Ints | slice = slice(None)) -> "CostTable":
        """Copy some rows (default: all) as float64, with their masses."""
        if self.plain is None:
            plain = None
        else:
            plain = np.asarray(self.plain[rows], np.float64)
        return CostTable(
            np.asarray(self.cost[rows], np.float64), self.mass[rows], plain
        )

    @cached_property
    def step(self) -> float | None:
        """The step of costs that are multiples of it and often tie, judged by some rows; else
        None.
        """
        some = np.asarray(self.cost[:: max(1, self.size // _SOME)], np.float64)
        values = some[np.isfinite(some)]
        values -= values.min(initial=0.0)
        distinct = np.unique(values)
        rounding = _ON_GRID * distinct[-1]
        gaps = np.diff(distinct)
        gaps = gaps[gaps > rounding]
        if len(distinct) > _EQUAL * len(values) or not len(gaps):
            return None
        steps = values / gaps.min()
        if np.abs(steps - np.rint(steps)).max() < _ON_GRID * len(distinct):
            return float(gaps.min())
        return None

    def perturbed(self, step: float) -> "CostTable":
        """A copy whose costs rise by random parts of the `step`, so that they do not tie."""
        cost = np.resize(_PERTURBED * step * RANDOM, self.cost.shape)
        cost += self.cost
        return CostTable(cost, self.mass, self.cost)

    def scan(self, prices: Floats, margin: float) -> tuple[Ints, Ints, Floats, float]:
        """Find each row's cheapest cell; a row whose next cell costs at most `margin` more is in
        doubt.

        Returns the cells (n,), the positions of the rows in doubt, and the other rows' mass (G,)
        and cost.
        """
        key = np.empty(self.size, dtype=np.int32)
        unsure = np.empty(self.size, dtype=np.bool_)
        blocks = -(-self.size // _BLOCK)
        # Padding gives each block's sums a cache line of their own: threads write them.
        settled = np.zeros((blocks, len(prices) + 8))
        settled_cost = np.zeros(blocks)
        faulty = np.zeros(blocks, dtype=np.bool_)
        terms = (
            read_only(self.mass),
            prices,
            margin,
            key,
            unsure,
            settled,
            settled_cost,
            faulty,
        )

        def scan_block(block: int) -> None:
            end = min((block + 1) * _BLOCK, self.size)
            for low in range(block * _BLOCK, end, AT_ONCE):
                # One dtype and layout, because numba compiles a kernel for each.
                some = np.ascontiguousarray(
                    self.cost[low : min(low + AT_ONCE, end)], np.float64
                )
                scan(read_only(some), *terms, low, block)

        Threads(1 if blocks == 1 else None).over(scan_block, range(blocks))
        for block in np.flatnonzero(faulty).tolist():
            _check(self.cost[block * _BLOCK : (block + 1) * _BLOCK], block * _BLOCK)
        return (
            key,
            np.flatnonzero(unsure),
            settled[:, : len(prices)].sum(axis=0),
            float(settled_cost.sum()),
        )


def two_cheapest(cost: Floats, prices: Floats) -> tuple[Ints, Floats, Floats]:
    """Return each row's cheapest cell (the first on ties), and cost − price of this and of the
    next cell.
    """
    least = cost[:, 0] - prices[0]
    second = np.full(len(least), np.inf)
    key = np.zeros(len(least), np.intp)
    for cell in range(1, len(prices)):  # by columns: numpy is slow along a short axis
        reduced = cost[:, cell] - prices[cell]
        key[reduced < least] = cell
        np.minimum(second, np.maximum(least, reduced), out=second)
        np.minimum(least, reduced, out=least)
    return key, least, second


def solve(table: CostTable, prices: Floats, fair: ParitySet, warm: bool) -> Optimum:
    """Solve a table exactly, up to its `noise`, from prices (G,); `warm`: they replace a
    sample's prices.

    Costs that often tie are perturbed. The basis that is optimal for the perturbed costs is nearly
    always optimal for the costs themselves, too: its prices then prove that. If not, the costs are
    solved as they are.
    """
    if fair.groups is None:
        step = table.step
    else:
        step = None
    if step is not None and not (warm and table.tied(prices) < _TIED):
        vertex = _solve(table.perturbed(step), prices, fair, warm=False).vertex
        if vertex.plain is not None:
            best = table.optimum(replace(vertex, prices=vertex.plain))
            if _gap(best, table, fair) <= EXACT * max(
                table.noise / 1e-12 * table.total, abs(best.cost)
            ):
                return best
    return _solve(table, prices, fair, warm)


def _gap(best: Optimum, table: CostTable, fair: ParitySet) -> float:
    """The difference between the plan's cost and the bound at the vertex's prices."""
    least = table.total * fair.best(best.vertex.prices)[0]
    return best.cost + fair.charge(best.load) - best.bound - least


def _solve(table: CostTable, prices: Floats, fair: ParitySet, warm: bool) -> Optimum:
    """Solve a table from prices; see `solve`."""
    cells = len(prices)
    if table.cost.size <= _IN_MEMORY:
        _check(table.cost, 0)
        return solve_directly(table.rows(), prices, fair, table)
    sample = table.sample(_SAMPLE)
    count = max(_SOLVED, _EACH * cells)
    if warm:
        margin = 1e3 * table.noise
    else:
        margin = np.inf
    while not warm:
        before = prices
        _, prices = narrow(table.sample(count), before, margin, fair)
        # Sampling noise falls with 1/√rows: the table's prices differ from these by about the
        # margin.
        margin = (
            float(np.ptp(prices - before))
            * ((1 - min(count / table.size, 1)) / (_GROWTH - 1)) ** 0.5
        )
        warm = (
            margin == 0 or _GROWTH * count >= table.size
        )  # with whole numbers, prices soon stop moving
        count *= 1 if warm else _GROWTH
    share = (
        _PART * _DOUBT * (cells / count) ** 0.5
    )  # s rows leave about 1/√s of the rows in doubt
    while True:
        # The prices improve each time. While they still change much, more rows in doubt would only
        # cost time.
        if share < _WHOLE:
            margin = max(2 * margin, sample.margin(prices, share))
        else:
            margin = np.inf
        proven, prices = narrow(table, prices, margin, fair)
        if proven:
            return proven
        share *= _MORE


def narrow(
    table: CostTable, prices: Floats, margin: float, fair: ParitySet
) -> tuple[Optimum | None, Floats]:
    """Solve the rows in doubt and the anchors; return the table's optimum (None: unproven) and
    new prices.
    """
    key, doubt, settled, settled_cost = table.scan(prices, margin)
    first = len(doubt)  # index of the first anchor
    rows = table.rows(doubt)
    anchors = np.flatnonzero(settled > 0)
    cost = anchor_costs(anchors, prices, margin)
    if rows.plain is None:
        plain = None
    else:
        plain = np.vstack([rows.plain, cost])
    inner = CostTable(
        np.vstack([rows.cost, cost]), np.append(rows.mass, settled[anchors]), plain
    )
    del rows
    best = solve_directly(inner, prices, fair, table, 1.001 * margin)
    vertex = best.vertex
    if (vertex.key[first:] != anchors).any() or (vertex.split_row >= first).any():
        return None, vertex.prices
    key[doubt] = vertex.key[:first]
    anchored = settled_cost - float(
        settled[anchors] @ prices[anchors]
    )  # an anchor costs the price
    vertex = replace(vertex, key=key, split_row=doubt[vertex.split_row])
    return Optimum(
        vertex, best.cost + anchored, best.bound + anchored, best.load
    ), vertex.prices


def anchor_costs(cells: Ints, prices: Floats, margin: float) -> Floats:
    """Costs (a, G) of the anchors of `cells` (a,), up to a constant each: the price, in other
    cells plus the margin.
    """
    cost = np.tile(prices + margin, (len(cells), 1))
    cost[np.arange(len(cells)), cells] = prices[cells]
    return cost


def solve_directly(
    table: CostTable,
    prices: Floats,
    fair: ParitySet,
    full_table: CostTable,
    width: float = np.inf,
) -> Optimum:
    """Solve a table by the simplex method alone, from `prices`, to the precision of the `whole`
    table.

    At first a row may go only to cells that cost at most `width` more than its cheapest one; if the
    bound, which uses all cells, differs from the cost, the width grows.
    """
    for attempt in range(_ATTEMPTS):
        if attempt >= _STALLS:
            width = np.inf
        try:
            if fair.groups is None:
                terms = prices, fair, full_table.noise, width, attempt, table.plain
                vertex = dual_simplex(table.cost, table.mass, *terms)
            else:
                vertex = linear_program(
                    _near(table.cost, prices, width), table.mass, fair
                )
        except (InfeasibleError, StalledError) as error:
            last = attempt >= _STALLS or isinstance(error, InfeasibleError)
            if width == np.inf and last:
                raise
            width = np.inf
            continue
        best = table.optimum(vertex)
        # If ties are nearly parallel, many pivots add up rounding; from the new prices few pivots
        # follow.
        if _gap(best, table, fair) <= EXACT * max(
            full_table.noise / 1e-12 * table.total, abs(best.cost)
        ):
            break
        prices = vertex.prices
        width = _WIDER * width
    return best


def _near(cost: Floats, prices: Floats, width: float) -> Floats:
    """Costs (n, G) of the cells within `width` of the cheapest at the prices; inf for all other
    cells.
    """
    over = cost - prices
    return np.where(over <= over.min(axis=1, keepdims=True) + width, cost, np.inf)


def _check(cost: Array, first: int) -> None:
    """Refuse costs of rows, from the row `first` on, that are NaN, −inf, or inf in all cells."""
    wrong = np.flatnonzero(~np.isfinite(cost.min(axis=1)))
    if len(wrong):
        raise InputError(
            f"the costs of row {first + wrong[0]} to the cells are {cost[wrong[0]]}: give numbers, "
            "and inf only where a cell has no representative"
        )


@kernel
def scan(  # type: ignore[no-untyped-def]
    cost, mass, prices, margin, key, unsure, settled, settled_cost, faulty, low, block
):
    """Find each row's cheapest cell  argmin_g (cost_ig − prices_g)  and whether the next is
    within `margin`.

    `cost` (r, G) has the rows from `low` on; `mass` (n,) are the masses. Writes the cell to
    key[low:] and marks rows in doubt in unsure[low:]. Adds the mass of settled rows to
    settled[block, g], and their cost to settled_cost[block].
    """
    total = settled_cost[block]
    fault = faulty[block]
    for r in range(len(cost)):
        i = low + r
        best = np.inf
        second = np.inf
        cell = 0
        for g in range(cost.shape[1]):
            value = cost[r, g] - prices[g]
            less = value < best
            second = min(second, best if less else value)
            cell = g if less else cell
            best = value if less else best
            fault |= value != value
        fault |= not np.isfinite(best)
        key[i] = cell
        unsure[i] = second <= best + margin
        if not unsure[i]:
            settled[block, cell] += mass[i]
            total += mass[i] * cost[r, cell]
    settled_cost[block] = total
    faulty[block] = fault
