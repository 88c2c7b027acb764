"""Test splits: exact cells, nothing drawn twice, no example that equals a test row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.runs.row_matching import row_values
from fwc_llm.runs.splits import cell_counts, draw_split
from fwc_llm.tasks import Task, load_task
from tests.data.tables import small_task


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Three groups of 60 rows with base rates 1/3, 1/2 and 2/3; every row stands there twice."""
    rows = [
        f"{k % 30},c{k % 7},{group},{'yes' if k % 6 < yes else 'no'}"
        for group, yes in (("a", 2), ("b", 3), ("c", 4))
        for k in range(30)
    ]
    return small_task(tmp_path_factory.mktemp("splits"), "\n".join(["x,colour,sex,y", *rows, *rows]) + "\n")


def cells(task: Task, frame: Any) -> dict[tuple[str, str], int]:
    return {key: int(count) for key, count in frame.groupby(["sex", "y"]).size().items()}


@pytest.mark.parametrize(
    ("parity", "expected"),
    [(0.0, (50, 50, 50, 50)), (0.5, (75, 25, 25, 75)), (1.0, (100, 0, 0, 100))],
)
def test_two_groups_have_the_published_counts(parity: float, expected: tuple[int, ...]) -> None:
    assert tuple(cell_counts(("F", "M"), 200, parity).values()) == expected


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(1, 600), st.integers(0, 20))
def test_counts_are_exact_or_the_nearest_number_is_named(n_groups: int, n: int, twentieths: int) -> None:
    groups, parity = [f"g{k}" for k in range(n_groups)], twentieths / 20
    try:
        counts = cell_counts(groups, n, parity)
    except FwcError as error:
        nearest = int(str(error).split("the nearest number that works is ")[1].split()[0])
        assert all(count >= 0 for count in cell_counts(groups, nearest, parity).values())
        distance = abs(nearest - n)
        for other in range(max(1, n - distance + 1), n + distance):  # nothing nearer works
            with pytest.raises(FwcError):
                cell_counts(groups, other, parity)
        return
    sizes = [counts[group, "yes"] + counts[group, "no"] for group in groups]
    assert set(sizes) == {n // n_groups}
    rates = [counts[group, "yes"] / sizes[0] for group in groups]
    np.testing.assert_allclose(rates, np.linspace(0.5 - parity / 2, 0.5 + parity / 2, n_groups), atol=1e-12)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.sampled_from([12, 24, 36]), st.sampled_from([0.0, 0.5, None]), st.integers(0, 10_000))
def test_a_split_keeps_its_promises(task: Task, n: int, parity: float | None, seed: int) -> None:
    if parity is not None:
        assume(n % 3 == 0 and (parity == 0.0 or n % 12 == 0))
    split = draw_split(task, n, parity, seed)
    assert len(split.test) == n
    assert split.test.index.is_unique
    if parity is not None:
        wanted = {cell: count for cell, count in cell_counts(task.groups, n, parity).items() if count}
        assert cells(task, split.test) == wanted
    # One file: the pool is the rest; rows that equal a test row stay in it but are no candidates.
    assert set(split.pool.index) == set(task.pool().index) - set(split.test.index)
    held = set(row_values(task, split.test))
    assert [key not in held for key in row_values(task, split.pool)] == split.candidates.tolist()
    assert not split.candidates.all()  # every row stands there twice
    again = draw_split(task, n, parity, seed)
    assert again.test.index.tolist() == split.test.index.tolist()


def test_rows_that_equal_an_example_are_not_drawn(task: Task) -> None:
    examples = task.pool().iloc[::9]
    split = draw_split(task, 12, 0.0, 3, exclude=set(examples.index), not_equal_to=examples)
    assert not set(row_values(task, split.test)) & set(row_values(task, examples))
    as_values = draw_split(task, 12, 0.0, 3, not_equal_to=examples.to_dict("records"))
    assert not set(row_values(task, as_values.test)) & set(row_values(task, examples))
    assert not set(draw_split(task, 12, 0.0, 3, exclude=set(examples.index)).test.index) & set(examples.index)


def test_an_example_without_a_value_is_refused(task: Task) -> None:
    with pytest.raises(FwcError, match="an example has no value for 'colour'"):
        draw_split(task, 12, 0.0, not_equal_to=[{"x": 1, "sex": "a"}])


@pytest.mark.parametrize("parity", [-0.1, 1.01, float("nan"), float("inf")])
def test_parity_outside_its_range(task: Task, parity: float) -> None:
    with pytest.raises(FwcError, match=r"outside \[0, 1\]"):
        draw_split(task, 24, parity)


@pytest.mark.parametrize("n", [0, -8, 25])
def test_counts_that_are_not_whole(task: Task, n: int) -> None:
    with pytest.raises(FwcError, match="the nearest number that works is"):
        draw_split(task, n, 0.5)


def test_a_cell_that_is_too_small_is_named(task: Task) -> None:
    with pytest.raises(
        FwcError, match="the cell sex = a, y = no has 40 rows to draw from, but 50 are needed"
    ):
        draw_split(task, 300, 0.0)


@pytest.mark.slow
def test_adult_splits_as_the_protocol_says(data_dir: Path) -> None:
    adult = load_task("adult", data_dir)
    split = draw_split(adult, seed=0)
    counts = {key: int(n) for key, n in split.test.groupby(["sex", "income"]).size().items()}
    assert counts == {("Female", "no"): 75, ("Female", "yes"): 25, ("Male", "no"): 25, ("Male", "yes"): 75}
    assert len(split.pool) == 30_162  # all training rows stay in the table
    assert all(row.startswith("adult.test:") for row in split.test.index)
    held = set(row_values(adult, split.test))
    assert split.candidates.sum() == sum(key not in held for key in row_values(adult, split.pool))
    assert 0 < (~split.candidates).sum() < 300
