"""What the report takes from the real table: logistic regressions, against scikit-learn."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.models.base import Messages, Reply, Usage
from fwc_llm.report.read import read_run
from fwc_llm.report.reference_models import table_statistics
from fwc_llm.report.write import render
from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import Task, load_task

pytestmark = pytest.mark.slow


class Coin:
    """A model whose answers depend on nothing but the text's hash."""

    name, simulated = "coin", False
    parameters: Mapping[str, Any] = {}

    async def ask(self, messages: Messages) -> Reply:
        digest = hashlib.sha256(messages[-1]["content"].encode()).digest()
        return Reply("Yes" if digest[0] < 128 else "No", finish_reason="stop", usage=Usage(100, 1))

    async def aclose(self) -> None:
        pass


@pytest.fixture(scope="module")
def task(data_dir: Path) -> Task:
    return load_task("german", data_dir)


@pytest.fixture(scope="module")
def folder(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "german"
    return evaluate(task, Coin(), ["zero", "balanced", "fwc"], n_test=40, repeats=2, out=out, m=8).folder


@pytest.fixture(scope="module")
def found(task: Task, folder: Path) -> list[dict[str, Any]]:
    return table_statistics(read_run(folder), task)


def encoded(task: Task, frame: pd.DataFrame, protected: bool) -> np.ndarray:
    """The same encoding by pandas: z-scores over the table, half-scaled dummies."""
    features = features_frame(task, frame, protected=protected)
    parts = []
    for name in features.columns:
        series = features[name]
        if isinstance(series.dtype, pd.CategoricalDtype):
            series = series.cat.codes
        if pd.api.types.is_numeric_dtype(series.dtype):
            parts.append(((series - series.mean()) / series.std(ddof=0)).to_numpy()[:, None])
        else:
            parts.append(0.5 * pd.get_dummies(series).to_numpy(dtype=float))
    return np.hstack(parts)


def by_scikit_learn(task: Task, folder: Path, arm: str | None) -> float:
    """Mean accuracy over repeats of scikit-learn's logistic regression, on the pool or an arm's examples."""
    table = task.table
    x = pd.DataFrame(encoded(task, table, protected=True), index=table.index)
    y = pd.Series(task.labels(table), index=table.index)
    answers = pd.read_csv(folder / "answers.csv", keep_default_na=False)
    accuracy = []
    for repeat in (0, 1):
        rows = answers.loc[(answers["arm"] == "zero") & (answers["repeat"] == repeat), "row"].tolist()
        if arm is None:
            training, weights = table.index.difference(rows), None
        else:
            shots = json.loads((folder / "shots" / f"{arm}-{repeat}.json").read_text())["examples"]
            training = pd.Index([example["row"] for example in shots])
            weights = [1.0 if example["weight"] is None else example["weight"] for example in shots]
        model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(x.loc[training], y.loc[training], weights)
        accuracy.append(float(np.mean(model.predict(x.loc[rows]) == y.loc[rows])))
    return float(np.mean(accuracy))


def test_regressions_are_scikit_learns(task: Task, folder: Path, found: list[dict[str, Any]]) -> None:
    context = {row["name"]: row["accuracy"] for row in found}
    assert context == pytest.approx(
        {
            "logistic regression, balanced's examples": by_scikit_learn(task, folder, "balanced"),
            "logistic regression, fwc's examples": by_scikit_learn(task, folder, "fwc"),
            "logistic regression, all training rows": by_scikit_learn(task, folder, None),
        }
    )


def test_another_table_is_not_mistaken_for_the_runs(folder: Path, data_dir: Path, tmp_path: Path) -> None:
    changed = tmp_path / "german"
    changed.mkdir()
    text = (data_dir / "german" / "german.data").read_text().splitlines(keepends=True)
    (changed / "german.data").write_text("".join(text[:-1]))
    page = render([folder], "html", data_dir=tmp_path)
    assert "not the table that the run was made with" in page
