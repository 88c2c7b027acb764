"""Test splits: exact cells, nothing drawn twice, no example that equals a test row."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.folder import THRESHOLD
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.results import NEVER, at_threshold, choose_thresholds
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import (
    cell_counts,
    design_of,
    draw_split,
    draw_validation_rows,
    hold_out,
    row_values,
)
from fwc_llm.shots import select_shots
from fwc_llm.tasks import Task, default_task, with_columns
from tests.data.tables import small_task
from tests.refusals import refused


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """Three groups of 60 rows with base rates 1/3, 1/2 and 2/3; every row stands there twice."""
    rows = [
        f"{k % 30},c{k % 7},{group},{'yes' if k % 6 < yes else 'no'}"
        for group, yes in (("a", 2), ("b", 3), ("c", 4))
        for k in range(30)
    ]
    return small_task(
        tmp_path_factory.mktemp("splits"),
        "\n".join(["x,colour,sex,y", *rows, *rows]) + "\n",
    )


@pytest.mark.slow
@given(st.integers(2, 6), st.integers(1, 600), st.integers(0, 20))
def test_counts_are_exact_or_the_nearest_number_is_named(
    n_groups: int, n: int, twentieths: int
) -> None:
    groups = [f"g{k}" for k in range(n_groups)]
    parity = twentieths / 20
    try:
        counts = cell_counts(groups, n, parity)
    except FwcError as error:
        nearest = int(
            str(error).split("the nearest number that works is ")[1].split()[0]
        )
        assert (cell_counts(groups, nearest, parity) >= 0).all()
        distance = abs(nearest - n)
        for other in range(
            max(1, n - distance + 1), n + distance
        ):  # nothing nearer works
            with refused():
                cell_counts(groups, other, parity)
        return
    assert set(counts.sum(axis=1)) == {n // n_groups}
    rates = counts[:, 1] / (n // n_groups)
    np.testing.assert_allclose(
        rates, np.linspace(0.5 - parity / 2, 0.5 + parity / 2, n_groups), atol=1e-12
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.sampled_from([12, 24, 36]),
    st.sampled_from([0.0, 0.5, None]),
    st.integers(0, 10_000),
)
def test_a_split_keeps_its_promises(
    task: Task, n: int, parity: float | None, seed: int
) -> None:
    if parity is not None:
        assume(n % 3 == 0 and (parity == 0.0 or n % 12 == 0))
    split = draw_split(task, n, parity, seed)
    assert len(set(split.test.index)) == len(split.test) == n
    if parity is not None:
        assert (
            task.cells_of(split.test).tolist()
            == cell_counts(task.groups, n, parity).tolist()
        )
    # One file: the pool is the rest; rows that equal a test row stay in it but are not candidates.
    assert set(split.pool.index) == set(task.pool().index) - set(split.test.index)
    held = set(row_values(task, split.test))
    assert [
        key not in held for key in row_values(task, split.pool)
    ] == split.candidates.tolist()
    assert not split.candidates.all()  # every row stands there twice
    again = draw_split(task, n, parity, seed)
    assert again.test.index.tolist() == split.test.index.tolist()


def test_rows_that_equal_an_example_are_not_drawn(task: Task) -> None:
    examples = task.pool().iloc[::9]
    for equal in (examples, examples.to_dict("records")):
        split = draw_split(task, 12, 0.0, 3, not_equal_to=equal)
        assert not set(row_values(task, split.test)) & set(row_values(task, examples))


def test_no_person_stands_in_test_rows_validation_rows_and_examples(task: Task) -> None:
    """People are told apart by the column x, which a third of them share with a test row."""
    judged = with_columns(task, "", "x")
    split = draw_split(judged, 12, 0.0, 3)
    validation, left = hold_out(judged, split, 12, 0.0, 3)
    people = [
        set(rows["x"]) for rows in (split.test, validation, split.pool[left.candidates])
    ]
    assert all(people)
    assert not any(one & other for one, other in combinations(people, 2))


def test_an_example_without_a_value_is_refused(task: Task) -> None:
    with refused("an example has no value for 'colour'"):
        draw_split(task, 12, 0.0, not_equal_to=[{"x": 1, "sex": "a"}])


@pytest.mark.parametrize(
    ("n", "parity", "words"),
    [
        (24, 1.01, r"outside \[0, 1\]"),
        (24, float("nan"), r"outside \[0, 1\]"),
        (0, 0.5, "at least 1"),
        (25, 0.5, "the nearest number that works is"),
        (
            300,
            0.0,
            "the cell sex = a, y = no has 40 rows to draw from, but 50 are needed",
        ),
    ],
)
def test_what_cannot_be_drawn_is_named(
    task: Task, n: int, parity: float, words: str
) -> None:
    with refused(words):
        draw_split(task, n, parity)


# --- Defaults come out


def table(folder: Path, sizes: list[tuple[int, int]], values: int = 10_000) -> Task:
    """One group for every pair of numbers of rows: those with no and those with yes."""
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(values)},c{rng.integers(5)},g{group},{answer}"
        for group, counts in enumerate(sizes)
        for answer, count in zip(("no", "yes"), counts, strict=True)
        for _ in range(count)
    ]
    return small_task(
        folder, "\n".join(["x,colour,sex,y", *rows]) + "\n", top="base_parity = 0.5"
    )


def at_the_defaults(task: Task) -> tuple[Settings, tuple[str, ...]]:
    """The settings of a plan with every default, for all three arms and two seeds."""
    plan = make_plan(task, ("zero", "balanced", "fwc"), Settings(repeats=2))
    assert all(
        len(repeat.split.test) == plan.settings.n_test for repeat in plan.repeats
    )
    chosen = [
        shots.m
        for repeat in plan.repeats
        for arm, shots in repeat.shots.items()
        if arm != "zero"
    ]
    assert all(0 < m <= plan.settings.m for m in chosen)
    return plan.settings, plan.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "n_test", "parity", "m"),
    [
        ([(300, 100), (200, 250), (400, 500)], 204, 0.5, 16),
        ([(90, 31)] * 6, 120, 0.5, 16),
        ([(900, 700), (400, 500), (5, 2)], 200, None, 6),
        ([(12, 4), (6, 9)], 15, None, 8),
        ([(60, 60)] * 9, 144, 0.5, 18),
    ],
)
def test_every_table_comes_through_and_what_moved_is_said(
    tmp_path: Path,
    sizes: list[tuple[int, int]],
    n_test: int,
    parity: float | None,
    m: int,
) -> None:
    settings, notes = at_the_defaults(table(tmp_path, sizes))
    assert (settings.n_test, settings.base_parity, settings.m) == (n_test, parity, m)
    said = " ".join(notes)
    assert (n_test == 200 and parity is not None) or str(n_test) in said
    assert m == 16 or str(m) in said
    assert ("--base-parity none" in said) == (parity is None)
    assert len(notes) <= 2


def test_a_table_of_few_different_rows_keeps_some_for_the_examples(
    tmp_path: Path,
) -> None:
    """A row that equals a test row is not an example: too many test rows would leave none."""
    settings, _ = at_the_defaults(table(tmp_path, [(300, 300), (300, 300)], values=12))
    assert settings.n_test < 200 or settings.base_parity is None or settings.m < 16


def test_a_number_that_is_given_is_rounded_to_whole_cells_or_refused(
    tmp_path: Path,
) -> None:
    task = table(tmp_path, [(300, 100), (200, 250), (400, 500)])
    plan = make_plan(task, ["zero"], Settings(n_test=200))
    assert plan.settings.n_test == 204
    assert any("--n-test 200" in note for note in plan.notes)
    small = table(tmp_path, [(30, 10), (200, 250)])
    with refused("the most that work are 80"):
        make_plan(small, ["zero"], Settings(n_test=200))
    assert make_plan(small, ["zero"], Settings(n_test=40)).settings.n_test == 40
    every = Settings(n_test=490, base_parity=None)
    assert len(make_plan(small, ["zero"], every).repeats[0].split.test) == 490
    for arms in (["zero", "fwc"], ["nearest"]):
        with refused("no row is left for examples"):
            make_plan(small, arms, every)
    assert fit_defaults(small, Settings(n_test=40, m=4))[0] == Settings(
        n_test=40, m=4, base_parity=0.5
    )
    # An explicit parity is kept: the number of rows moves, and below it the draw says what is
    # missing.
    assert fit_defaults(small, Settings(base_parity=0.5))[0].base_parity == 0.5
    cells = cell_counts(
        small.groups, fit_defaults(small, Settings(base_parity=0.5))[0].n_test, 0.5
    )
    assert cells[0, 1] <= 10


def test_people_of_unknown_group_are_not_drawn_with_a_base_parity(
    tmp_path: Path,
) -> None:
    cells = cell_counts(("unknown", "a", "b"), 200, 0.3)
    assert cells.tolist() == [[0, 0], [65, 35], [35, 65]]
    rows = [f"{k},red,{'ab'[k % 2]},{('no', 'yes')[k // 2 % 2]}" for k in range(600)]
    rows += ["0,red,unknown,no", "1,red,unknown,yes"]
    csv = "\n".join(["x,colour,sex,y", *rows]) + "\n"
    task = small_task(tmp_path, csv, top="base_parity = 0.5")
    plan = make_plan(task, ["zero", "random"], Settings())
    assert set(task.sensitive(plan.repeats[0].split.test)) == {"a", "b"}
    assert (plan.settings.n_test, plan.settings.base_parity) == (200, 0.5)
    assert (
        plan.settings.m == 16
    )  # two people of unknown group limit no number of examples
    assert any("rows of unknown are not drawn" in note for note in plan.notes)
    design = design_of(task, 200, None, 1, min_group=1)
    assert design.judged.tolist() == [group != "unknown" for group in task.groups]


def test_an_empty_cell_is_refused_with_what_to_do(tmp_path: Path) -> None:
    task = table(tmp_path, [(300, 100), (200, 250), (7, 0)])
    assert make_plan(task, ["zero", "random"], Settings()).settings.base_parity is None
    for arm, words in (
        ("balanced", "merge levels by a map"),
        ("fwc", "merge or drop levels"),
    ):
        with refused(words):
            make_plan(task, [arm], Settings())


@pytest.mark.parametrize("name", ["adult", "german", "communities", "drug", "census"])
def test_the_tasks_of_the_paper_keep_its_numbers(name: str, built_in: Any) -> None:
    settings, notes = fit_defaults(built_in(name), Settings())
    parity = None if name == "census" else 0.5
    assert (settings.n_test, settings.base_parity, settings.m, notes) == (
        200,
        parity,
        16,
        (),
    )


def test_the_default_task(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_task(data_dir).name == "adult"
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("FWC_LLM_DATA")
    assert default_task().name == "census"


# --- From replies about held rows to a threshold


KEY = ("zero", 0)


def chosen(rule: str, *rows: tuple[float | None, str, str]) -> dict[str, Any]:
    names = ("arm", "repeat", "p_yes", "label", "group")
    return choose_thresholds(
        rule, [dict(zip(names, (*KEY, *row), strict=True)) for row in rows], [KEY]
    )[KEY]


def test_fit_takes_the_most_accurate_threshold_then_that_of_the_least_gap_then_the_nearest_to_half() -> (
    None
):
    low = (0.1, "no", "a"), (0.2, "no", "b")
    found = chosen("fit", *low, (0.3, "yes", "a"), (0.3, "no", "b"), (0.4, "yes", "b"))
    assert (found["threshold"], found["accuracy"], found["accuracy_at_half"]) == (
        0.3,
        0.8,
        0.6,
    )
    assert (found["rows"], found["known"], found["ties"]) == (5, 5, 2)
    rows = [(0.5, "yes", "a"), (0.5, "yes", "b"), (0.1, "yes", "a"), (0.1, "no", "a")]
    assert chosen("fit", *rows)["threshold"] == 0.1
    same = chosen(
        "fit",
        (0.1, "yes", "a"),
        (0.1, "no", "b"),
        (0.45, "yes", "a"),
        (0.45, "no", "b"),
    )
    assert (same["threshold"], same["dp_gap"]) == (0.45, 0.0)


def test_a_threshold_may_never_say_yes() -> None:
    found = chosen("fit", (0.9, "no", "a"), (1.0, "no", "b"))
    assert found["threshold"] == NEVER
    assert at_threshold({"p_yes": 1.0}, NEVER) == "no"


def test_rows_without_a_probability_are_left_out_and_counted() -> None:
    found = chosen("fit", (None, "no", "a"), (0.3, "yes", "b"))
    assert (found["rows"], found["known"], found["threshold"]) == (2, 1, 0.3)
    none = chosen("fit", (None, "no", "a"))
    assert none == {"repeat": 0, "threshold": None, "rows": 1, "known": 0}
    assert (
        at_threshold({"p_yes": 0.9}, None) == at_threshold({"p_yes": None}, 0.5) == ""
    )
    assert choose_thresholds("fit", [], [KEY])[KEY]["threshold"] is None
    assert choose_thresholds(0.25, [], [KEY]) == {KEY: {"repeat": 0, "threshold": 0.25}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"threshold": 1.5},
            "threshold: give a number from 0 to 1, 'fit' or 'base-rate', not 1.5",
        ),
        ({"threshold": "median"}, "threshold.*median"),
        ({"threshold": "fit", "samples": 2}, "asks about rows of the pool once"),
    ],
)
def test_what_is_no_threshold_is_refused(options: dict[str, Any], words: str) -> None:
    with refused(words):
        Settings(**options)


def test_held_rows_are_no_test_rows_no_examples_and_equal_none(two: Task) -> None:
    saved = select_shots(two, "random", m=8, seed=5)
    arms = ("balanced", "nearest", saved)
    settings = Settings(m=4, n_test=16, base_parity=0.5, repeats=2, threshold="fit")
    plan = make_plan(two, arms, settings)
    assert (plan.n_calls, plan.n_threshold_calls, plan.n_questions) == (
        2 * 3 * 32,
        96,
        96,
    )
    said = (
        "--threshold fit adds 96 requests: 16 rows of the pool in each arm and repeat"
    )
    assert said in str(plan.notes)
    repeat: Any
    for repeat in plan.repeats:
        of_held = set(row_values(two, repeat.validation))
        assert not of_held & set(row_values(two, repeat.split.test))
        free = repeat.split.pool[repeat.split.candidates]
        assert not of_held & set(row_values(two, free))
        for shots in (*repeat.shots.values(), saved):
            assert not of_held & set(
                row_values(two, [example.values for example in shots.examples])
            )
        # Drawn like the test rows: as many of each group and answer.
        for rows in (repeat.validation, repeat.split.test):
            assert (two.sensitive(rows) == "a").sum() == 8
    calls = list(plan.calls())
    assert len(calls) == plan.n_calls
    first: Any = [call for call in calls if call.variant == THRESHOLD]
    assert calls[:96] == first
    assert {call.arm for call in first} == {arm.name for arm in plan.arms}
    learnt = set(first[0].context.training().rows.index.astype(str))
    assert not learnt & {
        call.row for call in calls if call.repeat == 0
    }  # neither held nor test rows


def test_a_table_that_is_too_small_says_so_or_gives_fewer(two: Task) -> None:
    split = draw_split(two, 16, 0.5, 0)

    def drawn(**options: Any) -> Any:
        return draw_validation_rows(two, split, Settings(**options), 0, [])

    nobody = replace(split, candidates=np.zeros_like(split.candidates))
    with refused(r"threshold='fit' needs rows .*the cell"):
        draw_validation_rows(
            two, nobody, Settings(base_parity=0.5, threshold="fit"), 0, []
        )
    few, left = drawn(n_test=120, base_parity=0.5, threshold="fit")
    assert 20 <= len(few) < 120
    assert left.candidates.sum() > 0
    loose, _ = drawn(n_test=120, base_parity=None, threshold="base-rate")
    assert len(loose) == min(120, int(split.candidates.sum()) // 2)
    none, left = drawn(threshold=0.3)
    assert none.empty
    assert left is split
