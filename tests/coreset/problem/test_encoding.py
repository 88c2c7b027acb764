"""A mixed table as numbers: scaling, kinds of columns, and equality by value (docs/method.md)."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.problem.encoding import Encoder, encode_array
from fwc_llm.coreset.problem.table import value_ids
from fwc_llm.errors import FwcError


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "colour": ["red", "blue", "red", "green"],
            "age": [20, 30, 40, 50],
            "school": pd.Categorical(["b", "a", "c", "a"], categories=["a", "b", "c"], ordered=True),
            "constant": [7, 7, 7, 7],
            "member": [True, False, True, True],
        },
        index=["r1", "r2", "r3", "r4"],
    )


def test_numbers_and_ranks_are_z_scored_and_the_rest_are_codes(frame):
    encoder, table = Encoder.fit(frame)
    assert [(c.name, c.kind) for c in encoder.columns] == [
        ("age", "numeric"),
        ("school", "ordinal"),
        ("constant", "numeric"),
        ("colour", "categorical"),
        ("member", "categorical"),
    ]
    ages, ranks = np.array([20, 30, 40, 50]), np.array([1, 0, 2, 0])
    np.testing.assert_allclose(table.values[:, 0], (ages - 35) / ages.std())
    np.testing.assert_allclose(table.values[:, 1], (ranks - ranks.mean()) / ranks.std())
    assert (table.values[:, 2] == 0).all()
    assert table.codes[:, 0].tolist() == [0, 1, 0, 2]
    assert table.codes.dtype == np.uint8  # as small as they can be
    assert table.values[:, 3].tolist() == [0, 1, 0, 2]
    assert table.n_numeric == 3


def test_decoding_gives_the_rows_back(frame):
    encoder, table = Encoder.fit(frame)
    back = encoder.decode(table.values)
    assert list(back.columns) == list(frame.columns)
    for name in ("age", "constant"):
        np.testing.assert_allclose(back[name], frame[name])
    for name in ("colour", "school", "member"):
        assert back[name].tolist() == frame[name].tolist()
    np.testing.assert_allclose(encoder.encode(frame).values, table.values)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e300])
def test_tiny_and_huge_columns_scale(scale):
    _, table = Encoder.fit(pd.DataFrame({"x": np.array([1.0, 2.0, 4.0]) * scale}))
    x = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(table.numbers[:, 0], (x - x.mean()) / x.std())


def test_bad_values_name_row_and_column(frame):
    for column, value, words in [
        ("age", np.nan, "column 'age' is missing in row 'r2'"),
        ("age", np.inf, "column 'age' is infinite in row 'r2'"),
        ("colour", None, "column 'colour' is missing in row 'r2'"),
    ]:
        bad = frame.astype({"age": float})
        bad.loc["r2", column] = value
        with pytest.raises(FwcError, match=words):
            Encoder.fit(bad)
    with pytest.raises(FwcError, match="dates"):
        Encoder.fit(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))


def test_arrays_stay_as_they_are():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert encode_array(x).values is x
    assert encode_array([[1, 2]]).values.dtype == np.float64


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1.0, 2.0], "Expected 2D array, got 1D array"),
        ([[1.0], [np.nan]], "contains NaN in row 1, column 0"),
        ([[1.0, 2.0], [1.0, -np.inf]], "contains infinity in row 1, column 1"),
        ([["a"]], "not numeric"),
        (np.empty((0, 3)), "at least one row"),
    ],
)
def test_bad_arrays_are_refused(x, words):
    with pytest.raises(FwcError, match=words):
        encode_array(x)


def test_value_ids_are_equal_exactly_for_equal_rows():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (500, 4)).astype(float)
    x[0], x[1] = 0.0, -0.0
    ids = value_ids(x)
    _, expected = np.unique(x + 0.0, axis=0, return_inverse=True)
    expected = expected.ravel()  # numpy 2.0 gives a column
    assert (np.equal.outer(ids, ids) == np.equal.outer(expected, expected)).all()
