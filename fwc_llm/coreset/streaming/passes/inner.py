"""The inner problem of a table in blocks, with its certificate (docs/method.md, "Beyond memory")."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.streaming.collecting.collect import Carried, Collector
from fwc_llm.coreset.streaming.passes.readings import Readings
from fwc_llm.coreset.streaming.passes.visit import Doubt, Part, Visit
from fwc_llm.coreset.transport.column_generation import EXACT, Columns, Optimum, Scan, solve, two_cheapest
from fwc_llm.coreset.transport.cost_table import CostTable
from fwc_llm.coreset.transport.parity import Floats, ParitySet
from fwc_llm.coreset.transport.tie_breaking import Tilt, parts_of, slope_of
from fwc_llm.errors import InputError

_DOUBT = 3.0  # width of the margin, in standard deviations of the sample's prices
_LARGE = 20_000  # costs from which ties are tilted
_FINER = (1.0, 1e-3)  # tilts that are tried
_MOST = 2**31  # bytes of rows in doubt


@dataclass(frozen=True)
class Solved:
    """An exact optimum of the inner problem of the whole table."""

    prices: Floats
    objective: float
    lower_bound: float
    weights: Floats  # (m,) mass of each representative, sums to all mass
    visit: Visit  # the reading that it rests on
    part: Part  # what that found
    torn: Carried  # the rows that were in doubt, or parts of them, with their representatives

    def collected(self, which: int, part: Part | None = None, collector: Collector | None = None) -> Any:
        """What the collector of this number found in all rows, those in doubt included."""
        collector = collector or self.visit.collectors[which]
        found = (part or self.part).collected[which]
        own = collector.of(self.torn)
        return own if found is None else collector.join(own, found)


class InBlocks:
    """A `Supply` (see `fwc_llm.coreset.transport.column_generation`) whose scans read the table.

    A reading sets more rows aside than were asked for. They answer further scans at prices that are near.
    """

    def __init__(self, readings: Readings, visit: Visit, sample: CostTable) -> None:
        self._readings = readings
        self._visit = visit
        self._sample = sample
        self.part: Part | None = None
        self.doubt: Doubt | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._readings.survey.n

    @property
    def visit(self) -> Visit:
        """The last reading."""
        return self._visit

    def sample(self, count: int) -> Columns:
        """See `Supply`."""
        found = replace(self._sample, slope=self._visit.slope).sample(min(count, self._sample.size))
        return replace(found, mass=found.mass * (self._readings.terms.total / self._sample.total))

    def scan(self, prices: Floats, margin: float) -> Scan:
        """See `Supply`."""
        visit = self._visit
        if self.part is None or margin + np.ptp(prices - visit.prices) > visit.margin:
            self._read(prices, margin)
        assert self.doubt is not None
        doubt, terms = self.doubt, self._readings.terms
        tilt = None if visit.slope is None else Tilt(visit.slope, parts_of(doubt.position))
        cost = np.array(doubt.cost.T, order="C")
        if tilt is not None:
            cost += tilt.slope[:, None] * tilt.parts
        key, least, second = two_cheapest(cost, prices)
        near = second <= least + margin
        rows, sure = np.flatnonzero(near), np.flatnonzero(~near)
        mass = doubt.units * terms.unit
        kept, kept_cost = self.kept()
        kept = kept + np.bincount(key[sure], mass[sure], len(prices))
        return Scan(
            key,
            rows,
            Columns(np.ascontiguousarray(cost[:, rows]), mass[rows], 0, tilt and tilt.of(rows)),
            kept,
            kept_cost + float(mass[sure] @ cost[key[sure], sure]),
        )

    def kept(self) -> tuple[Floats, float]:
        """The mass (G,) of the rows that are not set aside, and its cost."""
        assert self.part is not None
        terms = self._readings.terms
        units = np.zeros(terms.cells.n_cells, np.int64)
        np.add.at(units, terms.cell_of, self.part.units)
        return units * terms.unit, float(self.part.cost.total())

    def _read(self, prices: Floats, margin: float) -> None:
        """Reads the table, and sets aside what the sample's prices may get wrong."""
        sample = self.sample(self._sample.size)
        share = _DOUBT * (len(prices) / sample.size) ** 0.5
        wide = max(margin, sample.margin(prices, min(share, 1.0)))
        self._check_room(sample, prices, wide)
        self._visit = replace(self._visit, prices=prices, margin=float(wide), name=uuid4().hex)
        self.part = self._readings.read(self._visit, "distances")
        self.doubt = joined(self.part, self._readings.survey.sample)
        self.part.doubt = {}

    def _check_room(self, sample: Columns, prices: Floats, margin: float) -> None:
        """Refuse to set aside more rows than memory holds: said before they are read."""
        _, least, second = two_cheapest(sample.cost, prices)
        count = self.size * float((second <= least + margin).mean())
        table = self._readings.survey.sample
        each = table.p * 8 + len(prices) * 20 + 40
        if count * each > _MOST:
            raise InputError(
                f"about {count:,.0f} rows cost nearly the same in two cells and would have to be kept in "
                f"memory ({count * each / 2**30:.1f} GB): raise cost_sensitive or cost_outcome"
            )


