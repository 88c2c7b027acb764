"""From an optimal basis to a plan that keeps parity in every digit.

The basis says which rows are split, and between which cells. How much goes where then follows from two sums:
each row gives all it has, each cell gets its fair mass. Linear equations for all cells at once are solved up
to the rounding of the whole table, which may be more than all that a rare outcome carries. Here every amount
is found on its own, from what depends on nothing else.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, Ints, ParitySet

_ROUNDING = 1e-13  # a level whose mass is this share of all mass below 0 has none
_LIGHT = 1e-5  # share of all mass below which the rounding of all mass is much for a tree
_EXACT = 1e-11  # relative error of a tree's mass that does no harm


@dataclass(frozen=True)
class Basis:
    """The pairs (row, cell) among which rows are split, and what is fixed besides.

    Rows and cells with the pairs as edges are a forest, because the ties of a basis are independent.
    """

    owner: Ints  # (e,) the row of each pair, as an index of `supply`
    cell: Ints  # (e,)
    supply: Floats  # (r,) what the rows have
    settled: Floats  # (G,) the mass of the rows that are in one cell

    def amounts(self, fair: ParitySet, vertices: list[Floats], parts: Floats) -> Floats:
        """Return how much (e,) goes from each pair's row to its cell.

        The cells' masses are a mixture of these vertices of the parity set; `parts` (k,) are the vertices'
        masses up to rounding.
        """
        trees = self._trees()
        masses = self._masses(fair, vertices, parts, trees)
        # In each tree the largest cell takes up the rounding of all others: it does not feel it.
        order = np.lexsort((-masses, trees))
        last = order[np.unique(trees[order], return_index=True)[1]]
        return self._peel(masses - self.settled, set(last.tolist()))

    def _trees(self) -> Ints:
        """The tree (G,) to which each cell belongs, 0, 1, …"""
        tree = np.arange(len(self.settled))
        for row in range(len(self.supply)):
            joined = np.isin(tree, tree[self.cell[self.owner == row]])
            tree[joined] = tree[joined].min()
        return np.asarray(np.unique(tree, return_inverse=True)[1])

    def _masses(self, fair: ParitySet, vertices: list[Floats], parts: Floats, trees: Ints) -> Floats:
        """The cells' masses (G,), within the parity limit up to the last digit.

        Rounding alone may leave a level with a negative mass, or give mass to a level one of whose cells no
        row can reach. Such levels get nothing, and the others' masses are fitted to what the rows have. So
        they are where light rows share a tree, whose mass is less than the rounding of all mass.
        """
        level = np.array([fair.level(vertex) for vertex in vertices])
        supplied = self.settled.copy()
        supplied[self.cell] = 1.0
        reached = np.asarray((supplied.reshape(fair.n_levels, -1) > 0).all(axis=1))
        if not reached[level].any():
            reached[:] = True  # rounding has left no plan: one must come out, and will be refused
        used = np.unique(level[reached[level]])
        shape, mass = np.zeros((len(used), fair.n_cells)), np.zeros(len(used))
        for k, d in enumerate(used.tolist()):
            mine = np.flatnonzero(level == d)
            mass[k] = parts[mine].sum()
            kept = np.maximum(parts[mine], 0.0)
            kept = kept / kept.sum() if kept.any() else np.full(len(mine), 1 / len(mine))
            shape[k] = sum(
                part * fair.masses(vertices[j]) for j, part in zip(mine.tolist(), kept, strict=True)
            )
        supply = np.bincount(trees, self.settled)
        np.add.at(supply, trees[self.cell[np.unique(self.owner, return_index=True)[1]]], self.supply)
        total = float(supply.sum())
        in_tree = np.zeros((len(supply), len(used)))
        np.add.at(in_tree, trees, shape.T)
        lost = (np.abs(in_tree @ mass - supply) > _EXACT * supply) & (supply < _LIGHT * total)
        if not reached[level].all() or (mass < -_ROUNDING * total).any() or lost.any():
            from scipy.optimize import nnls

            # Relative to what each tree has: a tree of light rows is to fit as well as one of heavy rows.
            each = np.where(supply > 0, supply, total)
            most = (in_tree / each[:, None]).max(axis=0)
            mass = nnls(in_tree / each[:, None] / most, supply / each)[0] / most
        masses = np.maximum(mass, 0.0) @ shape
        return np.asarray(masses * (total / masses.sum()))

    def _peel(self, lack: Floats, last: set[int]) -> Floats:
        """The amounts (e,), leaf after leaf: a leaf has one pair left, so it has no choice.

        `lack` (G,) is what the cells have to get, `last` are the cells that are left when all pairs are done.
        """
        rows = len(self.supply)
        left = np.concatenate([self.supply, lack])
        ends = np.stack([self.owner, rows + self.cell]).T.tolist()  # rows and cells in one numbering
        pairs = defaultdict(set)
        for k, pair in enumerate(ends):
            for end in pair:
                pairs[end].add(k)
        amount = np.zeros(len(ends))
        leaves = [end for end in pairs if len(pairs[end]) == 1 and end - rows not in last]
        while leaves:
            leaf = leaves.pop()
            if not pairs[leaf]:
                continue
            k = pairs[leaf].pop()
            row, cell = ends[k]
            amount[k] = max(0.0, left[row] if leaf == row else min(left[cell], left[row]))
            other = cell if leaf == row else row
            left[other] -= amount[k]
            pairs[other].remove(k)
            if len(pairs[other]) == 1 and other - rows not in last:
                leaves.append(other)
        return amount
