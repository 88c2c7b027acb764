"""Reference lines: made of pool rows alone, beside the arms and never among them."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fwc_llm import FwcError, Result, Task, evaluate, load_task
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.formats import render
from fwc_llm.report.reference_models import FILE_NAME, ReferenceLines, add_references
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.runs.splits import row_values
from fwc_llm.shots.examples import features_frame
from tests.command import read_json
from tests.models.four_members import FourMembers
from tests.people import make_people, write_people
from tests.report.conftest import lines

LINES = [
    f"{model}, {how} group"
    for model in ("logistic regression", "gradient boosting")
    for how in ("with", "without")
]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    people = make_people(700, 2)
    people.loc[350:, ["age", "hours", "job"]] = 40, 38.5, "cook"  # many equal rows
    return load_task(write_people(tmp_path_factory.mktemp("people"), people))


@pytest.fixture(scope="module")
def result(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("runs") / "run"
    options: dict[str, Any] = {"n_test": 60, "repeats": 2, "base_parity": None, "m": 4}
    return evaluate(
        task, FourMembers(), ("zero", "balanced"), out=out, reference=True, **options
    )


def lines_of(result: Result) -> ReferenceLines:
    found: ReferenceLines = result.audit().statistics.references
    return found


def test_they_are_lines_and_no_arms(result: Result) -> None:
    found = lines_of(result)
    assert found.names == LINES
    with (result.folder / "answers.csv").open(encoding="utf-8") as file:
        assert {line["arm"] for line in csv.DictReader(file)} == {"zero", "balanced"}
    assert result.arms == ("zero", "balanced")
    assert "reference = true" in (result.folder / "experiment.toml").read_text()
    for name in LINES:
        accuracy = result.audit().records.of("accuracy", name)
        assert accuracy.low <= accuracy.value <= accuracy.high
        assert accuracy.scope == "these rows"


def test_the_arms_are_what_they_are_without_the_lines(result: Result) -> None:
    run = read_run(result.folder)
    alone = statistics(run.answered)
    beside = result.audit().statistics
    assert alone.references is None
    assert beside.notes == alone.notes
    for record in alone.records:
        assert record in beside.records.where(arm=record.arm, metric=record.metric)


@pytest.mark.parametrize("protected", [True, False])
def test_the_regression_learns_from_pool_rows_that_equal_no_test_row(
    result: Result, task: Task, protected: bool
) -> None:
    """The same by pandas and scikit-learn, in each repeat: the pool is too small for one fit."""
    pool = task.pool()
    right = []
    sizes = []
    asked = read_run(result.folder).answers["zero"]
    for repeat in (0, 1):
        test = task.table.loc[asked.row[asked.repeat == repeat].tolist()]
        taken = set(row_values(task, test))
        rows = pool[[key not in taken for key in row_values(task, pool)]]
        sizes.append(len(rows))
        x, y = (_by_pandas(task, rows, one, protected) for one in (rows, test))
        fitted = LogisticRegression(tol=1e-10, max_iter=10_000).fit(
            x, task.labels(rows)
        )
        right.append(float(np.mean(fitted.predict(y) == task.labels(test))))
    accuracy = result.audit().records.of("accuracy", LINES[0 if protected else 1])
    assert accuracy.value == pytest.approx(np.mean(right))
    (trained, _) = lines_of(result).notes
    assert f"in each repeat, on {min(sizes)} to {max(sizes)} rows" in trained
    assert max(sizes) < len(pool) - 60, "equal rows are there, and left out"


def _by_pandas(
    task: Task, rows: pd.DataFrame, asked: pd.DataFrame, protected: bool
) -> np.ndarray:
    known, wanted = (
        features_frame(task, frame, protected=protected) for frame in (rows, asked)
    )
    parts = []
    for name in known.columns:
        one = known[name]
        other = wanted[name]
        if isinstance(one.dtype, pd.CategoricalDtype):
            one = one.cat.codes
            other = other.cat.codes
        if pd.api.types.is_numeric_dtype(one.dtype):
            parts.append(((other - one.mean()) / one.std(ddof=0)).to_numpy()[:, None])
        else:
            parts += [
                0.5 * (other == value).to_numpy(float)[:, None]
                for value in sorted(set(one))
            ]
    return np.hstack(parts)


def test_every_format_shows_them(result: Result, task: Task) -> None:
    shown = {
        name: render([result.folder], name, task)
        for name in ("html", "md", "csv", "json")
    }
    for text in shown.values():
        assert all(line in text for line in LINES)
    assert {
        row["arm"] for row in lines(shown["csv"]) if row["reference"] == "true"
    } >= set(LINES)


def test_an_old_run_gets_them_with_its_report(task: Task, tmp_path: Path) -> None:
    result = evaluate(
        task,
        FourMembers(),
        ("zero",),
        n_test=40,
        base_parity=None,
        out=tmp_path / "run",
    )
    assert lines_of(result) is None
    (tmp_path / "run" / FILE_NAME).write_text("{damaged")
    page = result.report(tmp_path / "page.md", reference=True).read_text()
    assert LINES[3] in page
    assert LINES[3] in result.report(tmp_path / "again.md").read_text()


def test_damaged_and_other_lines_are_refused(result: Result, tmp_path: Path) -> None:
    copy = Result(shutil.copytree(result.folder, tmp_path / "run"), result.data)
    own = read_json(copy.folder / FILE_NAME)
    line = own["lines"][0]
    for content in (
        own | {"format": "x"},
        own | {"lines": [line | {"answer": line["answer"][:-1]}]},
        own | {"lines": [line | {"answer": [2] * len(line["answer"])}]},
        own | {"about": {}},
    ):
        (copy.folder / FILE_NAME).write_text(json.dumps(content))
        with pytest.raises(FwcError, match="write it again"):
            copy.audit()


def test_a_pool_that_is_all_test_rows_gives_none(tmp_path: Path) -> None:
    people = make_people(40, 2)
    people[["age", "hours", "job", "school"]] = 40, 38.5, "cook", "low"
    people["group"] = ["a", "a", "b", "b"] * 10
    people["y"] = ["yes", "no"] * 20
    task = load_task(write_people(tmp_path / "p", people))
    result = evaluate(
        task,
        FourMembers(),
        ("zero",),
        n_test=10,
        base_parity=None,
        out=tmp_path / "run",
    )
    with pytest.raises(
        FwcError, match="every row of the pool is a test row, or equals one"
    ):
        add_references([result.folder], task)
