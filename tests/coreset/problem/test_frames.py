"""Tables of other libraries, and columns that are not numbers."""

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.problem.frames import take_named
from tests.coreset.people import people, quick
from tests.refusals import refused


@pytest.fixture
def frame() -> pd.DataFrame:
    X, y, d = people(60)
    return X.assign(sex=pd.Series(d, dtype="str"), hired=(y == "yes").astype(int))


def fit(table: Any, y: Any, d: Any) -> FairCoreset:
    return quick(8).fit(table, y, d)


def test_polars_and_arrow_tables_are_read_as_pandas_are(frame: pd.DataFrame) -> None:
    features = ["pay", "town", "grade"]
    expected = fit(frame[features], frame["hired"], frame["sex"])
    polars = pl.from_pandas(frame.astype({"grade": "str"})).with_columns(
        pl.col("grade").cast(pl.Enum(["low", "high"]))
    )
    arrow = pa.Table.from_pandas(frame)
    for table, hired, sex in (
        (polars[features], polars["hired"], polars["sex"]),
        (arrow.select(features), arrow["hired"], arrow["sex"]),
    ):
        found = fit(table, hired, sex)
        assert type(found.representatives_) is type(table)
        assert found.objective_ == expected.objective_
        representatives = pl.DataFrame(found.representatives_)
        assert (
            representatives.rows() == pl.from_pandas(expected.representatives_).rows()
        )
        assert found.sensitive_.tolist() == expected.sensitive_.tolist()
    with refused(r"lazy table: pass what its collect\(\)"):
        fit(polars[features].lazy(), polars["hired"], polars["sex"])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([timedelta(k) for k in range(60)], "'when' holds timedelta"),
        (pd.period_range("2020-01", periods=60, freq="M"), "'when' holds period"),
        ([date(2020, 1, 1 + k % 28) for k in range(60)], "'when' holds date"),
        (pd.date_range("2020-01-01", periods=60, tz="UTC"), "'when' holds date"),
        ([[k] for k in range(60)], "'when' holds a list in row 0"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_by_name(
    frame: pd.DataFrame, values, words: str
) -> None:
    with refused(words):
        fit(frame[["pay"]].assign(when=values), frame["hired"], frame["sex"])


@pytest.mark.parametrize("kind", [Decimal, float, int])
def test_numbers_in_a_column_of_objects_are_numbers(
    frame: pd.DataFrame, kind: type
) -> None:
    whole = frame["pay"].round()
    expected = fit(whole.to_frame(), frame["hired"], frame["sex"])
    objects = pd.Series([kind(value) for value in whole], name="pay", dtype=object)
    found = fit(objects.to_frame(), frame["hired"], frame["sex"])
    assert found.objective_ == expected.objective_


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ma.masked_greater(np.eye(60), 0.5), "masked values"),
        (csr_array(np.eye(60)), r"Sparse data .* Use '.toarray\(\)'"),
        (np.eye(60) * 1j, "Complex data not supported"),
        (np.full((60, 2), np.datetime64("2020-01-01")), "X holds dates"),
    ],
)
def test_arrays_that_are_no_numbers_are_refused(
    frame: pd.DataFrame, x, words: str
) -> None:
    with refused(words):
        fit(x, frame["hired"], frame["sex"])


def test_crossed_attributes_keep_their_types(frame: pd.DataFrame) -> None:
    crossed = frame[["sex"]].assign(old=np.arange(60) % 2)
    found = fit(frame[["pay"]], frame["hired"], crossed)
    assert {tuple(level) for level in found.sensitive_} == {
        ("f", 0),
        ("f", 1),
        ("m", 0),
        ("m", 1),
    }
    assert all(isinstance(level[1], (int, np.integer)) for level in found.sensitive_)
    with refused(r"\(sensitive = f & 1, y = 1\) has no rows"):
        fit(frame[["pay"]], frame["hired"] * (crossed["old"] == 0), crossed)


def test_labels_that_are_missing_or_no_labels_are_named(frame: pd.DataFrame) -> None:
    times = pd.Series(pd.date_range("2020-01-01", periods=60)).where(
        lambda when: when.index != 7
    )
    for labels in (
        times,
        times.astype(object),
        pl.Series(["x"] * 7 + [None] + ["y"] * 52),
    ):
        with refused("sensitive has no value in row 7"):
            fit(frame[["pay"]], frame["hired"], labels)
    with refused("y has no value in row 2"):
        fit(frame[["pay"]], frame["hired"].where(frame.index != 2), frame["sex"])
    with refused("one value per row"):
        fit(frame[["pay"]], frame[["hired", "age"]], frame["sex"])


@pytest.mark.parametrize("form", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize("sensitive", ["sex", ["sex", "race"]])
def test_columns_by_name_are_the_columns(
    frame: pd.DataFrame, form: Any, sensitive: Any
) -> None:
    frame = frame.drop(columns="grade")  # whose order Polars does not keep
    frame = frame.assign(
        race=np.where(frame["age"] % 2, "a", "b"), w=frame["age"] % 5 + 1
    )
    rest = frame.drop(
        columns=[
            "hired",
            "w",
            *([sensitive] if isinstance(sensitive, str) else sensitive),
        ]
    )
    values = frame["hired"], frame[sensitive]
    model = quick(8, epsilon=0.2)
    one = model.fit(
        form(frame), y="hired", sensitive=sensitive, sample_weight="w"
    ).objective_
    assert list(model.feature_names_in_) == list(rest.columns)
    assert one == model.fit(rest, *values, sample_weight=frame["w"]).objective_
    model.fit(rest, *values)
    assert model.score(form(frame), "hired", sensitive) == model.score(rest, *values)


def test_names_that_are_no_columns_are_refused(frame: pd.DataFrame) -> None:
    for y, sensitive, words in (
        (
            "z",
            "sex",
            "y names the column 'z', which X does not have: it has 'town', 'pay'",
        ),
        ("hired", ["sex", "race"], "sensitive names the column 'race'"),
    ):
        with refused(words):
            fit(frame, y, sensitive)
    with refused("the columns of X have no names"):
        fit(frame[["pay"]].to_numpy(), "hired", frame["sex"])
    pair = frame[["pay"]].iloc[:2]
    assert take_named(pair, [0, 1], ["sex", "race"], None)[2] == [
        "sex",
        "race",
    ]  # labels of two rows


def test_rows_on_disk_are_refused_where_they_are_needed_themselves() -> None:
    frame = pd.DataFrame(
        {"a": np.arange(40.0), "y": [0, 1] * 20, "d": list("ffmm") * 10}
    )
    model = quick(4).fit(frame, "y", "d")
    lazy = dd.from_pandas(frame, npartitions=2)
    for X in ("rows.parquet", Path("rows"), ["a.parquet", "b.parquet"], lazy):
        for method in (model.predict, model.score, model.transform, model.certify):
            with refused(r"only FairCoreset\.fit reads in blocks"):
                method(X, "y", "d")
