"""The populations that are drawn: designs, pairs of arms, repeats, correlation, shifts by examples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evals.coverage.worlds import Table, World

REPEATS = (1, 2, 5, 20, 50)
PAIR = tuple[Table, Table]
_SAID = ("correlation", "shift", "group_shift", "agreement")

# Rows with label no and yes in the UCI files: adult.test without rows that lack a value, and german.data.
ADULT: Table = ((4356, 557), (7004, 3143))
GERMAN: Table = ((109, 201), (191, 499))


@dataclass(frozen=True)
class Design:
    """A table and how a repeat's test rows are drawn from it (see `World`)."""

    name: str
    table: Table
    rows: Table | int

    def world(self, arms: str, yes: PAIR, repeats: int, **options: Any) -> World:
        """The world of two arms under this design, named after all that sets it apart."""
        levels = len(self.table)
        groups = ("F & old", "F & young", "M & old", "M & young") if levels == 4 else tuple("ABC"[:levels])
        said = [f"{key.replace('_', ' ')} {value}" for key, value in options.items() if key in _SAID]
        if "examples" in options:
            said.append(f"examples drawn {' against '.join(dict.fromkeys(options['examples']))}")
        name = ", ".join([self.name, arms, f"R = {repeats}", *said])
        return replace(World(name, groups, self.table, self.rows, yes, repeats), **options)


ADULT_200 = Design("Adult, n = 200", ADULT, ((75, 25), (25, 75)))
GERMAN_100 = Design("German, n = 100", GERMAN, ((35, 15), (15, 35)))
TENS = Design("groups of 10", ((400, 100), (300, 200)), ((7, 3), (3, 7)))
UNBALANCED = Design("groups of 90 and 8", ((3000, 1000), (60, 60)), ((50, 40), (4, 4)))
FIVES = Design("groups of 100 and 5", ((500, 500), (40, 40)), ((50, 50), (3, 2)))
THREE = Design("three groups of 50", ((900, 300), (500, 500), (300, 900)), ((35, 15), (25, 25), (15, 35)))
THREE_UNEVEN = Design(
    "three groups, 80, 20 and 8", ((900, 300), (100, 100), (40, 40)), ((50, 30), (12, 8), (4, 4))
)
CROSSED = Design("four crossed groups of 30", ((400, 200),) * 4, ((20, 10), (15, 15), (15, 15), (10, 20)))
RANDOM_200 = Design("Adult, 200 random rows", ADULT, 200)
RANDOM_100 = Design("German, 100 random rows", GERMAN, 100)
RANDOM_UNEVEN = Design("100 random rows, 7 of one group", ((2500, 2150), (200, 150)), 100)


def _same(*rates: tuple[float, float]) -> PAIR:
    return rates, rates


TWO: dict[str, PAIR] = {
    "equal arms": _same((0.2, 0.7), (0.3, 0.8)),
    "errors in opposite cells": (((0.3, 0.98), (0.3, 0.98)), ((0.02, 0.7), (0.02, 0.7))),
    "opposite gaps": (((0.2, 0.2), (0.5, 0.5)), ((0.5, 0.5), (0.2, 0.2))),
    "no gap": _same((0.4, 0.4), (0.4, 0.4)),
    "gap 0.1 against 0.3": (((0.3, 0.6), (0.25, 0.55)), ((0.15, 0.55), (0.35, 0.75))),
}
EDGE: dict[str, PAIR] = {
    "rates near 0": _same((0.01, 0.03), (0.02, 0.05)),
    "rates near 1": _same((0.95, 0.98), (0.97, 0.99)),
    "never against rarely": (((0.0, 0.0), (0.0, 0.0)), ((0.0, 0.0), (0.02, 0.02))),
    "always right against nearly": (((0.0, 1.0), (0.0, 1.0)), ((0.01, 0.99), (0.01, 0.99))),
}
MORE: dict[str, tuple[tuple[float, float], ...]] = {
    "equal arms": ((0.2, 0.7), (0.3, 0.8), (0.4, 0.85), (0.25, 0.75)),
    "no gap": ((0.4, 0.4),) * 4,
}
# Labels at random: accuracy, rate of yes or both depend on the group or the label alone.
EXTREME: dict[str, PAIR] = {
    "right about one group": (((0.5, 0.5), (0.02, 0.98)), ((0.4, 0.6), (0.0, 1.0))),
    "always right": _same((0.0, 1.0), (0.0, 1.0)),
}
UNREAD_ALIKE, UNREAD_BY_GROUP = ((0.8, 0.8), (0.8, 0.8)), ((0.5, 0.5), (0.95, 0.95))
UNREAD_BY_LABEL = ((0.9, 0.5), (0.95, 0.7))


