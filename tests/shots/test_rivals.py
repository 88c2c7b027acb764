"""The strategies of the fairness literature: whom they choose, and that what is not true is
marked.
"""

import pytest

from fwc_llm.shots import select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task
from tests.refusals import refused


def cells(shots: Shots) -> list[tuple[str, str]]:
    return sorted(
        (example.values["group"], example.label) for example in shots.examples
    )


SLOTS = "A:no=1,a:yes=5, b:no=4,B:YES=2"


def test_slots_can_be_written_as_words(two: Task) -> None:
    wanted = [("a", "no")] + [("a", "yes")] * 5 + [("b", "no")] * 4 + [("b", "yes")] * 2
    for strategy in ("fwc", "strata"):
        assert cells(select_shots(two, strategy, 12, slots=SLOTS)) == wanted
    table = {("a", "no"): 1, ("a", "yes"): 5, ("b", "no"): 4, ("b", "yes"): 2}
    by_table, by_words = (
        select_shots(two, "strata", 12, slots=slots) for slots in (table, SLOTS)
    )
    assert by_table.examples == by_words.examples
    assert select_shots(two, "fwc", 12, slots=SLOTS).options["slots"] == SLOTS
    low, high = two.groups
    for strategy in ("strata", "fwc"):
        against = cells(select_shots(two, strategy, 8, slots="counter"))
        wanted = (
            [(low, "no")] + [(low, "yes")] * 3 + [(high, "no")] * 3 + [(high, "yes")]
        )
        assert against == sorted(wanted)
    some = cells(select_shots(two, "strata", 6, slots="a:yes=3,b:no=3"))
    assert some == [("a", "yes")] * 3 + [("b", "no")] * 3


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ("a:no=1,a:yes=5", "slots sum to 6, but m=8"),
        ("a:no=4,a:no=4", "a:no is named twice"),
        ("c:no=8", "no protected level 'c'; there are"),
        ("a:perhaps=8", "none of no, yes"),
        ("a:no=-8", "must be whole"),
        ("a:no=x", "is not LEVEL:ANSWER=COUNT"),
    ],
)
def test_slots_that_do_not_read_are_refused_in_words(
    two: Task, slots: str, message: str
) -> None:
    for strategy in ("fwc", "strata"):
        with refused(message):
            select_shots(two, strategy, 8, slots=slots)
