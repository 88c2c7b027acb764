"""Examples from a table on disk: those that the whole table in memory gives."""

import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import certify
from fwc_llm.coreset.fit import CoresetFit
from fwc_llm.data import load
from fwc_llm.errors import FwcError
from fwc_llm.report.strategies import compare
from fwc_llm.shots import select_shots
from fwc_llm.shots.coresets import disk_shots
from fwc_llm.shots.examples import features_frame
from fwc_llm.shots.storage import kept_shots
from fwc_llm.tasks import Task, load_task, recorded_task
from tests.command import Run

TOML = """
question = "Is the loan paid back?"
weight = "w"
missing = "drop"
columns = [
  { name = "age", kind = "numeric" }, { name = "debt", kind = "numeric" },
  { name = "wage", kind = "categorical", bands = [1000, 2000], missing = "category" },
  { name = "school", kind = "ordinal", order = ["low", "middle", "high"] },
  { name = "job" }, { name = "nation", strip_zeros = true },
  { name = "w", kind = "numeric", role = "extra" }, { name = "paid" }, { name = "notes", role = "drop" },
]
[data]
file = "rows.parquet"
[outcome]
column = "paid"
positive = ["on time"]
negative = ["late", "never"]
[[protected]]
column = "nation"
name = "origin"
map = { "7" = "home", "12" = "abroad", "13" = "abroad" }
[[keep]]
column = "age"
above = 17
"""


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1200
    frame = pd.DataFrame({
        "notes": [f"row {k}" for k in range(n)], "age": rng.integers(15, 80, n),
        "debt": rng.normal(100, 30, n).round(2), "wage": rng.integers(300, 4000, n).astype(float),
        "school": rng.choice(["low", "middle", "high"], n),
        "job": pd.Categorical(rng.choice(["cook", "clerk", "nurse"], n)),
        "nation": rng.choice(["07", "012", "13"], n), "w": rng.integers(1, 9, n),
        "paid": rng.choice(["on time", "late", "never"], n),
    })  # fmt: skip
    frame.loc[[5, 6, 1100, 1101], "wage"] = np.nan
    frame.loc[[6, 900], "debt"] = np.nan
    frame.loc[700:, "job"] = "nurse"  # blocks that lack values which others have
    return frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = table()
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    for k, low in enumerate(range(0, 1200, 450)):
        frame.iloc[low : low + 450].to_parquet(tmp_path / f"part-{k}.parquet")
    (tmp_path / "task.toml").write_text(TOML, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("weight", ["w", ""])
def test_blocks_give_the_same_examples(folder: Path, monkeypatch: pytest.MonkeyPatch, weight: str) -> None:
    task = load_task(folder / "task.toml", weight=weight)
    inner = select_shots(task, "fwc", 12, 0.05, seed=1, progress=False)
    monkeypatch.setattr(load, "LARGE", 300)
    large = load_task(folder / "task.toml", weight=weight, data=folder / "rows.parquet")
    outer = disk_shots(large, 12, 0.05, seed=1)
    assert inner.certificate
    assert outer == inner
    for one, two in zip(inner.examples, outer.examples, strict=True):
        assert list(map(type, one.values.values())) == list(map(type, two.values.values()))
    assert large.notes[0].endswith(f": {task.rows.kept:,} of 1,200 rows kept")
    assert "2 rows left out, no value in debt" in large.notes
    assert "missing values made the category 'unknown' (wage 3)" in set(task.notes) & set(large.notes)


def test_a_table_beyond_the_sample_is_certified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LARGE", 300)
    monkeypatch.setattr("fwc_llm.coreset.problem.ground_cost.L1.sampled", 30)
    monkeypatch.setattr("fwc_llm.shots.coresets.CoresetFit", partial(CoresetFit, sample=300))
    task = load_task(folder / "task.toml", weight="", data=folder / "part-*.parquet")
    found: Any = disk_shots(task, 8, 0.05, seed=1).certificate
    monkeypatch.undo()
    whole = load_task(folder / "task.toml", weight="", data=folder / "part-*.parquet")
    pool = whole.pool()
    rows = pool.loc[found["rows"]]
    both = [(features_frame(whole, one), whole.labels(one), whole.sensitive(one)) for one in (pool, rows)]
    again = certify(*both[0], *both[1], epsilon=0.05)
    assert found["objective"] == pytest.approx(again.objective, rel=1e-9)
    assert found["violation"] == pytest.approx(again.violation, abs=1e-9)


def test_the_command_takes_a_pattern(fwc: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = partial(fwc, "shots", "--task", folder / "task.toml", "--m", 8)
    monkeypatch.setattr(load, "LARGE", 300)
    files = ("--data", folder / "part-*.parquet")
    assert run(*files, "--strategy", "kmeans").code == 0  # from the sample
    found = run(*files, "-o", folder / "shots.json")
    assert found.code == 0, found.err
    command = shlex.split(found.err.partition("use them with: fwc-llm ")[2])
    command = command[: command.index("baseline") + 1]
    fwc(*command, "--n-test", 8, "-o", folder / "run", code=0)
    saved = json.loads((folder / "shots.json").read_text())
    rows = [example["row"] for example in saved["examples"]]
    assert all(re.fullmatch(r"part-[012]\.parquet:\d+", row) for row in rows)
    frame = table()
    for example in saved["examples"]:
        file, _, line = example["row"].removeprefix("part-").partition(".parquet:")
        row = frame.iloc[450 * int(file) + int(line) - 1]
        assert example["values"]["debt"] == pytest.approx(row["debt"])
        assert example["label"] == ("yes" if row["paid"] == "on time" else "no")
    for words, said in (
        ((*files, "--option", "slots=home:no=4,home:yes=4"), "name one of balanced-positive"),
        ((*files, "--option", "labels=odd"), "no option 'labels'"),
        (("--data", folder / "no-*.parquet"), "there is no such file"),
        (("--per-attribute",), "this one stays on disk"),
    ):
        refused = run(*words)
        assert (refused.code, said in refused.line) == (2, True)


def test_files_of_several_writers_are_one_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table().assign(notes="x")
    widths = pd.Categorical(frame["job"].astype(str), [*map(str, range(300)), "cook", "clerk", "nurse"])
    parts = [
        frame[:0].assign(age=None, more=None),
        frame[:300],
        frame[300:500].assign(job=widths[300:500], wage=None, w=frame["w"].astype(np.uint8)),
        frame[500:700].assign(job=frame["job"].astype(str), age=frame["age"].astype(float)),
        frame[700:900].assign(more=[[1]] * 200, notes=3)[::-1],
        frame[900:].assign(notes=[{"a": 1}] * 300).set_index("debt", drop=False).rename_axis("place"),
    ]
    for k, part in enumerate(parts):
        part.to_parquet(folder / f"part-{k}.parquet")
    (folder / "task.toml").write_text(TOML.replace("rows.parquet", "part-*.parquet"), encoding="utf-8")
    task = load_task(folder / "task.toml")
    inner = select_shots(task, "fwc", 8, 0.05, seed=1, progress=False)
    monkeypatch.setattr(load, "LARGE", 300)
    outer = disk_shots(load_task(folder / "task.toml"), 8, 0.05, seed=1)
    assert [example.row for example in outer.examples] == [example.row for example in inner.examples]
    assert outer.fingerprint == inner.fingerprint


# --- Survey weights


DRAWN = ("random", "balanced", "strata", "reweighing")
CLOSE = ("fwc", "kmeans", "kmedoids", "kmedian-coreset", "indfair-coreset")


def survey(n: int = 300) -> pd.DataFrame:
    """A table with a weight: farmers stand for a hundred people each, and some rows for nobody."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"work": rng.choice(["farm", "office"], n), "age": rng.integers(18, 80, n)})
    frame["sex"], frame["hired"] = rng.choice(["f", "m"], n), rng.choice(["yes", "no"], n)
    return frame.assign(people=np.where(frame["work"] == "farm", 100, 1) * rng.integers(0, 3, n))


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(survey(), protected="sex", outcome="hired", weight="people")


def test_the_weight_is_no_feature_and_stands_in_the_file(task: Task) -> None:
    assert "people" not in [column.name for column in task.features]
    assert 'weight = "people"' in task.text
    assert recorded_task(task.text, "survey", None).weight == task.weight == "people"
    weights: Any = task.weights(task.pool())
    assert weights.tolist() == survey()["people"].tolist()
    plain = load_task(survey().drop(columns="people"), protected="sex", outcome="hired")
    assert plain.weights(plain.pool()) is None


@pytest.mark.parametrize("strategy", DRAWN + CLOSE)
def test_examples_are_chosen_by_weight(task: Task, strategy: str) -> None:
    frame = survey().set_index(task.pool().index)
    shots = select_shots(task, strategy, m=12)
    rows = [example.row.split(" as ")[0] for example in shots.examples]
    assert (frame.loc[rows, "people"] > 0).all()
    farm = np.array([example.values["work"] == "farm" for example in shots.examples])
    theta = [1.0 if example.weight is None else example.weight for example in shots.examples]
    assert np.average(farm, weights=theta) > 0.75
    assert shots.options["sample_weight"] == "people"
    equal = select_shots(task, strategy, m=12, sample_weight=np.ones(300))
    none = load_task(survey(), protected="sex", outcome="hired", weight="people")
    assert "sample_weight" not in equal.options
    bare = select_shots(none, strategy, m=12, sample_weight=np.full(300, 5.0))
    assert [one.row for one in bare.examples] == [one.row for one in equal.examples]


def test_what_cannot_be_weighed_says_so(task: Task) -> None:
    with pytest.raises(FwcError, match="fairlets does not support weights"):
        select_shots(task, "fairlets", m=4)
    with pytest.raises(FwcError, match=r"sample_weight of row 2 is -1"):
        select_shots(task, "random", m=4, sample_weight=np.where(np.arange(300) == 2, -1, 1))
    with pytest.raises(FwcError, match=r"m is 250, but only \d+ rows may become examples: lower m"):
        select_shots(task, "random", m=250)
    frame = survey()
    frame.loc[7, "people"] = -3
    bad = load_task(frame, protected="sex", outcome="hired", weight="people")
    with pytest.raises(FwcError, match=r"row 'row:\d+' has the weight -3 \('people'\)"):
        select_shots(bad, "random", m=4)
    with pytest.raises(FwcError, match="there is no column 'nobody'"):
        load_task(frame, protected="sex", outcome="hired", weight="nobody")


def test_kept_choices_and_comparisons_know_the_weight() -> None:
    adult = load_task("census")
    by = load_task("census", weight="fnlwgt")
    assert by.fingerprint == adult.fingerprint
    pool = adult.pool().iloc[:400]
    chosen = [kept_shots(one, "kmedoids", 4, pool=pool) for one in (adult, by)]
    assert "sample_weight" not in chosen[0].options
    assert chosen[1].options["sample_weight"] == "fnlwgt"


def test_a_comparison_is_by_weight(task: Task) -> None:
    (weighted,) = compare(task, ["fwc"], m=8)
    bare = load_task(survey(), protected="sex", outcome="hired", weight="people")
    certificate: Any = select_shots(bare, "fwc", m=8).certificate
    assert weighted.distance == pytest.approx(certificate["objective"], rel=1e-6)


def test_the_command_takes_a_column(fwc: Run) -> None:
    asked = ("shots", "--task", "census", "--strategy", "random", "--m", 4, "--weight")
    fwc(*asked, "fnlwgt", code=0)
    for column, said in (("fnl", "did you mean 'fnlwgt'?"), ("age", 'must have kind = "numeric" and role')):
        assert said in fwc(*asked, column, code=2).line
