"""What is accepted: coverage from 0.93 on, type-I error up to 0.06, no value outside, no contradiction."""

import math

from evals.coverage.tally import Interval, Tally, Verdicts

LEAST_COVERAGE, MOST_TYPE_I = 0.93, 0.06
_FEW = 50  # intervals or tests that say nothing yet


def misses(interval: Interval, errors: float = 2.0) -> bool:
    """Whether the coverage is too low, by more than so many standard errors of the simulation."""
    slack = errors * math.sqrt(LEAST_COVERAGE * (1 - LEAST_COVERAGE) / max(interval.given, 1))
    return interval.given >= _FEW and interval.covered / interval.given < LEAST_COVERAGE - slack


def rejects_too_often(test: Verdicts, errors: float = 2.0) -> bool:
    """Whether the type-I error is too high, by more than so many standard errors of the simulation."""
    slack = errors * math.sqrt(MOST_TYPE_I * (1 - MOST_TYPE_I) / max(test.null, 1))
    return test.null >= _FEW and test.null_rejected / test.null > MOST_TYPE_I + slack


def doubtful(tally: Tally) -> bool:
    """Whether a number lies on the wrong side of its limit, be it by chance: more runs will tell."""
    return any(misses(one, 0.0) for one in tally.intervals.values()) or any(
        rejects_too_often(one, 0.0) for one in tally.tests.values()
    )


def faults(tally: Tally) -> list[str]:
    """What is not accepted, one sentence each."""
    found = []
    for (quantity, where, of), one in tally.intervals.items():
        name = ", ".join(part for part in (quantity, where, of) if part)
        if misses(one):
            found.append(f"{name}: covers {one.covered / one.given:.3f} of {one.given}")
        if one.outside:
            found.append(f"{name}: {one.outside} of {one.given} values lie outside their own interval")
    for (quantity, where, of), test in tally.tests.items():
        name = ", ".join(part for part in (quantity, where, of) if part)
        if rejects_too_often(test):
            found.append(f"{name}: rejects {test.null_rejected / test.null:.3f} of {test.null} true nulls")
        if test.contradictions:
            found.append(f"{name}: {test.contradictions} tests contradict what is printed beside them")
    return found
