"""FairWASP: fair weights for the rows of a table, with no new points.

See docs/method.md, "Weights without new points" (m = n).

The predecessor that the paper adapts (Xiong, Dalmasso et al., *FairWASP: Fast and Optimal Fair Wasserstein
Pre-processing*, AAAI 2024). The points are the rows themselves, so only the weights are unknown, and the
optimum is global. A row that must leave its cell moves to the nearest row of another cell.
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from fwc_llm.coreset.checks import check_choice, check_epsilon, check_not_negative
from fwc_llm.coreset.compiled import kernel
from fwc_llm.coreset.problem.cells import Cells, check_levels, empty_cell, overall_target
from fwc_llm.coreset.problem.encoding import Encoder
from fwc_llm.coreset.problem.ground_cost import COSTS, MISMATCH, between_cells
from fwc_llm.coreset.problem.input_rows import read_rows
from fwc_llm.coreset.problem.table import Table, value_ids
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.fair import Transport, fair_transport
from fwc_llm.coreset.transport.parity import violation
from fwc_llm.coreset.weights import Masses

WIDTH = 16  # rows that are compared at once
SAMPLE = 2048  # rows at least
DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices
_ROUNDS = 6  # with margins; then all costs are found
_AT_ONCE = 16_384  # rows between two reports
Say = Callable[[str], None]


class FairWASP(BaseEstimator):  # type: ignore[misc]
    """Fair weights of the given rows that change the rows' distribution least.

    Minimises the Wasserstein distance between the rows (mass 1/n each, or by `sample_weight`) and the same
    rows with other weights, subject to |p(y|d) / p_T(y) − 1| ≤ epsilon for every protected level d and
    outcome y.

    Args:
        epsilon: parity limit in [0, 1), or None for no constraint (all weights are then 1).
        cost: "l1" or "sqeuclidean" over the numeric columns; every categorical mismatch costs 1.
        target: outcome distribution p_T, in sorted order of the outcomes or {outcome: p}; None: the rows'.
        cost_sensitive: what it costs to move a row to another protected level.
        cost_outcome: what it costs to move a row to another outcome.
        scale: whether the numbers of X become z-scores; "auto": those of a DataFrame do, those of an array
            are used as they are, with a `ScaleWarning` where its columns differ by orders of magnitude.

    Attributes:
        weights_: (n,) weights of the rows, not negative, summing to n (the number of rows with a weight above
            0, where weights were given): use them as `sample_weight`.
        objective_: Wasserstein distance between the rows and the weighted rows, in units of the cost.
        lower_bound_: a bound that no fair weights can beat; with the objective, the certificate.
        violation_: largest |p(y|d) / p_T(y) − 1|, of `weights_`.
        n_features_in_, feature_names_in_ (when X was a DataFrame).
    """

    __metadata_request__fit = {"sensitive": True, "progress": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        epsilon: float | None = 0.01,
        cost: str = "l1",
        target: Any = None,
        cost_sensitive: float = 1.0,
        cost_outcome: float = 1.0,
        scale: bool | str = "auto",
    ) -> None:
        self.epsilon = epsilon
        self.cost = cost
        self.target = target
        self.cost_sensitive = cost_sensitive
        self.cost_outcome = cost_outcome
        self.scale = scale

    def fit(
        self,
        X: Any,
        y: Any = None,
        sensitive: Any = None,
        sample_weight: Any = None,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Weigh the rows.

        Args:
            X: (n, p) features without D and Y. A plain array is numeric; the columns of a DataFrame are read
                by their kind (see `fwc_llm.coreset.problem.encoding.Encoder`, and `scale`).
            y: (n,) outcomes, any labels; may be left out with epsilon=None.
            sensitive: (n,) protected levels; the columns of an (n, k) array or DataFrame are crossed. May be
                left out with epsilon=None.
            sample_weight: (n,) what each row stands for, not negative, such as a survey's weights; only
                ratios count. A row of weight 0 is as if it were not there, and keeps the weight 0.
            progress: called now and then with how far the search has come, in words. To show them:
                `with fwc_llm.progress.choose().working("weighing") as say: model.fit(…, progress=say)`.

        Raises:
            InputError: bad input, naming the row, column or cell.
        """
        self._check_parameters()
        terms = self.cost, self.scale, self.epsilon
        rows = read_rows(X, y, sensitive, sample_weight, *terms)
        table, cells = rows.table, rows.cells
        if self.epsilon is not None:
            check_levels(cells)
            for g in np.flatnonzero(cells.counts == 0).tolist():
                raise empty_cell(cells, g)
        target = overall_target(cells, self.target)
        if self.epsilon is None:  # nothing moves
            mass = np.ones(table.n) if rows.masses is None else rows.masses.values
            weights = mass * (table.n / mass.sum())
            self.objective_ = self.lower_bound_ = 0.0
        else:
            move = between_cells(cells, self.cost_sensitive, self.cost_outcome)
            search = NearestRows(table, cells, self.cost)
            plan, nearest = weigh(search, cells, move, target, self.epsilon, progress, rows.masses)
            weights = _moved_weights(plan, nearest)
            self.objective_, self.lower_bound_ = plan.objective, plan.lower_bound
        self.weights_ = np.zeros(rows.n)
        self.weights_[rows.of_all(np.arange(rows.n))] = weights
        held = np.bincount(cells.cell, weights, cells.n_cells)
        self.violation_ = violation(held, target)
        self.n_features_in_ = table.p
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if isinstance(rows.encoding, Encoder):
            self.feature_names_in_ = np.array(rows.encoding.order, dtype=object)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tags for scikit-learn's tools."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.epsilon is not None
        return tags

    def _check_parameters(self) -> None:
        check_choice("cost", self.cost, COSTS)
        check_epsilon(self.epsilon)
        check_not_negative("cost_sensitive", self.cost_sensitive)
        check_not_negative("cost_outcome", self.cost_outcome)


