"""Cells, slots and targets (docs/method.md, "Slots"), and the one line that bad input gets."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.problem.allocation import count_slots
from fwc_llm.coreset.problem.cells import find_cells, overall_target
from fwc_llm.errors import FwcError


def cells_with(counts: dict[tuple[str, int], int]) -> tuple:
    level = np.repeat([d for d, _ in counts], list(counts.values()))
    y = np.repeat([y for _, y in counts], list(counts.values()))
    cells = find_cells(y, level, len(y))
    return cells, cells.counts.copy()


ADULT = {("Female", 0): 8670, ("Female", 1): 1112, ("Male", 0): 13984, ("Male", 1): 6396}


def test_adult_slots():
    cells, room = cells_with(ADULT)
    balanced = count_slots("balanced-positive", 16, cells, room, constrained=True)
    assert balanced.tolist() == [5, 2, 7, 2]
    assert count_slots("equal", 18, cells, room, constrained=True).tolist() == [5, 4, 5, 4]
    assert count_slots("proportional", 16, cells, room, constrained=True).tolist() == [5, 1, 7, 3]
    table = [[4, 3], [5, 4]]
    assert count_slots(table, 16, cells, room, constrained=True).tolist() == [4, 3, 5, 4]
    named = {("Female", 0): 4, ("Female", 1): 3, ("Male", 0): 5, ("Male", 1): 4}
    assert count_slots(named, 16, cells, room, constrained=True).tolist() == [4, 3, 5, 4]


def test_balanced_positive_drops_for_all_levels_where_one_is_short():
    cells, _ = cells_with(ADULT)
    room = np.array([8670, 1, 13984, 6396])
    assert count_slots("balanced-positive", 16, cells, room, constrained=True)[[1, 3]].tolist() == [1, 1]


@given(
    counts=st.lists(st.integers(1, 500), min_size=4, max_size=4),
    m=st.integers(4, 60),
    policy=st.sampled_from(["proportional", "equal", "balanced-positive"]),
)
def test_slots_sum_to_m_and_respect_the_cells(counts, m, policy):
    cells, room = cells_with(dict(zip(ADULT, counts, strict=True)))
    if m > sum(counts):
        with pytest.raises(FwcError, match="lower m"):
            count_slots(policy, m, cells, room, constrained=True)
        return
    others = counts[0] + counts[2]
    if policy == "balanced-positive" and 2 * min(counts[1], counts[3]) + others - (m + others) % 2 < m:
        return  # more than the same number of positives and all others: refused, tested below
    seats = count_slots(policy, m, cells, room, constrained=True)
    assert seats.sum() == m
    assert (seats >= 1).all()
    assert (seats <= room).all()
    if policy == "balanced-positive":
        assert seats[1] == seats[3]


def test_balanced_positive_is_refused_where_the_cells_cannot_hold_m():
    cells, room = cells_with(dict(zip(ADULT, [1, 1, 1, 50], strict=True)))
    with pytest.raises(FwcError, match="more than the cells can hold"):
        count_slots("balanced-positive", 8, cells, room, constrained=True)


def test_several_attributes_are_crossed():
    sensitive = pd.DataFrame({"sex": ["f", "m", "f", "m"], "race": ["b", "b", "w", "b"]})
    cells = find_cells([0, 1, 1, 0], sensitive, 4)
    assert cells.levels.tolist() == [["f", "b"], ["f", "w"], ["m", "b"]]
    assert cells.cell.tolist() == [0, 5, 3, 4]
    assert cells.name(5) == "(sensitive = m & b, y = 1)"


def test_target_is_the_rows_own_or_the_callers():
    cells, _ = cells_with(ADULT)
    np.testing.assert_allclose(overall_target(cells, None), [22654 / 30162, 7508 / 30162])
    np.testing.assert_allclose(overall_target(cells, {1: 0.4, 0: 0.6}), [0.6, 0.4])


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ([0.5, 0.6], "sum to 1"),
        ([1.0, 0.0], "positive"),
        ([1.0], "per outcome"),
        ({0: 0.5, 2: 0.5}, "each of"),
    ],
)
def test_bad_targets_are_refused(target, words):
    cells, _ = cells_with(ADULT)
    with pytest.raises(FwcError, match=words):
        overall_target(cells, target)


@pytest.mark.parametrize(
    ("slots", "m", "words"),
    [
        ("proportional", 3, "smaller than the 4 cells"),
        ("fair", 16, "unknown"),
        ([[1, 1], [1, 2]], 6, "sum to 5, but m=6"),
        ([[6, 0], [1, 1]], 8, r"\(sensitive = Female, y = 1\) no representative"),
        ([1, 2, 3], 6, "level by outcome"),
        ([[1.5, 1], [1, 1]], 4, "whole"),
        ({("Child", 0): 4}, 4, "no row is in"),
    ],
)
def test_bad_slots_are_refused(slots, m, words):
    cells, room = cells_with(ADULT)
    with pytest.raises(FwcError, match=words):
        count_slots(slots, m, cells, room, constrained=True)


def test_an_empty_cell_is_named():
    cells = find_cells([0, 1, 0], ["a", "a", "b"], 3)
    with pytest.raises(FwcError, match=r"\(sensitive = b, y = 1\) has no rows"):
        count_slots("proportional", 3, cells, cells.counts, constrained=True)
    assert count_slots("proportional", 3, cells, cells.counts, constrained=False).tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("y", "sensitive", "words"),
    [
        ([0, 1], ["a", "b", "c"], "y has 2 rows but X has 3"),
        ([0, 1, np.nan], ["a", "b", "c"], "y is missing in row 2"),
        ([0, 1, 1], ["a", None, "c"], "sensitive is missing in row 1"),
        ([[0, 1], [1, 0], [0, 0]], ["a", "b", "c"], "one value per row"),
    ],
)
def test_bad_labels_are_refused(y, sensitive, words):
    with pytest.raises(FwcError, match=words):
        find_cells(y, sensitive, 3)


def test_labels_of_mixed_types_are_known_by_what_the_caller_called_them() -> None:
    y = np.array([1, "x", 1, "x"], dtype=object)
    cells = find_cells(y, ["a", "a", "b", "b"], 4)
    assert overall_target(cells, {1: 0.25, "x": 0.75}).tolist() == [0.25, 0.75]
    seats = count_slots("balanced-positive", 4, cells, cells.counts, constrained=True, positive=1)
    assert seats.tolist() == [1, 1, 1, 1]
    with pytest.raises(FwcError, match="y holds 1 and '1', which read the same"):
        find_cells(np.array([1, "1", 1, "1"], dtype=object), ["a", "a", "b", "b"], 4)
    masked = np.ma.masked_array([0, 1, 0, 1], mask=[True, False, False, False])
    for labels in ((masked, ["a", "a", "b", "b"]), ([0, 1, 0, 1], masked)):
        with pytest.raises(FwcError, match="masked"):
            find_cells(*labels, 4)


def test_a_constant_column_counts_nothing_in_other_rows_either() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "year": 50_000.0})
    other = frame.assign(year=90_000.0)
    y, level = [0, 1, 0, 1], ["a", "a", "b", "b"]
    for X, further in ((frame, other), (frame.to_numpy(), other.to_numpy())):
        fitted = FairCoreset(4, epsilon=None, scale=True, random_state=0).fit(X, y, level)
        assert fitted.transform(further).tolist() == fitted.transform(X).tolist()
        years = np.asarray(fitted.representatives_)[:, 1]
        assert years.tolist() == [50_000.0] * 4
