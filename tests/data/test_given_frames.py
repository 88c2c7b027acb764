"""Frames that users pass to a task: raw rows mean what they mean in the task's own table."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm import Task, load_task, select_shots
from tests.refusals import refused

N = 80


def frame(no: object = 0, yes: object = 1) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    columns = {"age": rng.integers(20, 70, N), "sex": list("FM") * (N // 2)}
    return pd.DataFrame(columns | {"approved": [no, yes, yes, no] * (N // 4)})


def of_frame(raw: pd.DataFrame, positive: object = None) -> Task:
    return load_task(raw, protected="sex", outcome="approved", positive=positive)


@pytest.mark.parametrize(
    ("no", "yes", "other"),
    [
        ("no", "yes", {"no": "NO", "yes": "Yes."}),
        (False, True, {False: "0", True: "1.0"}),
        (0, 1, {0: 0.0, 1: "true"}),
    ],
)
def test_spellings_of_an_outcome_mean_what_it_means(
    no: object, yes: object, other: dict[object, object]
) -> None:
    raw = frame(no, yes)
    task = of_frame(raw)
    spelled = raw.assign(approved=raw["approved"].astype(object).map(other))
    assert (task.labels(spelled) == task.labels(raw)).all()
    shots = select_shots(task, "random", 4, pool=spelled, progress=False)
    assert shots == select_shots(task, "random", 4, progress=False)


def test_rows_that_the_task_loses_leave_masks_and_weights_in_step() -> None:
    raw = frame()
    raw.loc[[3, 10], "approved"] = None
    task = of_frame(raw)
    allowed = np.zeros(N, dtype=bool)
    allowed[[4, 5, 11, 12, 60]] = True
    weights = np.ones(N)
    weights[60] = 0
    chosen = select_shots(
        task,
        "random",
        4,
        pool=raw,
        candidates=allowed,
        sample_weight=weights,
        progress=False,
    )
    assert {example.row for example in chosen.examples} == {
        "row:4",
        "row:5",
        "row:11",
        "row:12",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"approved": 7},
            "row:2, column 'approved': '7' means neither yes nor no; the task's table has '1', "
            "'0' (clean rows, as of task.pool(), are known by their index)",
        ),
        ({"approved": None}, "row:2, column 'approved': the cell has no value"),
        (
            {"sex": "X"},
            "row:2: 'X' in column 'sex' is in no row of the task's table; there are F, M",
        ),
    ],
)
def test_a_cell_that_the_task_does_not_know_is_refused(
    change: dict[str, object], message: str
) -> None:
    raw = frame().astype(object)
    task = of_frame(frame())
    for name, value in change.items():
        raw.loc[2, name] = value
    with refused() as caught:
        task.cells_of(raw)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("town", "Z", "'Z' in column 'town' is in no row of the task's table"),
        ("age", -1, "-1 in column 'age' is negative"),
        ("age", "old", "'old' in the numeric column 'age' is not a finite number"),
    ],
)
def test_a_pool_with_an_unknown_cell_is_refused(
    column: str, cell: object, message: str
) -> None:
    own = frame().assign(town=list("AABB") * (N // 4))
    task = of_frame(own)
    raw = own.astype(object)
    raw.loc[2, column] = cell
    with refused(f":2: {message}"):
        select_shots(task, "random", 4, pool=raw, progress=False)
    if column == "town":
        clean = task.pool().replace({"town": {"A": "Z"}})
        with refused(f"row:0: {message}"):
            select_shots(task, "random", 4, pool=clean, progress=False)


@pytest.mark.parametrize("words", [(0, 1), ("no", "yes"), ("refused", "granted")])
def test_a_changed_level_is_blamed_itself(words: tuple[object, object]) -> None:
    task = of_frame(frame(*words), words[1])
    all_f = task.pool().assign(sex="F")
    assert select_shots(task, "random", 4, pool=all_f, progress=False).m == 4
    with refused("'X' in column 'sex' is in no row of the task's"):
        select_shots(
            task, "random", 4, pool=task.pool().assign(sex="X"), progress=False
        )
