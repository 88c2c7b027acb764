"""The inner problem of one table again and again, while its costs change little.

From one iteration to the next, few rows change their cell. The prices of the last time, and how far they
moved then, say which rows may: these alone are in doubt, and compiled code solves for them at once. The steps
are those of `narrowing`, without what a table that is met for the first time needs.

The result is the same as that of `fair_transport`, up to rounding in the masses of split rows. Where that is
not certain, there is none: where rows tie that no basis separates, of whose plans the way decides; where the
certificate has a gap; where the prices move far.
"""

from collections.abc import Callable

import numpy as np

from fwc_llm.coreset.compiling.ready import is_ready
from fwc_llm.coreset.transport.cost_table import CostTable
from fwc_llm.coreset.transport.fair import Transport
from fwc_llm.coreset.transport.narrowing import EXACT, Scan
from fwc_llm.coreset.transport.parity import Floats, Ints, ParitySet, violation
from fwc_llm.coreset.weights import Masses

_ROOM = "fwc_llm.coreset.transport"
_KERNELS = (
    ("simplex.pivot_kernels", "pivot"),
    ("scan_kernels", "scan"),
    ("repeated.kernels", "lay_out"),
    ("repeated.kernels", "read_plan"),
)
_HELD = -2  # owner of a tie that only holds a price, see `DualSimplex`
_TRIES = 3
_WIDER = 4.0  # from one try to the next
_AHEAD = 2.0  # times as far as the prices moved the last time
_LEAST, _MOST = 48, 4096  # rows in doubt
_ALL = 8  # cells up to which a row in doubt may go to any
_RANDOM = 4099  # numbers that break ties
_PIVOTS = 2000
_FAIR = 1e-9  # by which the violation may exceed the limit


