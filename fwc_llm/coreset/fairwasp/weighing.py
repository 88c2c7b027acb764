"""Fair masses of the cells, with the costs of nearest rows found only where they may matter.

The inner problem (`fwc_llm.coreset.transport.fair`) needs, for every row and cell, the cost of the nearest
row of that cell. Most of these costs are too high to matter. So they begin as lower bounds, and are found:

1. for a sample of the rows, whose optimum has nearly the prices u of the whole;
2. for the rows and cells in doubt: c_ig − u_g is not clearly more than the least of the row. The search for
   the nearest row stops at that margin. Where it finds none, the margin is a better lower bound.
3. Then all is solved. If the plan uses only costs that were found, it is optimal: its cost is exact, and no
   other plan can cost less, as the others are lower bounds. Else go on at the new prices with a wider margin.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.fairwasp.nearest import NearestRows
from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.transport.fair import Transport, fair_transport
from fwc_llm.coreset.weights import Masses

SAMPLE = 2048  # rows at least
DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices
_ROUNDS = 6  # with margins; then all costs are found
Say = Callable[[str], None]


@dataclass(frozen=True)
class Weighed:
    """The optimal plan, and the nearest row of each cell (n, G), −1 where it was not needed."""

    plan: Transport
    nearest: np.ndarray

    def weights(self) -> np.ndarray:
        """(n,) what the rows hold when every row has moved to the nearest of its cells; n in all."""
        plan, rows = self.plan, np.arange(len(self.nearest))
        kept, parts = np.ones(len(rows)), plan.split_share
        np.subtract.at(kept, plan.split_row, parts)
        if plan.row_mass is not None:
            mass = plan.row_mass * len(rows)
            kept, parts = kept * mass, parts * mass[plan.split_row]
        weights = np.bincount(self.nearest[rows, plan.cell], kept, len(rows))
        np.add.at(weights, self.nearest[plan.split_row, plan.split_cell], parts)
        return weights


def weigh(
    search: NearestRows,
    cells: Cells,
    move: np.ndarray,
    target: np.ndarray,
    epsilon: float,
    say: Say | None = None,
    masses: Masses | None = None,
) -> Weighed:
    """Solve the inner problem of rows, of these masses, that move to rows; `move` (G, G) is between cells."""
    found = _Found(search, cells, move, say)

    def solve(rows: np.ndarray | slice, prices: np.ndarray | None) -> Transport:
        return fair_transport(
            *(found.cost[rows], cells.n_levels, cells.n_outcomes, target, epsilon, prices),
            sample_weight=None if masses is None else masses.take(rows),
        )

    sample = _sample(cells)
    found.find_near(sample, np.zeros(cells.n_cells), np.inf)
    plan = solve(sample, None)
    if len(sample) == len(cells.cell):
        return Weighed(plan, found.row)
    share = DOUBT * (cells.n_cells / len(sample)) ** 0.5
    margin = _margin(found.cost[sample] - plan.prices, share)
    everyone = np.arange(len(cells.cell))
    for turn in range(_ROUNDS + 1):
        found.find_near(everyone, plan.prices, margin if turn < _ROUNDS else np.inf)
        plan = solve(slice(None), plan.prices)
        if found.has(everyone, plan.cell) and found.has(plan.split_row, plan.split_cell):
            break
        margin *= 4
    return Weighed(plan, found.row)


class _Found:
    """Costs of all rows and cells, (n, G): those whose nearest `row` is known, and lower bounds."""

    def __init__(self, search: NearestRows, cells: Cells, move: np.ndarray, say: Say | None) -> None:
        self._search, self._own, self._move, self._say = search, cells.cell, move, say
        rows = np.arange(len(cells.cell))
        self.cost = move[cells.cell]
        self.row = np.full(self.cost.shape, -1, np.int32 if len(rows) < 2**31 else np.int64)
        self.row[rows, cells.cell] = rows

    def has(self, rows: np.ndarray, cell: np.ndarray) -> bool:
        """Whether the costs of these rows to these cells are known."""
        return bool((self.row[rows, cell] >= 0).all())

    def find_near(self, rows: np.ndarray, prices: np.ndarray, margin: float) -> None:
        """Finds the costs of `rows` that, less the price of the cell, may be within `margin` of the least."""
        values = self.cost[rows] - prices
        values[self.row[rows] < 0] = np.inf
        least = values.min(axis=1) + margin
        total = int(((self.row[rows] < 0) & (self.cost[rows] - prices < least[:, None])).sum())
        done = 0

        def report(more: int) -> None:
            nonlocal done
            done += more
            if self._say:
                self._say(f"nearest rows: {done:,} of at most {total:,} searched")

        for g in range(len(prices)):
            wanted = np.flatnonzero((self.row[rows, g] < 0) & (self.cost[rows, g] - prices[g] < least))
            some = rows[wanted]
            between = self._move[self._own[some], g]
            reach = least[wanted] + prices[g] - between
            cost, self.row[some, g] = self._search.search(g, some, reach, report)
            cost += between
            self.cost[some, g] = cost
            least[wanted] = np.minimum(least[wanted], cost - prices[g] + margin)


def _sample(cells: Cells) -> np.ndarray:
    """Rows, in order, that hold of every cell its share; all of them if they are few."""
    n = len(cells.cell)
    size = max(SAMPLE, int(n ** (2 / 3) * cells.n_cells ** (1 / 3)))
    if 2 * size >= n:
        return np.arange(n)
    mixed = np.random.default_rng(0).permutation(n)
    by_cell = mixed[np.argsort(cells.cell[mixed], kind="stable")]
    return np.sort(by_cell[np.arange(0, n, n / size).astype(np.int64)])


def _margin(values: np.ndarray, share: float) -> float:
    """The difference between the two least values (n, G) of a row below which this share of rows is.

    Where rows tie, that may be nothing; the margin is then a hundredth of the mean difference.
    """
    two = np.partition(values, 1, axis=1)[:, :2]
    gaps = two[:, 1] - two[:, 0]
    place = min(int(share * len(gaps)), len(gaps) - 1)
    return max(float(np.partition(gaps, place)[place]), float(gaps.mean()) / 100)