def weigh(
    search: "NearestRows",
    cells: Cells,
    move: np.ndarray,
    target: np.ndarray,
    epsilon: float,
    say: Say | None = None,
    masses: Masses | None = None,
) -> tuple[Transport, np.ndarray]:
    """Solve the inner problem of rows that move to rows: the plan, and the nearest row of each cell (n, G).

    Most costs of nearest rows are too high to matter. So they begin as lower bounds, `move` (G, G), and are
    found:

    1. for a sample of the rows, whose optimum has nearly the prices u of the whole;
    2. for the rows and cells in doubt: c_ig − u_g is not clearly more than the least of the row. The search
       stops at that margin; where it finds no row, the margin is a better lower bound.
    3. Then all is solved. If the plan uses only costs that were found, it is optimal: its cost is exact, and
       no other plan can cost less. Else go on at the new prices with a wider margin.

    The nearest row is −1 where it was not needed.
    """
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
        return plan, found.row
    share = DOUBT * (cells.n_cells / len(sample)) ** 0.5
    margin = _margin(found.cost[sample] - plan.prices, share)
    everyone = np.arange(len(cells.cell))
    for turn in range(_ROUNDS + 1):
        found.find_near(everyone, plan.prices, margin if turn < _ROUNDS else np.inf)
        plan = solve(slice(None), plan.prices)
        if found.has(everyone, plan.cell) and found.has(plan.split_row, plan.split_cell):
            break
        margin *= 4
    return plan, found.row


def _moved_weights(plan: Transport, nearest: np.ndarray) -> np.ndarray:
    """(n,) weights of the rows when every row has moved to the `nearest` (n, G) of its cells; n in all."""
    rows = np.arange(len(nearest))
    kept, parts = np.ones(len(rows)), plan.split_share
    np.subtract.at(kept, plan.split_row, parts)
    if plan.row_mass is not None:
        mass = plan.row_mass * len(rows)
        kept, parts = kept * mass, parts * mass[plan.split_row]
    weights = np.bincount(nearest[rows, plan.cell], kept, len(rows))
    np.add.at(weights, nearest[plan.split_row, plan.split_cell], parts)
    return weights


