"""Defaults come out: two to six groups, small and unequal cells, few different rows; given numbers stay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import cell_counts
from fwc_llm.tasks import Task, default_task, load_task
from tests.data.tables import small_task


def table(folder: Path, sizes: list[tuple[int, int]], values: int = 10_000) -> Task:
    """One group for every pair of numbers of rows: those with no and those with yes."""
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(values)},c{rng.integers(5)},g{group},{answer}"
        for group, counts in enumerate(sizes)
        for answer, count in zip(("no", "yes"), counts, strict=True)
        for _ in range(count)
    ]
    return small_task(folder, "\n".join(["x,colour,sex,y", *rows]) + "\n", top="base_parity = 0.5")


def at_the_defaults(task: Task) -> tuple[Settings, tuple[str, ...]]:
    """The settings of a plan with every default, for all three arms and two seeds."""
    plan = make_plan(task, ("zero", "balanced", "fwc"), Settings(repeats=2))
    assert all(len(repeat.split.test) == plan.settings.n_test for repeat in plan.repeats)
    assert all(
        0 < shots.m <= plan.settings.m for r in plan.repeats for a, shots in r.shots.items() if a != "zero"
    )
    return plan.settings, plan.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "n_test", "parity", "m"),
    [
        ([(300, 100), (200, 250)], 200, 0.5, 16),
        ([(300, 100), (200, 250), (400, 500)], 204, 0.5, 16),
        ([(300, 100), (200, 250), (400, 500), (150, 90)], 192, 0.5, 16),
        ([(150, 100)] * 5, 200, 0.5, 16),
        ([(150, 100)] * 6, 240, 0.5, 16),
        ([(90, 31)] * 6, 120, 0.5, 16),  # 240 rows would take all of a cell
        ([(45, 25), (200, 250), (400, 500)], 168, 0.5, 16),  # a group is small
        ([(900, 700), (400, 500), (5, 2)], 200, None, 6),  # seven rows in a group
        ([(900, 700), (400, 500), (20, 20), (5, 2)], 200, None, 8),
        ([(40, 30), (30, 40)], 96, 0.5, 16),  # fewer rows than the paper draws
        ([(12, 4), (6, 9)], 15, None, 8),
    ],
)  # fmt: skip
def test_every_table_comes_through_and_what_moved_is_said(
    tmp_path: Path, sizes: list[tuple[int, int]], n_test: int, parity: float | None, m: int
) -> None:
    settings, notes = at_the_defaults(table(tmp_path, sizes))
    assert (settings.n_test, settings.base_parity, settings.m) == (n_test, parity, m)
    said = " ".join(notes)
    assert (n_test == 200 and parity is not None) or str(n_test) in said
    assert m == 16 or str(m) in said
    assert ("--base-parity none" in said) == (parity is None)
    assert len(notes) <= 2


def test_a_table_of_few_different_rows_keeps_some_for_the_examples(tmp_path: Path) -> None:
    """A row that equals a test row is no example: too many test rows would leave none."""
    settings, _ = at_the_defaults(table(tmp_path, [(300, 300), (300, 300)], values=12))
    assert settings.n_test < 200 or settings.base_parity is None or settings.m < 16


@pytest.mark.slow
def test_many_crossed_groups_get_an_example_each(tmp_path: Path) -> None:
    settings, notes = at_the_defaults(table(tmp_path, [(60, 60)] * 9))
    assert settings.m == 18
    assert "16 examples are fewer than the 18 cells" in " ".join(notes)


def test_a_number_that_is_given_stays_or_is_refused(tmp_path: Path) -> None:
    task = table(tmp_path, [(300, 100), (200, 250), (400, 500)])
    with pytest.raises(FwcError, match="nearest number that works is 204 or 192"):
        make_plan(task, ["zero"], Settings(n_test=200))
    small = replace(task, load=table(tmp_path, [(30, 10), (200, 250)]).load)
    with pytest.raises(FwcError, match="the most that work are 80, and with no base parity"):
        make_plan(small, ["zero"], Settings(n_test=200))
    assert make_plan(small, ["zero"], Settings(n_test=40)).settings.n_test == 40
    assert fit_defaults(small, Settings(n_test=40, m=4))[0] == Settings(n_test=40, m=4, base_parity=0.5)
    # An explicit parity is kept: the number of rows moves, and below it the draw says what is missing.
    assert fit_defaults(small, Settings(base_parity=0.5))[0].base_parity == 0.5
    cells = cell_counts(small.groups, fit_defaults(small, Settings(base_parity=0.5))[0].n_test, 0.5)
    assert cells["g0", "yes"] <= 10


def test_an_empty_cell_is_refused_with_what_to_do(tmp_path: Path) -> None:
    task = table(tmp_path, [(300, 100), (200, 250), (7, 0)])
    assert make_plan(task, ["zero", "random"], Settings()).settings.base_parity is None
    for arm, words in (("balanced", "merge levels by a map"), ("fwc", "merge or drop levels")):
        with pytest.raises(FwcError, match=words):
            make_plan(task, [arm], Settings())


@pytest.mark.parametrize("name", ["adult", "german", "communities", "drug", "census"])
def test_the_tasks_of_the_paper_keep_its_numbers(name: str, data_dir: Path) -> None:
    settings, notes = fit_defaults(load_task(name, data_dir), Settings())
    parity = None if name == "census" else 0.5
    assert (settings.n_test, settings.base_parity, settings.m, notes) == (200, parity, 16, ())


def test_the_default_task_is_adult_where_it_is_and_else_the_census(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_task(data_dir).name == "adult"
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("FWC_LLM_DATA")
    assert default_task().name == "census"
