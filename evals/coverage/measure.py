"""Compares the records of many draws with the truth, which is one huge draw."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from zlib import crc32

import numpy as np

from evals.coverage.worlds import World
from fwc_llm.errors import FwcError
from fwc_llm.metrics.adverse_impact import impact_tables
from fwc_llm.metrics.intervals import EQUAL, SHOWN
from fwc_llm.metrics.records import ASSISTED, READ, TRUTH, Record, Records
from fwc_llm.metrics.sampling_design import ASSIST, STRATA, UNREAD, UNTIL
from fwc_llm.metrics.statistics import statistics

HUGE = 240_000  # rows of the draw that counts as the truth
NOTHING = 0.012  # differences that count as none: the truth has an error of its own
_SLACK = NOTHING / 4
_MARGIN = 0.05
_LEFT_OUT = (
    re.compile(  # of the test set, of a median that the draw chose, or of lost replies
        "median|most_accurate|base_rate$|_at_base|scoring"
        "|coverage|refused|filtered|truncated|unfinished|unread"
    )
)
_ONE_READING = (READ, ASSISTED, "unread replies as no", "within strata")


@dataclass
class Count:
    """Of `given` intervals, `covered` hold the truth; of `null` verdicts, `false` are wrong."""

    given: int = 0
    covered: int = 0
    null: int = 0
    false: int = 0
    width: float = 0.0

    def __add__(self, other: "Count") -> "Count":
        return Count(
            *(
                mine + theirs
                for mine, theirs in zip(astuple(self), astuple(other), strict=True)
            )
        )

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the truth."""
        return self.covered / self.given if self.given else np.nan

    @property
    def error(self) -> float:
        """The share of false verdicts."""
        return self.false / self.null if self.null else np.nan


def measure(world: World, runs: int, seed: int = 0) -> dict[str, Count]:
    """Count by metric over so many draws."""
    rng = np.random.default_rng([seed, crc32(world.name.encode())])
    true = records_of(without_effort(world), rng, HUGE)
    counts: dict[str, Count] = defaultdict(Count)
    for _ in range(runs):
        try:
            records = records_of(world, rng)
        except (
            FwcError
        ):  # --assist refuses one draw of a thousand as not drawn at random
            continue
        for record in records:
            if is_judged(record):
                expected = true.find(
                    record.metric, record.arm, record.group, record.against
                )
                count(counts[record.metric], record, expected)
    return dict(counts)


def without_effort(world: World) -> World:
    """The world in which all replies are read, and no prediction, stratum or look is needed."""
    return replace(world, options=world.options - {ASSIST, STRATA, UNREAD, UNTIL})


def records_of(world: World, rng: np.random.Generator, rows: int = 0) -> Records:
    """The records of one draw."""
    answered = world.answered(world.draw(rng, rows), rng)
    impact = impact_tables(answered)
    return statistics(answered, more=impact.records).records


def is_judged(record: Record) -> bool:
    """Whether the record's interval should hold the truth of the world."""
    if record.arm == TRUTH or record.repeat is not None or record.scope in _ONE_READING:
        return False
    if np.isnan(record.low + record.value):
        return False
    return not _LEFT_OUT.search(record.metric)


def count(counted: Count, record: Record, expected: Record) -> None:
    """Count one interval and its verdict."""
    if not expected.known:
        return
    counted.given += 1
    counted.covered += int(
        record.low - _SLACK <= expected.value <= record.high + _SLACK
    )
    counted.width += float(record.high - record.low)
    if not record.verdict or "four fifths" in record.verdict:
        return
    none = abs(expected.value) < NOTHING
    wrong_side = record.value * expected.value < 0 and not none
    if record.verdict in SHOWN:
        counted.null += 1
        counted.false += int(none or wrong_side)
    elif record.verdict == EQUAL:
        counted.null += 1
        counted.false += int(abs(expected.value) > _MARGIN + NOTHING)
    elif none:
        counted.null += 1


def together(
    by_world: Mapping[str, Mapping[str, Count]],
) -> dict[str, tuple[Count, str, str]]:
    """By metric: all counts, the world of the least coverage, and that of the largest error."""
    found = {}
    for metric in sorted({metric for counts in by_world.values() for metric in counts}):
        of = {
            world: counts[metric]
            for world, counts in by_world.items()
            if metric in counts
        }
        total = sum(of.values(), Count())
        least = min(of, key=lambda world: np.nan_to_num(of[world].coverage, nan=1.0))
        most = max(of, key=lambda world: np.nan_to_num(of[world].error, nan=0.0))
        found[metric] = total, least, most
    return found
