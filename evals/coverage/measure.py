"""Compares the records of many draws with the truth: a table of all that is expected."""

from collections import defaultdict
from dataclasses import astuple, dataclass, replace
from math import isnan, nan, sqrt
from zlib import crc32

import numpy as np

from evals.coverage.worlds import World
from fwc_llm.errors import FwcError
from fwc_llm.metrics.adverse_impact import BELOW, NOT_BELOW, impact_tables
from fwc_llm.metrics.counts import REPLY_RATES
from fwc_llm.metrics.intervals import EQUAL, SHOWN
from fwc_llm.metrics.records import (
    ALL_GROUPS,
    AS_NO_SCOPE,
    DECIDED_SCOPE,
    NOTHING,
    READ,
    READINGS,
    TRUTH,
    Record,
    Records,
)
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import AS_NO, EXAMPLES, Unread
from fwc_llm.metrics.statistics import statistics
from fwc_llm.metrics.variance import THESE_EXAMPLES

SIZE = 20_000  # rows of the table to which the truth belongs
ROUNDING = 0.002  # of its numbers: smaller differences are none
MARGIN = 0.05
LEAST = 0.93  # coverage
MOST = 0.06  # share of false verdicts
ERRORS = (
    2.6  # standard errors of the simulation: 99 % of cells are nearer to their mean
)
_FOUR_FIFTHS = 0.8
_RATIOS = "impact_ratio", "scoring_impact_ratio"
_OF_REPLIES = {rate + end for rate in REPLY_RATES for end in ("", "_gap")}
_OF_REPLIES |= {f"{rate}_gap_difference" for rate in REPLY_RATES}
_OF_REPLIES |= {f"{rate}_difference" for rate in REPLY_RATES}


@dataclass(frozen=True)
class Count:
    """Of `given` intervals in `draws`, `missed` lack the truth; of `told` verdicts, `false` are.

    `squares` and `false_squares` sum the squares of the numbers of one draw: intervals of one draw
    are missed together.
    """

    draws: int = 0
    given: int = 0
    missed: int = 0
    squares: int = 0
    told: int = 0
    false: int = 0
    false_squares: int = 0

    def __add__(self, other: "Count") -> "Count":
        sums = (a + b for a, b in zip(astuple(self), astuple(other), strict=True))
        return Count(*sums)

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the truth."""
        return 1 - self.missed / self.given if self.given else nan

    @property
    def error(self) -> float:
        """The share of verdicts that are false."""
        return self.false / self.told if self.told else nan

    @property
    def uncertain(self) -> tuple[float, float]:
        """Standard errors of coverage and of the share of false verdicts, over draws."""
        return (
            _over_draws(self.draws, self.missed, self.squares, self.given),
            _over_draws(self.draws, self.false, self.false_squares, self.told),
        )

    @property
    def accepted(self) -> bool:
        """Whether coverage is 0.93, and false verdicts 0.06, up to the error of the simulation."""
        of_coverage, of_error = (ERRORS * error for error in self.uncertain)
        covers = not self.given or self.coverage + of_coverage >= LEAST
        return covers and (not self.told or self.error - of_error <= MOST)


def _over_draws(draws: int, total: int, squares: int, of: int) -> float:
    """The standard error of a sum's share `of` so many."""
    if not of:
        return nan
    return sqrt(max(0.0, squares - total**2 / draws)) / of


@dataclass(frozen=True)
class Truth:
    """What is true of a world, by the scope of a record: of all replies, or of those read."""

    of_all: Records
    of_read: Records
    as_no: Records

    @classmethod
    def of(cls, world: World) -> "Truth":
        """The truth of a world."""
        lost = world.expected(SIZE, read=False)
        found = [records_of(world.expected(SIZE, read=True))]
        ways: tuple[Unread, Unread] = ("ignore", AS_NO)
        for way in ways:
            design = replace(lost.design, unread=way)
            found.append(records_of(replace(lost, design=design)))
        return cls(*found)

    def about(self, record: Record) -> float:
        """The true value of a record's number; NaN for one that none is known for."""
        records = self.of_all
        if record.scope == READ or record.metric in _OF_REPLIES:
            records = self.of_read
        elif record.scope == AS_NO_SCOPE:
            records = self.as_no
        if record.metric in _RATIOS:  # to whichever group has the highest rate
            cells = {"metric": record.metric, "arm": record.arm, "group": record.group}
            return next((r.value for r in records.where(**cells)), nan)
        of: tuple[str, str] = record.metric, record.arm
        scope = record.scope if record.scope == DECIDED_SCOPE else None
        found = records.find(*of, record.group, record.against, scope=scope)
        if found is NOTHING and record.group and record.against:
            turned = records.find(*of, record.against, record.group)
            sign = -1 if record.metric.endswith("_difference") else 1
            return sign * turned.value
        if record.metric in _OF_REPLIES and found.value in (0.0, 1.0):
            return nan  # no reply is lost so: it says nothing
        return found.value


def measure(world: World, runs: int, seed: int = 0) -> dict[str, Count]:
    """Count by metric over so many draws."""
    rng = np.random.default_rng([seed, crc32(world.name.encode())])
    truth = Truth.of(world)
    counts: dict[str, Count] = defaultdict(Count)
    for _ in range(runs):
        try:
            answered = world.draw(rng)
        except (
            FwcError
        ):  # --assist refuses one draw of a thousand as not drawn at random
            continue
        drawn: dict[str, list[Count]] = defaultdict(list)
        for record in records_of(answered):
            if is_judged(record, EXAMPLES in world.options):
                drawn[record.metric].append(count(record, truth.about(record)))
        for metric, of_draw in drawn.items():
            counts[metric] += _in_one_draw(sum(of_draw, Count()))
    return {metric: count for metric, count in counts.items() if count.given}


def _in_one_draw(total: Count) -> Count:
    squares = total.missed**2, total.false**2
    return replace(total, draws=1, squares=squares[0], false_squares=squares[1])


def records_of(answered: RunAnswers) -> Records:
    """The records of one draw, as an audit or a run writes them."""
    impact = impact_tables(answered)
    return statistics(answered, impact.records).records


def is_judged(record: Record, redrawn: bool) -> bool:
    """Whether the record's interval should hold the truth of the world.

    Where examples are `redrawn`, differences of the examples that were drawn need not.
    """
    if record.arm == TRUTH or record.repeat is not None:
        return False
    if redrawn and record.scope == THESE_EXAMPLES and record.against:
        return False
    if record.scope in (READINGS, ALL_GROUPS):
        return False
    return not isnan(record.low + record.high + record.value)


def count(record: Record, truth: float) -> Count:
    """Count one interval and its verdict."""
    if isnan(truth):
        return Count()
    ends = record.low - ROUNDING, record.high + ROUNDING
    missed = int(not ends[0] <= truth <= ends[1])
    return Count(
        given=1,
        missed=missed,
        told=int(record.verdict != ""),
        false=int(_is_false(record, truth)),
    )


def _is_false(record: Record, truth: float) -> bool:
    """Whether a verdict says what is not true."""
    if record.verdict in SHOWN:
        return abs(truth) < ROUNDING or record.value * truth < 0
    if record.verdict == EQUAL:
        return abs(truth) > MARGIN + ROUNDING
    if record.verdict == BELOW:
        return truth > _FOUR_FIFTHS + ROUNDING
    return record.verdict == NOT_BELOW and truth < _FOUR_FIFTHS - ROUNDING
