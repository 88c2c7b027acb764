"""Survey weights: examples are chosen by them, comparisons and the cache know them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.report.strategies import closeness
from fwc_llm.shots import select_shots
from fwc_llm.tasks import Task, load_task, recorded_task, sampling_weights
from tests.command import Run
from tests.refusals import refused

DRAWN = ("random", "balanced", "strata")
CLOSE = ("fwc", "kmeans", "kmedoids")


def survey(n: int = 300) -> pd.DataFrame:
    """A table with a weight: farmers stand for a hundred people each, and some rows for nobody."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"work": rng.choice(["farm", "office"], n), "age": rng.integers(18, 80, n)}
    )
    frame["sex"], frame["hired"] = (
        rng.choice(["f", "m"], n),
        rng.choice(["yes", "no"], n),
    )
    return frame.assign(
        people=np.where(frame["work"] == "farm", 100, 1) * rng.integers(0, 3, n)
    )


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task(survey(), protected="sex", outcome="hired", weight="people")


def test_the_weight_is_no_feature_and_stands_in_the_file(task: Task) -> None:
    assert "people" not in [column.name for column in task.features]
    assert 'weight = "people"' in task.text
    assert (
        recorded_task(task.text, "survey", None).rules.weight
        == task.rules.weight
        == "people"
    )
    weights: Any = sampling_weights(task, task.pool())
    assert weights.tolist() == survey()["people"].tolist()
    plain = load_task(survey().drop(columns="people"), protected="sex", outcome="hired")
    assert sampling_weights(plain, plain.pool()) is None


@pytest.mark.parametrize("strategy", DRAWN + CLOSE)
def test_examples_are_chosen_by_weight(task: Task, strategy: str) -> None:
    frame = survey().set_index(task.pool().index)
    shots = select_shots(task, strategy, m=12)
    rows = [example.row.split(" as ")[0] for example in shots.examples]
    assert (frame.loc[rows, "people"] > 0).all()
    farm = np.array([example.values["work"] == "farm" for example in shots.examples])
    theta = [
        1.0 if example.weight is None else example.weight for example in shots.examples
    ]
    assert np.average(farm, weights=theta) > 0.75
    assert shots.options["sample_weight"] == "people"
    equal = select_shots(task, strategy, m=12, sample_weight=np.ones(300))
    assert "sample_weight" not in equal.options
    bare = select_shots(task, strategy, m=12, sample_weight=np.full(300, 5.0))
    assert [one.row for one in bare.examples] == [one.row for one in equal.examples]


def test_what_cannot_be_weighed_says_so(task: Task) -> None:
    with refused(r"sample_weight of row 2 is -1"):
        select_shots(
            task, "random", m=4, sample_weight=np.where(np.arange(300) == 2, -1, 1)
        )
    with refused(r"m is 250, but only \d+ rows may become examples; .*: lower m"):
        select_shots(task, "random", m=250)
    frame = survey()
    frame.loc[7, "people"] = -3
    bad = load_task(frame, protected="sex", outcome="hired", weight="people")
    with refused(r"row 'row:\d+' has the weight -3 \('people'\)"):
        select_shots(bad, "random", m=4)
    with refused("there is no column 'nobody'"):
        load_task(frame, protected="sex", outcome="hired", weight="nobody")


def test_choices_know_the_weight() -> None:
    adult = load_task("census")
    by = load_task("census", weight="fnlwgt")
    assert by.fingerprint == adult.fingerprint
    pool = adult.pool().iloc[:400]
    chosen = [select_shots(one, "kmedoids", 4, pool=pool) for one in (adult, by)]
    assert "sample_weight" not in chosen[0].options
    assert chosen[1].options["sample_weight"] == "fnlwgt"


def test_a_comparison_is_by_weight(task: Task) -> None:
    shots = select_shots(task, "fwc", m=8)
    certificate: Any = shots.certificate
    distance, _ = closeness(task, shots)
    assert distance == pytest.approx(certificate["objective"], rel=1e-6)


def test_the_command_takes_a_column(fwc: Run) -> None:
    asked = "shots --task census --strategy random --m 4 --weight"
    fwc(asked, "fnlwgt", code=0)
    for column, said in (
        ("fnl", "did you mean 'fnlwgt'?"),
        ("age", 'must have kind = "numeric" and role'),
    ):
        assert said in fwc(asked, column, code=2).line
