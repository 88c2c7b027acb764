"""Readings of the whole table: counted, checked and told."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.streaming.blocks import Source, Survey
from fwc_llm.coreset.streaming.passes.terms import Terms
from fwc_llm.coreset.streaming.passes.visit import Part, Visit
from fwc_llm.errors import InputError

_CLOSE = 1e-6  # relative difference of two sums of the same weights


def ticker(say: Callable[[str], None] | None, words: str) -> Callable[[int, int], None] | None:
    """Says how far a reading is: what `Source.reduce` calls."""
    if say is None:
        return None

    def tick(done: int, blocks: int) -> None:
        say(f"{words}: {done / blocks:.0%}" if blocks else f"{words}: {done:,} blocks")

    return tick


class NoReadingLeftError(Exception):
    """All readings that the caller allows are made."""


class Readings:
    """Reads a table, at most `most` times, but for what the first result takes, or a step made again.

    `stamp` is the source's from before the survey.
    """

    def __init__(
        self,
        source: Source,
        stamp: str,
        survey: Survey,
        problem: Problem,
        most: int,
        say: Callable[[str], None] | None,
    ) -> None:
        self.survey = survey
        self.terms = Terms.of(problem, survey)
        self.count = 0
        self.needed = True  # whether there is no result yet, or a step is made whatever it takes
        self.most = most
        self._source = source
        self._stamp = stamp
        self._say = say

    @property
    def left(self) -> int:
        """How many readings are left: as many as it takes where they are `needed`."""
        return sys.maxsize if self.needed else self.most - self.count

    def read(self, visit: Visit, why: str) -> Part:
        """What all blocks have.

        Raises:
            NoReadingLeftError: there were `most` readings already.
            InputError: the table is no longer what it was.
        """
        if self.left < 1:
            raise NoReadingLeftError
        self.count += 1
        beyond = self.count > self.most
        most = f", beyond max_passes={self.most} to end this step" if beyond else f" of at most {self.most}"
        words = f"reading {self.count}{most}, {why}"
        part = self._source.reduce(visit, visit.merge, ticker(self._say, words))
        check_stamp(self._source, self._stamp)
        if part.n != self.survey.n:
            raise self.changed(f"{part.n:,} rows where there were {self.survey.n:,}")
        if visit.with_doubt:
            doubtful = sum(float(doubt.units.sum()) for doubt in part.doubt.values())
            mass = (float(part.units.sum()) + doubtful) * self.terms.unit
            if abs(mass - self.terms.total) > _CLOSE * self.terms.total:
                raise self.changed("other weights than before")
        return part

    def read_again(self, visit: Visit, before: Part, why: str) -> Part:
        """Another reading of the same rows at the same prices, to collect something else."""
        part = self.read(replace(visit, with_doubt=False), why)
        if not np.array_equal(part.units, before.units):
            raise self.changed("other rows than before")
        return part

    def changed(self, how: str) -> InputError:
        """The error for a table that is not what it was at the last reading."""
        return changed(self._source, how)


def check_stamp(source: Source, stamp: str) -> None:
    """Refuse files that are not those of this stamp."""
    if source.stamp != stamp:
        raise changed(source, "its files have other sizes or times than before")


def changed(source: Source, how: str) -> InputError:
    """The error for a table that is not what it was before."""
    return InputError(f"{source.name} changed while it was read: {how}; fit it while nobody writes to it")