class _Found:
    """Costs of all rows and cells, (n, G): those whose nearest `row` is known, and lower bounds."""

    def __init__(self, search: "NearestRows", cells: Cells, move: np.ndarray, say: Say | None) -> None:
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


class NearestRows:
    """The rows of a table, of which those of a cell are searched. Equal rows of a cell are searched once."""

    def __init__(self, table: Table, cells: Cells, cost: str) -> None:
        self._values = np.ascontiguousarray(table.values, dtype=np.float64)
        self._n_numeric, self._cost, self._threads = table.n_numeric, cost, Threads()
        ids = value_ids(np.column_stack([cells.cell, self._values]))
        _, self._first, self._kind = np.unique(ids, return_index=True, return_inverse=True)
        self._members = [self._first[cells.cell[self._first] == g] for g in range(cells.n_cells)]

    def search(
        self, g: int, rows: np.ndarray, reach: np.ndarray, report: Callable[[int], None] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The cost to the nearest row of cell g of each of `rows` (q,), and that row; −1 beyond `reach` (q,).

        `reach` may be inf. `report` is called with the number of rows done since its last call.
        """
        kinds, group = np.unique(self._kind[rows], return_inverse=True)
        best = np.zeros(len(kinds))
        np.maximum.at(best, group, reach)
        found = np.full(len(kinds), -1)
        members = self._members[g]
        others = make_tiles(self._values[members]), members, self._n_numeric, self._cost == "sqeuclidean"
        for low in range(0, len(kinds), _AT_ONCE):
            part = slice(low, low + _AT_ONCE)
            own, out = self._values[self._first[kinds[part]]], (best[part], found[part])
            self._threads.over_rows(find_nearest, own, *others, *out, n=len(own), chunk=256)
            if report:
                report(len(best[part]))
        return best[group], found[group]


def make_tiles(values: np.ndarray) -> np.ndarray:
    """The rows of `values` (K, p) as (T, p, WIDTH), the last tile filled up with the last row."""
    full = np.minimum(np.arange(-(-len(values) // WIDTH) * WIDTH), len(values) - 1)
    return np.ascontiguousarray(values[full].reshape(-1, WIDTH, values.shape[1]).transpose(0, 2, 1))


@kernel(_nrt=True)  # it makes an array
def find_nearest(  # type: ignore[no-untyped-def]
    rows, tiles, names, n_numeric, squared, best, found, low, high
):
    """Find for `rows[low:high]` (q, p) the nearest row of `tiles` (T, p, WIDTH), if below `best` (q,).

    Writes its cost to `best`, and its entry of `names` (K,) to `found` (q,).
    """
    sums = np.empty(WIDTH)
    for q in range(low, high):
        least = best[q]
        for t in range(len(tiles)):
            for w in range(WIDTH):
                sums[w] = 0.0
            for k in range(rows.shape[1]):
                value = rows[q, k]
                if k >= n_numeric:
                    for w in range(WIDTH):
                        sums[w] += MISMATCH if tiles[t, k, w] != value else 0.0
                elif squared:
                    for w in range(WIDTH):
                        sums[w] += (tiles[t, k, w] - value) * (tiles[t, k, w] - value)
                else:
                    for w in range(WIDTH):
                        sums[w] += abs(tiles[t, k, w] - value)
                if k % 4 == 3:
                    near = 0
                    for w in range(WIDTH):
                        near += 1 if sums[w] < least else 0
                    if near == 0:
                        break
            for w in range(WIDTH):
                if sums[w] < least:
                    least, found[q] = sums[w], names[t * WIDTH + w]
        best[q] = least