class Repeated:
    """Solves the inner problem for costs (n, G) float32 that change little from one call to the next.

    Where compiled code is not ready, this takes the old way, unless it is to compile it `at_once`.
    """

    def __init__(
        self, n_levels: int, target: Floats, epsilon: float, masses: Masses | None, at_once: bool = False
    ) -> None:
        self._at_once = at_once
        self._fair = ParitySet(target, epsilon, n_levels)
        self._masses = masses
        self._noise = 0.0
        self._margin = np.inf
        self._rest = 0  # calls to leave out, after some in vain
        self._vain = 0
        rng = np.random.default_rng(0)
        self._random = rng.random(_RANDOM)
        self._shift = rng.random(self._fair.n_cells)

    def solve(
        self, cost: np.ndarray, prices: Floats, otherwise: Callable[[np.ndarray, Floats], Transport]
    ) -> Transport:
        """The inner problem for these costs; `prices` (G,) are those of the last time.

        `otherwise` solves what is not certain.
        """
        found = None
        if self._rest:
            self._rest -= 1
        elif (self._noise or len(cost) <= _MOST) and (self._at_once or are_ready()):
            table = CostTable(cost, compiled=True, mass=self._values)
            self._noise = self._noise or table.noise()
            found = self._solve(table, prices)
            self._vain = 0 if found else self._vain + 1
            self._rest = 0 if found else 2 ** min(self._vain, 6) - 2
        if found is None:
            found = otherwise(cost, prices)
            table = CostTable(cost, mass=self._values)
            self._noise = table.noise()
            self._margin = self._fit(table, found.prices, float(np.ptp(found.prices - prices)))
        return found

    @property
    def _values(self) -> Floats | None:
        return None if self._masses is None else self._masses.values

    def _fit(self, table: CostTable, prices: Floats, moved: float) -> float:
        """The margin after the prices have moved so far: not too few rows, nor too many, are in doubt."""
        some = table.sample(_MOST // 4)
        low, high = (some.margin(prices, min(1.0, rows / table.size)) for rows in (_LEAST, _MOST))
        return float(np.clip(_AHEAD * moved, low, high))

    def _solve(self, table: CostTable, start: Floats) -> Transport | None:
        """The plan if it is certain, from these prices."""
        prices, margin = start, self._margin
        for _ in range(_TRIES):
            scan = table.scan(prices, margin)
            count = len(scan.doubt)
            if count > 2 * _MOST:
                return None
            proven, prices = self._solve_doubt(table, scan, prices, margin)
            if proven:
                # As wide as the prices moved, and as many rows in doubt as it takes.
                moved, each = float(np.ptp(prices - start)), margin / max(count, 1)
                if margin == np.inf:
                    self._margin = self._fit(table, prices, moved)
                else:
                    self._margin = float(np.clip(_AHEAD * moved, _LEAST * each, _MOST * each))
                return proven
            margin *= _WIDER
        return None

    def _solve_doubt(
        self, table: CostTable, scan: Scan, prices: Floats, margin: float
    ) -> tuple[Transport | None, Floats]:
        """Solve for the rows in doubt; prices to go on from."""
        from fwc_llm.coreset.transport.repeated.kernels import lay_out, read_plan
        from fwc_llm.coreset.transport.simplex.pivot_kernels import OPTIMAL, pivot

        fair, cost, rows = self._fair, scan.rows.cost, len(scan.doubt)
        cells = len(prices)
        if not np.isfinite(cost).all():  # some levels can carry no mass
            return None, prices
        cell, excess = np.empty((rows + cells) * cells, np.int64), np.empty((rows + cells) * cells)
        first, key = np.empty(rows + cells + 1, np.int64), np.empty(rows + cells, np.int64)
        own, mass = np.empty(rows + cells), np.empty(rows + cells)
        mass[:rows] = scan.rows.mass
        width = np.inf if cells <= _ALL else 2 * margin
        to = cell, excess, first, key, own, mass
        n = lay_out(cost, prices, margin, width, scan.kept, self._noise, self._random, *to)
        pairs, key, own, mass = int(first[n]), key[:n], own[:n], mass[:n]
        shift = self._shift * self._noise
        moving = prices + shift
        vertex = fair.best(moving)[1]
        level = np.array([fair.level(vertex)])
        lean = vertex[1].reshape(fair.n_levels, -1)[level[0]].copy()
        owner, pair, load = np.full(cells, _HELD), np.zeros(cells, np.int64), np.zeros(cells)
        tie_level, tie_lean = np.zeros(cells, np.int64), np.zeros((cells, len(lean)))
        reason, _ = pivot(
            *(cell[:pairs], excess[:pairs], first[: n + 1], key, own, mass, moving, owner, pair),
            *(fair.target, fair.epsilon, table.total, level, lean, tie_level, tie_lean, load, _PIVOTS),
        )
        if reason != OPTIMAL:
            return None, prices
        found = moving - shift
        anchors = np.flatnonzero(scan.kept > 0)
        if (key[rows:] != anchors).any():
            return None, found
        held, sums = scan.kept.copy(), np.empty(2)
        split = np.empty(cells, np.int64), np.empty(cells, np.int64), np.empty(cells)
        near = 8 * cells * self._noise
        splits, tied = read_plan(cost, mass, found, near, key, owner, pair, cell, load, held, *split, sums)
        if splits < 0 or tied > 0:
            return None, found
        total, paid = table.total, float(sums[0]) + scan.kept_cost
        # An anchor's rows cost at least what it would cost to move it.
        away = np.where(np.eye(cells, dtype=bool), prices, (prices + margin)[None, :]) - found
        bound = float(sums[1]) + scan.kept_cost + float(scan.kept @ (away.min(axis=1) - prices))
        value = bound + total * fair.best(found)[0]
        off = violation(held, fair.target)
        if paid - value > EXACT * max(self._noise / 1e-12 * total, abs(paid)) or off > fair.epsilon + _FAIR:
            return None, found
        scan.key[scan.doubt] = key[:rows]
        return self._transport(
            scan.key, scan.doubt, split, splits, held / total, paid, value, off, found
        ), found

    def _transport(
        self,
        key: Ints,
        doubt: Ints,
        split: tuple[Ints, Ints, Floats],
        splits: int,
        held: Floats,
        paid: float,
        value: float,
        off: float,
        prices: Floats,
    ) -> Transport:
        """The plan as `fair_transport` returns it."""
        masses = self._masses
        total = float(len(key)) if masses is None else masses.total
        row, share = doubt[split[0][:splits]].astype(np.intp), split[2][:splits]
        return Transport(
            cell=key,
            split_row=row,
            split_cell=split[1][:splits],
            split_share=share if masses is None else share / masses.values[row],
            mass=held,
            objective=paid / total,
            lower_bound=min(paid, value) / total,
            violation=off,
            prices=prices,
            row_mass=None if masses is None else masses.values / total,
        )


def are_ready() -> bool:
    """Whether all compiled code is there."""
    return all(is_ready(f"{_ROOM}.{module}", name) for module, name in _KERNELS)