def joined(part: Part, like: Table) -> Doubt:
    """The rows in doubt of all blocks, in the order of the table; `like` has columns of their kind."""
    parts = [part.doubt[index] for index in sorted(part.doubt)]
    if not parts:
        none = np.zeros((0, part.units.ndim))
        return Doubt(
            like.take(np.zeros(0, np.int64)), none, none, np.zeros(0, np.int64), np.zeros(0, np.int64)
        )
    tables = [one.table for one in parts]
    table = Table(
        np.concatenate([one.numbers for one in tables]), np.concatenate([one.codes for one in tables])
    )
    columns = [[getattr(one, name) for one in parts] for name in ("cost", "label", "units", "position")]
    return Doubt(table, *(np.concatenate(column) for column in columns))


def solve_inner(
    readings: Readings,
    points: np.ndarray,
    collectors: tuple[Collector, ...],
    sample: CostTable,
    prices: Floats,
) -> Solved:
    """The inner problem for these points (m, p), from prices (G,) that are nearly right.

    `sample` are the costs of the sample's rows. Besides, the `collectors` collect what the best plan carries.
    """
    terms = readings.terms
    start = Visit(terms, points, np.zeros(len(prices)), -np.inf, None, collectors, name=uuid4().hex)
    if terms.epsilon is None:
        part = readings.read(start, "distances")
        cost = float(part.cost.total()) / terms.total
        none = joined(part, readings.survey.sample)
        torn = Carried(len(readings.survey.lengths), none.table, none.units, none.units)
        return Solved(start.prices, cost, cost, part.units * terms.unit, start, part, torn)
    fair = ParitySet(terms.target, terms.epsilon, terms.cells.n_levels)
    noise = sample.noise()
    slope = slope_of(sample.cost) if terms.n * len(prices) > _LARGE else None
    for tilt in [] if slope is None else [slope * finer for finer in _FINER]:
        supply = InBlocks(readings, replace(start, slope=tilt), sample)
        found = _judged(readings, supply, solve(supply, prices, fair, noise, True), fair)
        if found.objective - found.lower_bound <= EXACT * max(noise / 1e-12, abs(found.objective)):
            return found
        prices = found.prices
    supply = InBlocks(readings, start, sample)
    return _judged(readings, supply, solve(supply, prices, fair, noise, True), fair)


def _judged(readings: Readings, supply: InBlocks, found: Optimum, fair: ParitySet) -> Solved:
    """The optimum by the true costs, and who carries the rows that were in doubt."""
    doubt, part, visit, terms = supply.doubt, supply.part, supply.visit, readings.terms
    assert doubt is not None
    assert part is not None
    vertex = found.vertex
    prices = vertex.prices if visit.slope is None else vertex.untilted
    rows, key, split = np.arange(len(doubt.units)), vertex.key, vertex.split_row
    mass = doubt.units * terms.unit
    own = doubt.cost[rows, key]
    kept, kept_cost = supply.kept()
    extra = doubt.cost[split, vertex.split_cell] - own[split]
    cost = kept_cost + float(mass @ own) + float(vertex.split_mass @ extra)
    if _stays_cheapest(visit, prices, kept):
        bound = kept_cost - float(kept @ prices) + float(mass @ (doubt.cost - prices).min(axis=1))
    else:
        exact = replace(
            visit, prices=prices, margin=-np.inf, slope=None, collectors=(), with_doubt=False, name=""
        )
        again = readings.read(exact, "bound")
        load = np.bincount(terms.cell_of, again.units * terms.unit, len(prices))
        bound = float(again.cost.total()) - float(load @ prices)
    objective = cost / terms.total
    label = doubt.label[rows, key].astype(np.int64)
    part_label = doubt.label[split, vertex.split_cell].astype(np.int64)
    weights = part.units * terms.unit
    np.add.at(weights, label, mass)
    np.subtract.at(weights, label[split], vertex.split_mass)
    np.add.at(weights, part_label, vertex.split_mass)
    given = np.rint(vertex.split_mass / terms.unit).astype(np.int64)
    rest = doubt.units.copy()
    np.subtract.at(rest, split, given)
    units = np.concatenate([rest, given])
    some = np.flatnonzero(units > 0)
    torn = Carried(
        len(readings.survey.lengths),
        doubt.table.take(np.concatenate([rows, split])[some]),
        np.concatenate([label, part_label])[some],
        units[some],
    )
    lower = min(objective, bound / terms.total + fair.best(prices)[0])
    return Solved(prices, objective, lower, weights, visit, part, torn)


def _stays_cheapest(visit: Visit, prices: Floats, kept: Floats) -> bool:
    """Whether the rows that were not set aside are in their cheapest cell at other prices, too."""
    change = prices - visit.prices
    tilt = 0.0 if visit.slope is None else float(np.ptp(visit.slope))
    return not kept.any() or float(change.max() - change[kept > 0].min()) + tilt <= visit.margin