def populations() -> Iterator[World]:
    """Every population of the record."""
    for name, pair in TWO.items():
        yield from _over_repeats(ADULT_200, name, pair)
    for name in ("equal arms", "errors in opposite cells", "no gap"):
        yield from _over_repeats(GERMAN_100, name, TWO[name])
    for name, pair in EDGE.items():
        for repeats in (1, 20):
            yield ADULT_200.world(name, pair, repeats, correlation=0.5)
        for repeats in (5, 50):
            yield GERMAN_100.world(name, pair, repeats, correlation=1.0)
    for design in (TENS, UNBALANCED, FIVES):
        for name in ("equal arms", "no gap", "opposite gaps"):
            yield from _briefly(design, name, TWO[name])
        yield from _briefly(design, "rates near 0", EDGE["rates near 0"])
    for design in (THREE, THREE_UNEVEN, CROSSED):
        for name, rates in MORE.items():
            yield from _briefly(design, name, _same(*rates[: len(design.table)]))
    for design in (RANDOM_200, RANDOM_100):
        for name in ("equal arms", "no gap", "errors in opposite cells"):
            yield from _briefly(design, name, TWO[name])
        for name, pair in EXTREME.items():
            for repeats in (1, 5, 20, 50):
                yield design.world(name, pair, repeats, correlation=1.0)
    for name in ("equal arms", "no gap"):
        yield from _briefly(RANDOM_UNEVEN, name, TWO[name])
    yield from _unread()
    yield from _examples()


def _over_repeats(design: Design, name: str, pair: PAIR) -> Iterator[World]:
    for repeats in REPEATS:
        yield design.world(name, pair, repeats, correlation=1.0)
        if repeats > 1:
            yield design.world(name, pair, repeats, correlation=0.5, shift=0.05)
        if repeats > 2:
            yield design.world(name, pair, repeats, correlation=1.0, group_shift=0.05)
        if repeats == 20:
            yield design.world(name, pair, repeats, correlation=0.0)


def _briefly(design: Design, name: str, pair: PAIR) -> Iterator[World]:
    for repeats in (1, 20, 50):
        yield design.world(name, pair, repeats, correlation=1.0)
    yield design.world(name, pair, 5, correlation=0.5, shift=0.05)


def _unread() -> Iterator[World]:
    """Answers that cannot be read: at random, more in one group, more under one label."""
    ways = {"alike": UNREAD_ALIKE, "by group": UNREAD_BY_GROUP, "by label": UNREAD_BY_LABEL}
    for way, read in ways.items():
        for design in (ADULT_200, GERMAN_100):
            for repeats in (1, 20):
                name = f"equal arms, unread {way}"
                yield design.world(name, TWO["equal arms"], repeats, correlation=0.5, parsed=read)


def _examples() -> Iterator[World]:
    """One set of examples for all repeats; sets that move the groups; arms that agree fully or never."""
    pair = TWO["equal arms"]
    for repeats in (2, 5, 20):
        for examples in (("once", "once"), ("once", "repeat"), ("row", "row"), ("repeat", "row")):
            options: dict[str, Any] = {"correlation": 1.0, "shift": 0.05, "examples": examples}
            yield ADULT_200.world("equal arms", pair, repeats, **options)
            if examples[0] == "once":
                yield GERMAN_100.world("no gap", TWO["no gap"], repeats, **options)
        yield ADULT_200.world("equal arms", pair, repeats, correlation=0.5, shift=0.05, group_shift=0.05)
        yield ADULT_200.world("no gap", TWO["no gap"], repeats, correlation=0.5, group_shift=0.1)
        for agreement in (0.0, 1.0):
            yield ADULT_200.world("equal arms", pair, repeats, correlation=0.5, agreement=agreement)


def known_limits() -> Iterator[World]:
    """Where intervals are known to fail: at 0 and 1, where half of the shifts do nothing."""
    skewed = "sets of examples mostly change nothing and sometimes much; five say little about how much"
    for name, pair in EXTREME.items():
        for repeats in (5, 20):
            yield RANDOM_200.world(name, pair, repeats, correlation=0.5, shift=0.05, limit=skewed)


def quick_populations() -> Sequence[World]:
    """A few that show what goes wrong most easily: small tables, unequal cells, strategies, few rows."""
    pair = TWO["errors in opposite cells"]
    return (
        ADULT_200.world("errors in opposite cells", pair, 20, correlation=1.0),
        GERMAN_100.world("equal arms", TWO["equal arms"], 20, correlation=1.0),
        GERMAN_100.world("no gap", TWO["no gap"], 20, correlation=1.0),
        ADULT_200.world("equal arms", TWO["equal arms"], 20, correlation=0.5, shift=0.05),
        RANDOM_100.world("equal arms", TWO["equal arms"], 20, correlation=0.5),
        THREE.world("no gap", _same(*MORE["no gap"][:3]), 5, correlation=0.5),
        TENS.world("rates near 0", EDGE["rates near 0"], 1),
    )
