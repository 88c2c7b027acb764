"""Chosen examples in the cache: used when nothing has changed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fwc_llm import Task, select_shots
from fwc_llm.shots.kept import kept_shots
from fwc_llm.tasks import census_task


@pytest.fixture(scope="module")
def task() -> Task:
    return census_task(400, 50)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


def test_what_is_kept_is_what_would_be_chosen(task: Task, cache: Path) -> None:
    fresh = select_shots(task, "kmeans", 4, progress=False)
    assert kept_shots(task, "kmeans", 4) == fresh  # chosen
    (path,) = files(cache)
    assert kept_shots(task, "kmeans", 4) == fresh  # read
    path.write_text(path.read_text().replace('"kmeans"', '"from the cache"'))
    assert kept_shots(task, "kmeans", 4).strategy == "from the cache"


def test_whatever_a_choice_depends_on_makes_another_entry(task: Task, cache: Path) -> None:
    pool = task.pool()
    older = pool.assign(age=pool["age"] + 1)
    some = np.arange(len(pool)) % 2 == 0
    kept_shots(task, "kmeans", 4)
    for number, change in enumerate(
        (
            {"m": 5}, {"epsilon": 0.5}, {"seed": 1}, {"max_iter": 2}, {"pool": older}, {"candidates": some},
            {"pool": pool[some]},
        ),
        start=2,
    ):  # fmt: skip
        kept_shots(task, "kmeans", **{"m": 4, **change})  # type: ignore[arg-type]
        assert len(files(cache)) == number, change
    kept_shots(task, "kmeans", 4, pool=pool, candidates=None)  # the task's own table: the same choice
    kept_shots(census_task(400, 50), "kmeans", 4)
    assert len(files(cache)) == 8
    kept_shots(census_task(400, 51), "kmeans", 4)
    assert len(files(cache)) == 9


@pytest.mark.parametrize("damage", ["", "{", "half", "folder"])
def test_a_damaged_entry_is_ignored_and_made_again(task: Task, cache: Path, damage: str) -> None:
    fresh = kept_shots(task, "kmeans", 4)
    (path,) = files(cache)
    whole = path.read_text()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_text(whole[: len(whole) // 2] if damage == "half" else damage)
    assert kept_shots(task, "kmeans", 4) == fresh
    if damage != "folder":
        assert path.read_text() == whole


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", "/proc/nowhere"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        assert kept_shots(task, "kmeans", 4).m == 4


def test_many_may_choose_the_same_at_once(task: Task, cache: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda _: kept_shots(task, "kmeans", 4), range(12)))
    assert all(shots == found[0] for shots in found)
    assert len(files(cache)) == 1  # and nothing half-written beside it


def test_what_is_quick_and_what_is_not_ours_is_not_kept(task: Task, cache: Path) -> None:
    kept_shots(task, "random", 4)
    kept_shots(task, "fwc_llm.shots.clustering:kmeans", 4)
    assert not files(cache)
