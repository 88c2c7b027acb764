"""The inner problem of one table again and again, while its costs change little.

From one iteration to the next, few rows change their cell. The prices of the last time, and how far they
moved then, say which rows may: these alone are in doubt. Where the prices move far, or rounding leaves a gap,
`fair_transport` solves the problem as one that is met for the first time.
"""

from collections.abc import Callable

import numpy as np

from fwc_llm.coreset.transport.column_generation import EXACT, CostTable, narrow
from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError
from fwc_llm.coreset.transport.fair import Transport, transport_of
from fwc_llm.coreset.transport.parity import Floats, ParitySet, violation
from fwc_llm.coreset.weights import Masses

_TRIES = 3
_WIDER = 4.0  # from one try to the next
_AHEAD = 2.0  # times as far as the prices moved the last time
_LEAST, _MOST = 48, 4096  # rows in doubt
_FAIR = 1e-9  # by which the violation may exceed the limit


class Repeated:
    """Solves the inner problem for costs (n, G) float32 that change little from one call to the next."""

    def __init__(self, fair: ParitySet, masses: Masses | None) -> None:
        self._fair, self._masses = fair, masses
        self._margin = np.inf
        self._least, self._most = 0.0, np.inf  # margins
        self._rest = 0  # calls to leave out, after some in vain
        self._vain = 0

    def solve(
        self, cost: np.ndarray, prices: Floats, otherwise: Callable[[np.ndarray, Floats], Transport]
    ) -> Transport:
        """The inner problem for these costs; `prices` (G,) are those of the last time.

        `otherwise` solves it where this way fails.
        """
        table = CostTable(cost, None if self._masses is None else self._masses.values)
        plan = None
        if self._rest:
            self._rest -= 1
        elif self._margin < np.inf or len(cost) <= _MOST:
            plan = self._solve(table, prices)
            self._vain = 0 if plan else self._vain + 1
            self._rest = 0 if plan else 2 ** min(self._vain, 6) - 2
        if plan is None:
            plan = otherwise(cost, prices)
            self._margin = np.inf
            self._follow(table, prices, plan.prices)
        return plan

    def _follow(self, table: CostTable, before: Floats, prices: Floats) -> None:
        """Set the margin by how far the prices moved: not too few rows, nor too many, are in doubt."""
        if self._margin == np.inf:
            some = table.sample(_MOST // 4)
            self._least, self._most = (
                some.margin(prices, min(1.0, rows / table.size)) for rows in (_LEAST, _MOST)
            )
        self._margin = float(np.clip(_AHEAD * np.ptp(prices - before), self._least, self._most))

    def _solve(self, table: CostTable, start: Floats) -> Transport | None:
        """The plan from these prices, if it is proven to be optimal."""
        prices, margin, fair = start, self._margin, self._fair
        for _ in range(_TRIES):
            try:
                proven, prices = narrow(table, prices, margin, fair, 2 * _MOST)
            except (InfeasibleError, StalledError):
                return None
            if proven:
                self._follow(table, start, prices)
                plan = transport_of(proven, fair, fair.target, np.arange(len(prices)), len(prices), table)
                gap = (plan.objective - plan.lower_bound) * table.total
                scale = max(table.noise / 1e-12 * table.total, abs(plan.objective * table.total))
                keeps = violation(plan.mass, fair.target, fair.limits, fair.groups) <= _FAIR
                return plan if keeps and gap <= EXACT * scale else None
            margin *= _WIDER
        return None
