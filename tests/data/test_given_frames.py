"""Frames that users pass to a task: raw rows mean what they mean in the task's own table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fwc_llm import Task, load_task, select_shots
from tests.data.tables import small_task
from tests.refusals import refused

N = 80


def frame(no: object = 0, yes: object = 1) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    columns = {"age": rng.integers(20, 70, N), "sex": list("FM") * (N // 2)}
    return pd.DataFrame(columns | {"approved": [no, yes, yes, no] * (N // 4)})


def of_frame(raw: pd.DataFrame, positive: object = None) -> Task:
    return load_task(raw, protected="sex", outcome="approved", positive=positive)


@pytest.mark.parametrize(
    ("no", "yes", "positive"),
    [
        (0, 1, None),
        (False, True, None),
        ("refused", "granted", None),
        ("yes", "no", "no"),
    ],
)
def test_raw_and_clean_rows_have_the_same_labels_and_groups(
    no: object, yes: object, positive: object
) -> None:
    raw = frame(no, yes)
    task = of_frame(raw, positive)
    truth = (raw["approved"] == yes).to_numpy()
    assert (task.labels(raw) == truth).all()
    assert (task.labels(task.pool()) == truth).all()
    assert task.labels(raw[["approved"]].iloc[5:9]).tolist() == truth[5:9].tolist()
    assert (task.sensitive(raw) == raw["sex"]).all()
    assert task.cells_of(raw).tolist() == task.cells_of(task.pool()).tolist()


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


def test_rows_of_another_task_are_refused() -> None:
    names: dict[str, str] = {"protected": "sex", "outcome": "age"}
    raw = frame()
    of_45 = load_task(raw, **names, above=45)  # type: ignore[arg-type]
    of_60 = load_task(raw, **names, above=60)  # type: ignore[arg-type]
    words = frame("refused", "granted")
    granted = of_frame(words, "granted")
    denied = of_frame(words, "refused")
    for task, other in ((of_60, of_45), (of_45, of_60), (denied, granted)):
        for use in (task.labels, task.cleaned):
            with refused("is not its answer in this"):
                use(other.table)
    assert of_60.labels(raw).sum() < of_45.labels(raw).sum()


@pytest.mark.parametrize("strategy", ["random", "kmedoids"])
def test_shots_from_the_raw_frame_are_those_from_the_tasks_pool(strategy: str) -> None:
    raw = frame()
    task = of_frame(raw)
    shots = select_shots(task, strategy, 6, pool=raw, progress=False)
    assert shots == select_shots(task, strategy, 6, progress=False)
    rows = [int(example.row.removeprefix("row:")) for example in shots.examples]
    assert [example.label for example in shots.examples] == [
        ("no", "yes")[raw["approved"][row]] for row in rows
    ]


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


def test_a_raw_row_of_a_file_gets_its_level_from_the_map(tmp_path: Path) -> None:
    task = small_task(
        tmp_path,
        "x,colour,sex,y\n1,red,1,yes\n2,blue,2,no\n3,red,1,no\n4,green,2,yes\n",
        protected='name = "gender"\nmap = { 1 = "female", 2 = "male" }',
    )
    raw = pd.read_csv(tmp_path / "data.csv")
    assert task.sensitive(raw).tolist() == ["female", "male", "female", "male"]
    assert task.sensitive(task.pool()).tolist() == ["female", "male", "female", "male"]


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


def test_numbers_beside_german_texts_are_what_they_are() -> None:
    pay = ["1.234,50" if n % 2 else 1234.5 + n for n in range(N)]
    raw = frame().assign(pay=pay)
    task = of_frame(raw)
    assert task.pool()["pay"].tolist() == [
        1234.5 if n % 2 else 1234.5 + n for n in range(N)
    ]
    assert task.cleaned(raw)[0]["pay"].equals(task.pool()["pay"])
    assert task.record({"age": 30, "sex": "F", "pay": 1250.25}).values["pay"] == 1250.25
