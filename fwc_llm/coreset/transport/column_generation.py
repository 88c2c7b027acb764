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
_AT_ONCE = 8192  # rows that are copied at once
_SHARED = 65_536  # rows from which threads share the work
_SAMPLE = 8192  # rows from which the margin is computed
_SOLVED = 600  # rows of the sample that is solved first, at least
_EACH = 4  # rows of this sample per cell, at least
_GROWTH = 4  # ratio of the sizes of successive samples
_DOUBT = 4.0  # width of the margin, in standard deviations of a sample's prices
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
        return Optimum(vertex, cost, self.scan(vertex.prices, -np.inf)[3], load)

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

    def sample(self, count: int) -> "CostTable":
        """Copy about `count` rows as float64, at equal steps."""
        rows = slice(None, None, max(1, self.size // count))
        mass = self.mass[rows]
        mass = mass * (self.total / mass.sum())
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
        and cost minus price.
        """
        key, least, second = two_cheapest(self.cost, prices)
        wrong = np.flatnonzero(~np.isfinite(least))
        if len(wrong):
            raise InputError(
                f"the costs of row {wrong[0]} to the cells are {self.cost[wrong[0]]}: give "
                "numbers, and inf only where a cell has no representative"
            )
        sure = second > least + margin
        mass = np.where(sure, self.mass, 0.0)
        settled = np.bincount(key, mass, len(prices))
        return key, np.flatnonzero(~sure), settled, float(mass @ least)


def two_cheapest(cost: Array, prices: Floats) -> tuple[Ints, Floats, Floats]:
    """Return each row's cheapest cell (the first on ties), and cost − price of this (NaN if a
    cost is) and of the next cell.
    """
    n = len(cost)
    key = np.empty(n, np.int32)
    least = np.empty(n)
    second = np.empty(n)

    def find(low: int) -> None:
        rows = slice(low, low + _AT_ONCE)
        # One dtype and layout, because numba compiles a kernel for each.
        some = np.ascontiguousarray(cost[rows], np.float64)
        compare(read_only(some), prices, key[rows], least[rows], second[rows])

    Threads(1 if n <= _SHARED else None).over(find, range(0, n, _AT_ONCE))
    return key, least, second


def solve(table: CostTable, prices: Floats, fair: ParitySet, warm: bool) -> Optimum:
    """Solve a table exactly, up to its `noise`, from prices (G,); `warm`: they replace a
    sample's prices.

    Costs that often tie are perturbed. The basis that is optimal for the perturbed costs is nearly
    always optimal for the costs themselves, too: its prices then prove that. If not, the costs are
    solved as they are.
    """
    if not warm and fair.groups is None and table.step is not None:
        vertex = _solve(table.perturbed(table.step), prices, fair, warm).vertex
        if vertex.plain is not None:
            best = table.optimum(replace(vertex, prices=vertex.plain))
            if _is_exact(best, table, fair, table.noise):
                return best
    return _solve(table, prices, fair, warm)


def _is_exact(best: Optimum, table: CostTable, fair: ParitySet, noise: float) -> bool:
    """Whether the plan's cost and the bound at the vertex's prices differ by rounding only."""
    bound = best.bound + table.total * fair.best(best.vertex.prices)[0]
    gap = best.cost + fair.charge(best.load) - bound
    return gap <= EXACT * max(noise / 1e-12 * table.total, abs(best.cost))


def _solve(table: CostTable, prices: Floats, fair: ParitySet, warm: bool) -> Optimum:
    """Solve a table from prices; see `solve`."""
    cells = len(prices)
    if table.cost.size <= _IN_MEMORY:
        table.scan(prices, np.inf)  # refuses wrong costs
        return solve_directly(table.rows(), prices, fair, table)
    count = max(_SOLVED, _EACH * cells)
    margin = 1e3 * table.noise if warm else np.inf
    while not warm:
        some = table.sample(count)
        prices = narrow(some, prices, margin, fair)[1]
        margin = some.margin(prices, sampled_doubt(cells, count))
        count *= _GROWTH
        warm = count >= table.size
    share = _PART * sampled_doubt(cells, count)
    sample = table.sample(_SAMPLE)
    proven = None
    while proven is None:
        # The prices improve each time. While they still change much, more rows in doubt would only
        # cost time.
        if share < _WHOLE:
            margin = max(2 * margin, sample.margin(prices, share))
        else:
            margin = np.inf
        proven, prices = narrow(table, prices, margin, fair)
        share *= _MORE
    return proven


def sampled_doubt(cells: int, count: int) -> float:
    """The share of rows whose cell the prices of a sample of `count` rows may get wrong: about
    1/√count.
    """
    return float(min(1.0, _DOUBT * (cells / count) ** 0.5))


def narrow(
    table: CostTable, prices: Floats, margin: float, fair: ParitySet
) -> tuple[Optimum | None, Floats]:
    """Solve the rows in doubt and the anchors; return the table's optimum (None: unproven) and
    new prices.
    """
    key, doubt, settled, anchored = table.scan(prices, margin)
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
        if _is_exact(best, table, fair, full_table.noise):
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


@kernel
def compare(cost, prices, key, least, second):  # type: ignore[no-untyped-def]
    """Write the results of `two_cheapest` for costs (r, G)."""
    for i in range(len(cost)):
        best = np.inf
        following = np.inf
        cell = 0
        wrong = False
        for g in range(len(prices)):
            value = cost[i, g] - prices[g]
            less = value < best
            following = min(following, best if less else value)
            cell = g if less else cell
            best = value if less else best
            wrong |= value != value
        key[i] = cell
        least[i] = np.nan if wrong else best
        second[i] = following
