"""What is accepted: the simulation must show that coverage is above 0.91 and the type-I error
below 0.08.

A true coverage of 0.91 is found out at least nine times in ten, also where a pair of options is
looked at three times (`pairs.LOOKS`); a true one of 0.95 is accepted in at least 99 of 100.
"""

import math

from evals.coverage.tally import Interval, Tally, Verdicts

LEAST_COVERAGE = 0.91
MOST_TYPE_I = 0.08
_SURE = 1.75  # standard errors of the simulation
_FEW = 50  # intervals or tests that say nothing yet


def bound(hits: int, n: int, side: int) -> float:
    """Return the 96 % limit (Wilson's, lower for -1, upper for 1) of a share of n runs."""
    share = hits / n
    square = _SURE**2 / n
    half = _SURE * math.sqrt(share * (1 - share) / n + square / (4 * n))
    return (share + square / 2 + side * half) / (1 + square)


def accepted(interval: Interval) -> bool:
    """Return whether the runs exclude a coverage of 0.91."""
    return interval.given > 0 and bound(interval.covered, interval.given, -1) > LEAST_COVERAGE


def misses(interval: Interval, strict: bool = True) -> bool:
    """Whether the runs do not exclude a coverage of 0.91; of few runs, whether they exclude
    0.93.
    """
    if interval.given < _FEW:
        return False
    if strict:
        return not accepted(interval)
    return bound(interval.covered, interval.given, 1) < 0.93


def rejects_too_often(test: Verdicts, strict: bool = True) -> bool:
    """Whether the runs do not exclude a type-I error of 0.08; of few runs, whether they exclude
    0.06.
    """
    if test.null < _FEW:
        return False
    if strict:
        return bound(test.null_rejected, test.null, 1) >= MOST_TYPE_I
    return bound(test.null_rejected, test.null, -1) > 0.06


def faults(tally: Tally, strict: bool = True) -> list[str]:
    """What is not accepted, one sentence each."""
    found = []
    for (quantity, where, of), one in tally.intervals.items():
        name = ", ".join(part for part in (quantity, where, of) if part)
        if misses(one, strict):
            found.append(f"{name}: covers {one.covered / one.given:.3f} of {one.given}")
        if one.outside:
            found.append(
                f"{name}: {one.outside} of {one.given} values lie outside their own interval"
            )
    for (quantity, where, of), test in tally.tests.items():
        name = ", ".join(part for part in (quantity, where, of) if part)
        if rejects_too_often(test, strict):
            found.append(
                f"{name}: rejects {test.null_rejected / test.null:.3f} of {test.null} true nulls"
            )
        if test.contradictions:
            found.append(
                f"{name}: {test.contradictions} tests contradict what is printed beside them"
            )
    return found
