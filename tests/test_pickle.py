"""Tasks and results go to other processes: a pool, joblib, a cache."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from fwc_llm import Result, Task, build_prompt, evaluate, load_task
from fwc_llm.tasks import table_files, with_columns
from tests.data.tables import small_task
from tests.people import SMALL_CENSUS, applicants, approvals


def facts(task: Task, result: Result | None = None) -> tuple[object, ...]:
    """What another process computes from a task and a result."""
    row = task.test().iloc[0]
    outcome = None if result is None else result.check("dp_gap > 0.1").outcome
    return task.groups, task.fingerprint, build_prompt(task, row), outcome


def test_tasks_of_every_kind_can_be_pickled(tmp_path: Path) -> None:
    of_file = small_task(tmp_path)
    census = load_task("census")
    of_frame = approvals(applicants())
    for task in (
        of_file,
        of_frame,
        census,
        with_columns(of_frame, "", ""),
        load_task("german"),
    ):
        again = pickle.loads(pickle.dumps(task))
        assert (again.name, again.question, again.spellings) == (
            task.name,
            task.question,
            task.spellings,
        )
        if table_files(task) is not None:
            assert facts(again) == facts(task)
            assert facts(pickle.loads(pickle.dumps(task))) == facts(task)
    census.freeze(tmp_path / "frozen.json")
    frozen = pickle.loads(pickle.dumps(load_task(tmp_path / "frozen.json")))
    assert frozen.fingerprint == census.fingerprint


@pytest.mark.slow
def test_a_task_and_a_result_go_to_a_pool_of_processes(out: Path) -> None:
    task = approvals(applicants())
    result = evaluate(task, lambda _: "yes", ("zero",), n_test=40, out=out)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(facts, task, result).result() == facts(task, result)


def test_columns_of_answers_keep_their_dtype(tmp_path: Path) -> None:
    """They do not depend on whether a reply is missing."""
    said = iter(range(1000))
    frames = [
        evaluate(
            SMALL_CENSUS,
            model,
            ("zero",),
            n_test=20,
            out=tmp_path / name,
            no_watch=True,
        ).answers()
        for name, model in (
            ("all", lambda _: 0.7),
            ("some", lambda _: 0.7 if next(said) % 5 else "dunno"),
            ("none", lambda _: "dunno"),
        )
    ]
    for answers in frames:
        assert answers.dtypes.equals(frames[0].dtypes)
        assert answers["p_yes"].dtype == "float64"
        assert "object" not in set(answers.dtypes.astype(str))
    assert [int(answers["answer"].isna().sum()) for answers in frames] == [0, 4, 20]
    assert [int(answers["p_yes"].isna().sum()) for answers in frames] == [0, 4, 20]
