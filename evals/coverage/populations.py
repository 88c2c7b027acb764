"""The populations that are drawn: designs, pairs of arms, repeats, correlation, shifts by
examples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evals.coverage.worlds import Table, World

REPEATS = (1, 2, 5, 20, 50)
PAIR = tuple[Table, Table]
_SAID = ("correlation", "shift", "group_shift", "agreement")

# Rows with label no and yes in the UCI files: adult.test without rows that lack a value, and
# german.data.
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
        groups = (
            ("F & old", "F & young", "M & old", "M & young")
            if levels == 4
            else tuple("ABC"[:levels])
        )
        said = [
            f"{key.replace('_', ' ')} {value}" for key, value in options.items() if key in _SAID
        ]
        if "examples" in options:
            said.append(f"examples drawn {' against '.join(dict.fromkeys(options['examples']))}")
        name = ", ".join([self.name, arms, f"R = {repeats}", *said])
        return replace(World(name, groups, self.table, self.rows, yes, repeats), **options)


ADULT_200 = Design("Adult, n = 200", ADULT, ((75, 25), (25, 75)))
GERMAN_100 = Design("German, n = 100", GERMAN, ((35, 15), (15, 35)))
TENS = Design("groups of 10", ((400, 100), (300, 200)), ((7, 3), (3, 7)))
UNBALANCED = Design("groups of 90 and 8", ((3000, 1000), (60, 60)), ((50, 40), (4, 4)))
THREE = Design(
    "three groups of 50", ((900, 300), (500, 500), (300, 900)), ((35, 15), (25, 25), (15, 35))
)
THREE_UNEVEN = Design(
    "three groups, 80, 20 and 8", ((900, 300), (100, 100), (40, 40)), ((50, 30), (12, 8), (4, 4))
)
CROSSED = Design(
    "four crossed groups of 30", ((400, 200),) * 4, ((20, 10), (15, 15), (15, 15), (10, 20))
)
RANDOM_200 = Design("Adult, 200 random rows", ADULT, 200)
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
UNREAD_ALIKE = ((0.8, 0.8), (0.8, 0.8))
UNREAD_BY_GROUP = ((0.5, 0.5), (0.95, 0.95))
UNREAD_BY_LABEL = ((0.9, 0.5), (0.95, 0.7))


def populations() -> Iterator[World]:
    """Every population of the record: today's hardest kinds, and those that an outsider tried."""
    pair = TWO["equal arms"]
    alike = TWO["no gap"]
    yield ADULT_200.world("no gap", alike, 1, correlation=1.0)
    yield ADULT_200.world(
        "errors in opposite cells", TWO["errors in opposite cells"], 20, correlation=1.0
    )
    yield ADULT_200.world("rates near 0", EDGE["rates near 0"], 1, correlation=0.5)
    yield ADULT_200.world("equal arms", pair, 5, correlation=0.5, shift=0.05)
    yield ADULT_200.world(
        "equal arms, unread by label", pair, 1, correlation=0.5, parsed=UNREAD_BY_LABEL
    )
    yield GERMAN_100.world("no gap", alike, 20, correlation=1.0)
    yield GERMAN_100.world("rates near 0", EDGE["rates near 0"], 5, correlation=1.0)
    yield TENS.world("rates near 0", EDGE["rates near 0"], 1)
    yield THREE.world("no gap", _same(*MORE["no gap"][:3]), 5, correlation=0.5)
    yield from tried_from_outside()
    yield from of_further_metrics()


def tried_from_outside() -> Iterator[World]:
    """Stray values, people with many rows, tiny groups, unequal repeats, weights, examples for
    every row.
    """
    pair = TWO["equal arms"]
    alike = TWO["no gap"]
    stray = ADULT_200.world("stray values of examples", alike, 10, correlation=0.5, shift=0.05)
    yield replace(stray, stray=True)
    people = Design("60 people with 480 rows", ((120, 120), (120, 120)), 480)
    yield replace(people.world("no gap", alike, 1, correlation=1.0), people=8)
    tiny = Design("1,950 rows, 5 of a third group", ((600, 150), (700, 495), (3, 2)), 1950)
    yield replace(tiny.world("no gap", _same(*[(0.4, 0.4)] * 3), 1, correlation=1.0), min_group=30)
    yield replace(
        ADULT_200.world("unequal repeats", pair, 10, correlation=0.5, shift=0.05), uneven=True
    )
    weights = Design("400 weighted rows", ((200, 60), (100, 140)), 400)
    yield replace(
        weights.world("equal arms", pair, 1, correlation=1.0), weight=((1.0, 4.0), (3.0, 1.0))
    )
    yield ADULT_200.world(
        "equal arms", pair, 10, correlation=0.5, shift=0.05, examples=("row", "row")
    )


def of_further_metrics() -> Iterator[World]:
    """AUC and Brier gaps, parity within strata, FPR and precision gaps: of groups that are
    alike, and not.
    """
    alike = _same(*[(0.3, 0.7)] * 3)
    ranked = ("auc_gap", "brier_gap")
    uneven = Design("groups of 120, 100 and 40", ((600, 600),) * 3, ((60, 60), (50, 50), (20, 20)))
    yield replace(uneven.world("AUC 0.8 in all", alike, 1), separation=1.19, further=ranked)
    sixty = Design("groups of 60", ((600, 600),) * 2, ((30, 30),) * 2)
    near = _same(*[(0.4, 0.6)] * 2)
    yield replace(sixty.world("AUC 0.98 in both", near, 1), separation=3.0, further=ranked)
    two = _same(*[(0.3, 0.7)] * 2)
    within = ("conditional_parity",)
    yield replace(RANDOM_200.world("alike in 6 strata", two, 1), strata=3, further=within)
    rates = ("fpr_gap", "precision_gap")
    even = Design("200 random rows", ((600, 400), (300, 200)), 200)
    yield replace(even.world("equal FPR and precision", two, 1), further=rates)
    yield replace(RANDOM_200.world("equal arms", TWO["equal arms"], 1), further=rates)


def quick_populations() -> Sequence[World]:
    """A few that show what goes wrong most easily: small tables, strategies, few rows, people."""
    wanted = (
        "near 0, R = 1",
        "German, n = 100, no gap",
        "three groups",
        "60 people",
        "third group",
        "weighted",
        "AUC 0.8",
        "strata",
        "equal FPR",
    )
    return [world for world in populations() if any(name in world.name for name in wanted)]
