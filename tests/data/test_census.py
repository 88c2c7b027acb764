"""The simulated census: close to Adult, deterministic, and nobody in it is real."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from evals.census_closeness import distances, regression_accuracy
from evals.fit_census import fit
from fwc_llm.data.census import SEED, TABLES, simulate
from fwc_llm.runs.splits import row_values
from fwc_llm.tasks import Task, census_task, load_task
from tests.command import read_json
from tests.conftest import CHECKOUT


@pytest.fixture(scope="module")
def census(whole_census: None) -> Task:
    return load_task("census")


def test_its_columns_are_adults(census: Task) -> None:
    adult = load_task("adult")
    assert census.columns == adult.columns
    for name in ("protected", "outcome", "question"):
        assert getattr(census, name) == getattr(adult, name)
    table = census.pool()
    assert list(table.columns) == [column.name for column in adult.columns]
    for column in census.columns:
        assert (table[column.name].dtype == np.int64) == (column.kind == "numeric"), (
            column.name
        )
    assert set(table["income"]) == {"yes", "no"}
    assert not table.isna().any(axis=None)
    assert table.index[0] == "census.data:1"
    assert census.test().index[-1] == "census.test:15060"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows() -> None:
    pd.testing.assert_frame_equal(simulate(500, seed=3), simulate(500, seed=3))
    assert not simulate(500, seed=3).equals(simulate(500, seed=4))
    small = census_task(100, 50, seed=3)
    assert (len(small.pool()), len(small.test())) == (100, 50)
    assert (
        not small.pool()[:50]
        .reset_index(drop=True)
        .equals(small.test().reset_index(drop=True))
    )


def test_the_tables_are_small_and_hold_no_small_count() -> None:
    assert TABLES.stat().st_size < 200_000
    network = read_json(TABLES)
    assert min(map(min, network["joint"]["counts"])) >= 5
    for node in network["nodes"]:
        for table in node["tables"]:
            for _, dropped, *pairs in table:
                assert dropped == 0 or dropped >= 5
                assert min(pairs[1::2]) >= 5
            assert [entry[0] for entry in table] == sorted(
                {entry[0] for entry in table}
            )


@pytest.mark.slow
def test_the_tables_are_what_the_script_makes_of_adult(adult: Task) -> None:
    frame = adult.pool().assign(
        income=adult.pool()["income"].map({"yes": ">50K", "no": "<=50K"})
    )
    assert json.loads(json.dumps(fit(frame))) == read_json(TABLES)


def test_sex_and_income_are_jointly_exact(adult: Task, census: Task) -> None:
    cells = [
        frame.groupby(["sex", "income"]).size().tolist()
        for frame in (adult.pool(), census.pool())
    ]
    assert cells[0] == cells[1]


def test_margins_are_close_to_adults(rng: Generator, adult: Task, census: Task) -> None:
    one, two = distances(census.pool(), adult.pool(), adult)
    assert max(one.values()) < 0.03
    assert np.mean(list(one.values())) < 0.01
    assert max(two.values()) < 0.08
    assert np.mean(list(two.values())) < 0.03
    # The yardstick can tell: with the columns drawn independently of each other the pairs are far
    # off.
    loose = census.pool().apply(
        lambda column: column.to_numpy()[rng.permutation(len(column))]
    )
    assert np.mean(list(distances(loose, adult.pool(), adult)[1].values())) > 0.06


@pytest.mark.slow
def test_a_regression_trained_on_it_holds_on_real_rows(
    adult: Task, census: Task
) -> None:
    real = regression_accuracy(adult.pool(), adult.test(), adult)
    simulated = regression_accuracy(census.pool(), adult.test(), adult)
    assert real > 0.84
    assert real - simulated < 0.02


@pytest.mark.slow
def test_no_original_row_is_reproduced(adult: Task, census: Task) -> None:
    # With the sampling weight, which is all but unique, nearly nobody is met again …
    columns = [column.name for column in adult.columns]
    originals = set(adult.pool()[columns].itertuples(index=False, name=None))
    met = sum(
        row in originals
        for row in census.pool()[columns].itertuples(index=False, name=None)
    )
    assert met <= 30
    # … and without it common people are met as often as in another real sample.
    originals = set(row_values(adult, adult.pool()))
    shares = [
        np.mean([row in originals for row in row_values(adult, frame)])
        for frame in (census.pool(), adult.test())
    ]
    assert shares[0] < shares[1] + 0.03


def test_the_recorded_figures_are_of_these_tables() -> None:
    figures = read_json(CHECKOUT / "evals/results/census.json")
    assert figures["simulated"] is True
    assert figures["seed"] == SEED
    assert figures["table_bytes"] == TABLES.stat().st_size
