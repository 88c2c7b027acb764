"""Medoids in compiled code: a lower bound of every candidate's cost, and the exact costs of the few below it.

The cost of a candidate is a sum over columns, each a convex function of one number (or, for a category, of
the mass on it). Every column is cut into bins, and each entry's bin kept in a byte. On a bin the function is
at least what its tangents at the bin's two ends say. These bounds, summed, are below the exact cost and
nearly reach it: only candidates whose bound is below the cost of the representative's own row are looked at.
"""

from collections.abc import Iterator

import numpy as np

from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.descent.medians import NONE, Changes, cut, make_grid, put_in_bins
from fwc_llm.coreset.descent.updates import Better, Groups, Medoids, Shares, column_table
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads

_BLOCK = 4096  # candidates or rows at once
_ONE_BY_ONE = 50  # candidates to cost one after the other: for more, columns are sorted
_ROUNDING = 1e-9  # of a bound, relative


class CompiledMedoids(Medoids):
    """See `Medoids`; it remembers which representatives had no better row, and skips them while unchanged."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        super().__init__(problem.table, problem.cost, problem.ids, problem.pools)
        table, self._threads = problem.table, threads
        edges, only = np.full((table.n_numeric, NONE - 1), np.inf), np.empty(NONE)
        for k, own in enumerate(edges):
            cut(own, only, table.column(k))
        self._edges, self._grid = edges, make_grid(edges)
        self._bins = np.empty((0, table.p), np.uint8)
        least, most = table.least[:, None], table.largest[:, None]
        self._ends = np.hstack([least, np.minimum(edges, most), most])  # (q, bins + 1) of the bins
        self._changes = Changes()
        self._open = np.empty(0, bool)  # which representatives had a better row, whether or not it was free

    def rest(self) -> None:
        """Lets go of the bins of all entries, until the next move."""
        self._bins = self._bins[:0].copy()

    def _put_in_bins(self) -> None:
        table, bins = self.table, np.empty((self.table.n, self.table.p), np.uint8)

        def put(low: int, high: int) -> None:
            values = table.numbers_of(slice(low, high))
            put_in_bins(values, self._edges, *self._grid, bins[low:high])
            bins[low:high, table.n_numeric :] = table.codes[low:high] % NONE

        self._threads.over_rows(put, n=table.n, chunk=_BLOCK)
        self._bins = bins

    def move(self, shares: Shares, row_index: np.ndarray, cell_of: np.ndarray) -> np.ndarray:
        """See `Medoids`."""
        if not len(self._bins):
            self._put_in_bins()
        _, touched, changed = self._changes.find(shares, row_index[:, None])
        active = touched[:-1] if changed is None else touched[:-1] | self._open
        self._changes.keep(row_index[:, None])
        self._open = np.zeros(shares.m, bool)
        return self._move(shares.grouped(np.flatnonzero(active)), row_index, cell_of)

    def _better(self, groups: Groups, row_index: np.ndarray, cell_of: np.ndarray) -> Iterator[Better]:
        occupied = np.flatnonzero(np.diff(groups.start))
        batch = 4 * self._threads.count

        def find(j: int) -> Better:
            return self._better_rows(*groups.of(j), int(row_index[j]), self.pools[cell_of[j]], j)

        for start in range(0, len(occupied), batch):
            for better in self._threads.over(find, occupied[start : start + batch].tolist()):
                self._open[better.representative] = bool((better.costs < better.own).any())
                yield better

    def _better_rows(
        self, rows: np.ndarray, weight: np.ndarray, own: int, pool: np.ndarray, j: int
    ) -> Better:
        """The candidates of `pool` that may cost the weighted `rows` less than the row `own` does."""
        table, squared = self.table, self.cost == "sqeuclidean"
        point = table.values_of(np.array([own]))[0]
        values = np.ascontiguousarray(table.values_of(rows).T)
        cost = float(weight @ feature_costs(values, point, self.cost, table.mismatch))
        low = np.empty((table.p, NONE))
        # About the representative, where no sum exceeds its cost by much.
        centre = point[: table.n_numeric]
        values[: table.n_numeric] -= centre[:, None]
        ends, unit = self._ends - centre[:, None], read_only(table.mismatch)
        bound_costs(self._bins, values, rows, weight, ends, unit, squared, *np.empty((2, NONE)), low)
        floor = low.min(axis=1)
        low -= floor[:, None]
        limit = cost - float(floor.sum()) + _ROUNDING * cost
        rest = np.empty(len(pool), np.int64)
        room = np.empty(_BLOCK, np.int64), np.empty(_BLOCK)
        few = rest[: below(self._bins, pool, low, limit, *room, rest)]
        few = few[few != own]
        if len(few) > _ONE_BY_ONE:
            costs = self._cost_together(values, weight, few, centre)
        else:
            others = table.values_of(few)
            others[:, : table.n_numeric] -= centre
            costs = np.array(
                [weight @ feature_costs(values, other, self.cost, table.mismatch) for other in others]
            )
        return Better(j, cost, few, costs)

    def _cost_together(
        self, values: np.ndarray, weight: np.ndarray, candidates: np.ndarray, centre: np.ndarray
    ) -> np.ndarray:
        """What the weighted rows of `values` (p, r), about the `centre`, cost at each of the candidates."""
        total = np.zeros(len(candidates))
        for k, own in enumerate(values):
            numeric = k < self.table.n_numeric
            others = self.table.column(k, candidates).astype(np.float64) - (centre[k] if numeric else 0.0)
            distinct, place = np.unique(np.concatenate([own, others]), return_inverse=True)
            mass = np.bincount(place[: len(own)], weights=weight, minlength=len(distinct))
            total += column_table(mass, distinct, self.table.unit(k), self.cost)[place[len(own) :]]
        return total


@kernel
def bound_costs(  # type: ignore[no-untyped-def]
    bins, values, rows, weight, ends, unit, squared, mass, moment, low
):
    """Writes `low` (p, bins): the least that the weighted rows can cost at a value of each bin, by column.

    `bins` (n, p) are all entries' bins, `values` (p, r) those of the `rows` (r,). `ends` (q, bins + 1) are
    the ends of the bins of the q columns of numbers; a mismatch in another costs its `unit` (c,). `mass` and
    `moment` (bins,) are room.
    """
    size = len(mass)
    for k in range(bins.shape[1]):
        for b in range(size):
            mass[b], moment[b] = 0.0, 0.0
        total, sums, spread = 0.0, 0.0, 0.0
        for i in range(len(rows)):
            b, v, w = bins[rows[i], k], values[k, i], weight[i]
            mass[b] += w
            moment[b] += w * v
            total += w
            sums += w * v
            spread += w * v * v
        below, part = 0.0, 0.0  # of the bins before this one
        for b in range(size):
            if k >= len(ends):
                low[k, b] = unit[k - len(ends)] * (total - mass[b])  # several categories may share a bin
                continue
            first, last = ends[k, b], ends[k, b + 1]
            if squared:
                middle = min(max(sums / total, first), last)
                low[k, b] = middle * (total * middle - 2 * sums) + spread
            else:
                upto, whole = below + mass[b], part + moment[b]
                falls, rises = 2 * below - total, 2 * upto - total  # the slopes before and behind the bin
                at_first = first * falls - (2 * part - sums)
                at_last = last * rises - (2 * whole - sums)
                if falls >= 0:
                    low[k, b] = at_first
                elif rises <= 0:
                    low[k, b] = at_last
                else:
                    cross = (at_first - at_last + rises * last - falls * first) / (rises - falls)
                    low[k, b] = at_first + falls * (cross - first)
            below += mass[b]
            part += moment[b]


@kernel
def below(bins, pool, low, limit, place, cost, rest):  # type: ignore[no-untyped-def]
    """Writes those rows of the `pool` (c,) whose bounds sum to at most `limit` to `rest`; returns how many.

    `bins` (n, p) are all entries' bins, `low` (p, bins) the bounds; `place` and `cost` are room for a block.
    """
    total = 0
    for start in range(0, len(pool), len(place)):
        count = min(len(place), len(pool) - start)
        for c in range(count):
            place[c], cost[c] = pool[start + c], 0.0
        for k in range(bins.shape[1]):
            left = 0
            for c in range(count):  # without a branch that could be mispredicted
                row = place[c]
                value = cost[c] + low[k, bins[row, k]]
                place[left], cost[left] = row, value
                left += value <= limit
            count = left
            if count == 0:
                break
        for c in range(count):
            rest[total + c] = place[c]
        total += count
    return total
