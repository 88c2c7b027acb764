"""The task that reads a block: nearest representatives, who keeps its cell, who is in doubt."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.streaming.blocks import Block, Coded
from fwc_llm.coreset.streaming.collecting.collect import Carried, Collector
from fwc_llm.coreset.streaming.collecting.sums import BlockSums
from fwc_llm.coreset.streaming.nearest.kept import KEPT, Known
from fwc_llm.coreset.streaming.passes.terms import Terms
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.column_generation import two_cheapest
from fwc_llm.coreset.transport.tie_breaking import parts_of
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class Doubt:
    """The rows of a block whose cell is in doubt."""

    table: Table
    cost: np.ndarray  # (d, G) true costs
    label: np.ndarray  # (d, G) nearest representatives
    units: np.ndarray  # (d,)
    position: np.ndarray  # (d,) in the whole table


@dataclass
class Part:
    """What a reading finds in some blocks."""

    n: int
    units: np.ndarray  # (m,) mass that is kept by each representative
    cost: BlockSums  # of that mass
    collected: list[Any]  # by collector
    doubt: dict[int, Doubt] = field(default_factory=dict)  # by block


@dataclass(frozen=True)
class Visit:
    """Reads a block at these points and prices; rows within `margin` of another cell are in doubt.

    Costs are tilted by `slope` (G,), if there is one (see `fwc_llm.coreset.transport.tie_breaking`).
    """

    terms: Terms
    points: np.ndarray
    prices: np.ndarray
    margin: float
    slope: np.ndarray | None
    collectors: tuple[Collector, ...] = ()
    with_doubt: bool = True  # whether the rows in doubt are wanted
    name: str = ""  # of the reading, by which what it found is known again

    def __call__(self, block: Block) -> Part:
        """What the block has."""
        terms, coded = self.terms, self.terms.reader(block)
        part = Part(
            coded.table.n,
            np.zeros(terms.m, np.int64),
            BlockSums.of(block.index, 0.0),
            [None] * len(self.collectors),
        )
        if coded.table.n == 0:
            return part
        units = terms.units(coded)
        known = None if self.with_doubt else KEPT.find(terms.fit, block.index)
        if known is not None and known.reading == self.name:
            own = known.label
        else:
            own = self._find(block, coded, units, part)
        kept = own >= 0
        if terms.weighted:
            np.add.at(part.units, own[kept], units[kept])
        else:
            part.units[:] = np.bincount(own[kept], minlength=terms.m) * int(units[0])
        carried = Carried(block.index, coded.table, own, units)
        part.collected = [one.of(carried) for one in self.collectors]
        return part

    def _find(self, block: Block, coded: Coded, units: np.ndarray, part: Part) -> np.ndarray:
        """The representative (b,) of each row that keeps its cell, else −1; `part` gets their cost."""
        terms, table, slope = self.terms, coded.table, self.slope
        wanted = max(self.margin, 0.0) + (0.0 if slope is None else float(np.ptp(slope)))
        own, gap, cost = self._sure(coded, wanted, KEPT.find(terms.fit, block.index))
        rest = np.flatnonzero(own < 0)
        costs, label = self._nearest(coded, rest)
        position = coded.first + rest
        columns = costs.T
        if slope is not None:
            columns = columns + slope[:, None] * parts_of(position)
        key, least, second = two_cheapest(columns, self.prices)
        if not (np.isfinite(least).all() and np.isfinite(cost).all()):
            where = block.where or f"block {block.index}"
            raise InputError(
                f"{where}: its numbers are so far from the others that costs pass double precision: scale X"
            )
        unsure = (second <= least + self.margin) & (units[rest] > 0)
        rows = np.arange(len(rest))
        own[rest] = np.where(unsure, -1, label[key, rows])
        cost[rest] = costs[rows, key]
        own[units == 0] = -1
        kept = own >= 0
        mass = units[kept] * terms.unit
        part.cost = BlockSums.of(block.index, float(np.sum(cost[kept] * mass)))
        if self.with_doubt and unsure.any():
            some = np.flatnonzero(unsure)
            doubtful = rest[some]
            part.doubt[block.index] = Doubt(
                table.take(doubtful), costs[some], label[:, some].T.copy(), units[doubtful], position[some]
            )
        if self.with_doubt and self.name:
            KEPT.keep(terms.fit, block.index, Known.of(self.name, self.points, self.prices, own, gap))
        return own

    def merge(self, one: Part, other: Part) -> Part:
        """What both parts have, in the first."""
        one.n += other.n
        one.units += other.units
        one.cost.join(other.cost)
        for k, collector in enumerate(self.collectors):
            if one.collected[k] is None or other.collected[k] is None:
                one.collected[k] = other.collected[k] if one.collected[k] is None else one.collected[k]
            else:
                one.collected[k] = collector.join(one.collected[k], other.collected[k])
        one.doubt.update(other.doubt)
        return one

    def _sure(self, coded: Coded, wanted: float, known: Known | None) -> tuple[np.ndarray, ...]:
        """The representatives (b,) of the rows, −1 for all that are not sure, their gaps, and their costs."""
        n = coded.table.n
        if not coded.table.fits_single or not np.isfinite(wanted):
            return np.full(n, -1), np.zeros(n, np.float32), np.zeros(n)
        from fwc_llm.coreset.streaming.nearest.sure import find_sure

        return find_sure(self.terms.problem_of(coded), self.points, self.prices, wanted, known)

    def _nearest(self, coded: Coded, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The costs (r, G) of the rows' nearest representatives, and which they are, (G, r)."""
        some = replace(coded, table=coded.table.take(rows), cell=coded.cell[rows])
        problem = self.terms.problem_of(some)
        if not len(rows) or not coded.table.fits_single:
            return PlainSteps(problem).nearest(self.points)
        from fwc_llm.coreset.descent.steps import CompiledSteps

        return CompiledSteps(problem, Threads(1)).nearest(self.points)
