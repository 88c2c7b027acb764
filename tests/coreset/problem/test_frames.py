"""Tables of other libraries, and columns that are not numbers."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

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


@pytest.mark.parametrize("kind", [Decimal, float, int])
def test_numbers_in_a_column_of_objects_are_numbers(
    frame: pd.DataFrame, kind: type
) -> None:
    whole = frame["pay"].round()
    expected = fit(whole.to_frame(), frame["hired"], frame["sex"])
    objects = pd.Series([kind(value) for value in whole], name="pay", dtype=object)
    found = fit(objects.to_frame(), frame["hired"], frame["sex"])
    assert found.objective_ == expected.objective_


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


def test_labels_of_two_rows_may_be_texts(frame: pd.DataFrame) -> None:
    pair = frame[["pay"]].iloc[:2]
    assert take_named(pair, [0, 1], ["sex", "race"], None)[2] == ["sex", "race"]


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
