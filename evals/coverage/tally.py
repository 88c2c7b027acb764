"""Counts over many runs: how often an interval holds the truth, how often a test speaks, and
rightly.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any
from zlib import crc32

import numpy as np

from evals.coverage.audits import array_audit, public_audit
from evals.coverage.readings import Reading, Verdict, read
from evals.coverage.worlds import Sample, World

Audit = Callable[[Sample], dict[str, Any]]
_EXACT = 1e-9


@dataclass
class Interval:
    """Of `given` intervals (`absent` more: none), `covered` hold the truth and `outside` miss
    their value.
    """

    given: int = 0
    absent: int = 0
    covered: int = 0
    below: int = 0  # the truth lies below the interval
    outside: int = 0
    width: float = 0.0  # the sum

    def add(self, reading: Reading) -> None:
        """Count one interval."""
        if reading.low is None or reading.high is None or np.isnan(reading.truth):
            self.absent += 1
            return
        self.given += 1
        covers = reading.holds(reading.truth)
        self.covered += covers
        self.below += reading.truth < reading.low and not covers
        self.outside += reading.value is not None and not reading.holds(reading.value)
        self.width += reading.high - reading.low


@dataclass
class Verdicts:
    """Of `null` tests without and `real` ones with a true difference, how many reject; `absent`
    cannot say.

    `wrong` reject in favour of the wrong side; `contradictions` say otherwise than the difference
    beside them.
    """

    null: int = 0
    null_rejected: int = 0
    real: int = 0
    real_rejected: int = 0
    wrong: int = 0
    absent: int = 0
    contradictions: int = 0

    def add(self, test: Verdict) -> None:
        """Count one test."""
        self.contradictions += test.contradicts
        if test.p_value is None:
            self.absent += 1
        elif abs(test.truth) < _EXACT:
            self.null += 1
            self.null_rejected += test.rejects
        else:
            self.real += 1
            self.real_rejected += test.rejects
            self.wrong += (
                test.rejects and test.difference is not None and test.difference * test.truth < 0
            )


Key = tuple[str, str, str]  # quantity, where, what it speaks of


@dataclass
class Tally:
    """All counts of one population."""

    runs: int
    intervals: dict[Key, Interval]
    tests: dict[Key, Verdicts]

    def add(self, other: "Tally") -> None:
        """Take in the counts of further runs."""
        self.runs += other.runs
        _merge(self.intervals, other.intervals)
        _merge(self.tests, other.tests)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Tally":
        """Return the counts that `as_json` wrote."""
        kinds = {"intervals": Interval, "tests": Verdicts}
        counts: dict[str, dict[Key, Any]] = {name: {} for name in kinds}
        for name, kind in kinds.items():
            for row in record[name]:
                numbers = {field.name: row[field.name] for field in fields(kind)}
                counts[name][row["quantity"], row["where"], row["of"]] = kind(**numbers)
        return cls(record["runs"], **counts)

    def as_json(self) -> dict[str, Any]:
        """Return the counts as plain objects."""

        def rows(counts: dict[Key, Any]) -> list[dict[str, Any]]:
            found = [
                {"quantity": quantity, "where": where, "of": of, **asdict(one)}
                for (quantity, where, of), one in counts.items()
            ]
            return [
                {**one, "width": round(one["width"], 3)} if "width" in one else one for one in found
            ]

        return {"runs": self.runs, "intervals": rows(self.intervals), "tests": rows(self.tests)}


def _merge(into: dict[Key, Any], other: dict[Key, Any]) -> None:
    for key, counts in other.items():
        mine = into.setdefault(key, type(counts)())
        for field in fields(counts):
            setattr(mine, field.name, getattr(mine, field.name) + getattr(counts, field.name))


def measure(
    world: World, runs: int, seed: int = 0, part: int = 0, audit: Audit | None = None
) -> Tally:
    """Audit `runs` runs drawn from the world; the same `seed` and `part` draw the same answers.

    Without an `audit` the fast one is used, and the very first run is held against the public door.
    """
    rng = np.random.default_rng([seed, crc32(world.name.encode()), part])
    found = Tally(0, {}, {})
    for number in range(runs):
        sample = world.draw(rng)
        printed = list(read((audit or array_audit)(sample), sample))
        if audit is None and part == number == 0:
            check_same(printed, list(read(public_audit(sample), sample)), world.name)
        _count(found, printed)
        found.runs += 1
    return found


def check_same(
    one: Sequence[Reading | Verdict], other: Sequence[Reading | Verdict], where: str
) -> None:
    """Refuse two readings of one run that differ, rounding aside."""
    first, second = (sorted(_numbers(printed) for printed in read) for read in (one, other))
    same = [name for name, _ in first] == [name for name, _ in second] and np.allclose(
        np.array([numbers for _, numbers in first]),
        np.array([numbers for _, numbers in second]),
        rtol=0,
        atol=1e-9,
        equal_nan=True,
    )
    if not same:
        raise RuntimeError(f"{where}: the arrays' numbers are not those of `audit`")


def _numbers(printed: Reading | Verdict) -> tuple[tuple[str, str, str], tuple[float, ...]]:
    """What a number is, and its parts; NaN for None."""
    parts: tuple[float | None, ...]
    if isinstance(printed, Reading):
        parts = (printed.value, printed.low, printed.high)
        parts = (*parts, 0.0)
    else:
        parts = (printed.p_value, printed.difference, printed.truth, float(printed.contradicts))
    key = (printed.quantity, printed.where, printed.of)
    return key, tuple(np.nan if part is None else part for part in parts)


def _count(found: Tally, printed: Iterable[Reading | Verdict]) -> None:
    for one in printed:
        key = (one.quantity, one.where, one.of)
        if isinstance(one, Reading):
            found.intervals.setdefault(key, Interval()).add(one)
        else:
            found.tests.setdefault(key, Verdicts()).add(one)
