"""Small systematic changes of costs that tie, so that few rows are in doubt at any prices.

In tables of whole numbers a large share of the rows costs the same in two cells at the best prices, and no
narrowing helps. A tilt makes these rows different: row i pays `slope[g] · parts[i]` more in cell g. While it
is small enough, the best basis of the tilted costs is a best one of the true costs too, and the true costs
fix the prices of that basis. Whether it was small enough, the certificate says: it is computed from the true
costs.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, Ints

# Its multiples, less their whole parts, are spread evenly however many there are.
GOLDEN = 0.6180339887498949
_TIED = 0.75  # share of different values below which costs tie
_SOME = 2000  # rows to look at
_ALIKE = 2.0  # times as steep
_FINE = 1e-5  # of the step between costs


@dataclass(frozen=True)
class Tilt:
    """What the costs of some rows contain besides: `slope[g] · parts[i]`."""

    slope: Floats  # (G,)
    parts: Floats  # (N,)

    def of(self, rows: Ints) -> "Tilt":
        """The same of some rows."""
        return Tilt(self.slope, self.parts[rows])

    def and_flat(self, count: int) -> "Tilt":
        """The same with further rows that are not tilted."""
        return Tilt(self.slope, np.append(self.parts, np.zeros(count)))

    def between(self, rows: Ints, cell: Ints, other: Ints) -> Floats:
        """How much more each of the rows pays in a cell than in another."""
        return np.asarray(self.parts[rows] * (self.slope[cell] - self.slope[other]))


@dataclass(frozen=True)
class Start:
    """Where the solution of similar costs can begin. Where costs tie, their prices alone do not say how."""

    prices: Floats  # (G,)
    tilted: Floats | None = None  # (G,) the prices of the tilted costs
    slope: Floats | None = None  # (G,) of their tilt

    def of(self, cells: Ints) -> "Start":
        """The same for some cells."""
        if self.tilted is None or self.slope is None:
            return Start(self.prices[cells])
        return Start(self.prices[cells], self.tilted[cells], self.slope[cells])

    def among(self, cells: Ints, count: int) -> "Start":
        """The same for these of `count` cells; the others have zeros."""

        def spread(values: Floats) -> Floats:
            every = np.zeros(count)
            every[cells] = values
            return every

        if self.tilted is None or self.slope is None:
            return Start(spread(self.prices))
        return Start(spread(self.prices), spread(self.tilted), spread(self.slope))

    def fits(self, slope: Floats) -> bool:
        """Whether its tilt is about as steep as this one."""
        if self.slope is None or self.tilted is None:
            return False
        return bool((self.slope <= _ALIKE * slope).all() and (slope <= _ALIKE * self.slope).all())


def parts_of(rows: Ints) -> Floats:
    """The number in [0, 1) that belongs to each row."""
    turns = rows * GOLDEN
    turns -= np.floor(turns)
    return np.asarray(turns)


def slope_of(cost: np.ndarray) -> Floats | None:
    """The slope (G,) of the tilt for a table (n, G) of costs; None if few of its rows tie."""
    cells = cost.shape[1]
    if cells == 1:
        return None
    some = cost[:: max(1, len(cost) // _SOME)].astype(np.float64)
    different, steps = [], []
    order = np.argsort(np.where(np.isfinite(some), some, np.inf).sum(axis=0), kind="stable")
    for one, other in pairwise(order):
        both = np.isfinite(some[:, one]) & np.isfinite(some[:, other])
        if not both.any():
            continue
        values = np.unique(some[both, one] - some[both, other])
        different.append(len(values) / both.sum())
        steps.append(np.diff(values))
    if not different or float(np.median(different)) > _TIED:
        return None
    size = float(np.abs(some, where=np.isfinite(some), out=np.zeros_like(some)).max())
    step = np.concatenate(steps)
    step = step[step > 1e-9 * size]
    if not len(step):
        return None
    slope = np.asarray(np.random.default_rng(0).uniform(0.5, 1.0, cells))
    return np.asarray(slope * (_FINE * float(np.quantile(step, 0.1))))
