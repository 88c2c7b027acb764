"""A mixed table as numbers: scaling, kinds of columns, and equality by value (docs/method.md)."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator

from fwc_llm.coreset import FairCoreset, certify
from fwc_llm.coreset.problem.allocation import count_slots
from fwc_llm.coreset.problem.cells import find_cells, overall_target
from fwc_llm.coreset.problem.encoded_table import EncodedTable, value_ids
from fwc_llm.coreset.problem.encoding import encode
from fwc_llm.notices import ScaleWarning
from tests.coreset.people import consistent, quick
from tests.coreset.programs import peak
from tests.refusals import refused


def test_numbers_and_ranks_are_z_scored_the_rest_are_codes_and_decoding_gives_rows_back():
    frame = pd.DataFrame(
        {
            "colour": ["red", "blue", "red", "green"],
            "age": [20, 30, 40, 50],
            "school": pd.Categorical(
                ["b", "a", "c", "a"], categories=["a", "b", "c"], ordered=True
            ),
            "constant": [7, 7, 7, 7],
            "member": [True, False, True, True],
        }
    )
    encoder, table, _ = encode(frame)
    kinds = {column.name: column.kind[0] for column in encoder.columns}
    assert "".join(kinds.values()) == "nonnc"  # numeric, ordinal, numeric, categorical
    assert list(kinds) == ["age", "school", "constant", "member", "colour"]
    for k, expected in enumerate(([20, 30, 40, 50], [1, 0, 2, 0])):
        spread = np.std(expected)
        scores = (np.array(expected) - np.mean(expected)) / spread
        np.testing.assert_allclose(table.values[:, k], scores)
    assert (table.values[:, 2] == 0).all()
    assert table.codes[:, 0].tolist() == [0, 1, 0, 2]
    assert table.codes.dtype == np.int8  # as small as they can be
    assert table.n_numeric == 4
    back = encoder.decode(table.values)
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)
    np.testing.assert_allclose(encoder.encode(frame).values, table.values)


def test_value_ids_are_equal_exactly_for_equal_rows(rng: Generator):
    x = rng.integers(0, 3, (500, 4)).astype(float)
    x[0], x[1] = 0.0, -0.0
    ids = value_ids(EncodedTable(x, np.empty((500, 0))))
    expected = np.unique(x + 0.0, axis=0, return_inverse=True)[1]
    assert (np.equal.outer(ids, ids) == np.equal.outer(expected, expected)).all()


# --- How tables come in


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50_000, 20_000, 120), rng.integers(18, 80, 120)])
    d = rng.integers(0, 2, 120)
    return x, (rng.random(120) < 0.3 + 0.4 * d).astype(int), d


def test_a_scaled_array_and_a_frame_and_their_opposites_are_the_same(table) -> None:
    x, y, d = table
    frame = pd.DataFrame(x, columns=["pay", "age"])
    found = {}
    for scale in (True, False):
        model = quick(8, scale=scale)
        found[scale] = model.fit(x, y, d).objective_
        of_frame = model.fit(frame, y, d).objective_
        assert of_frame == pytest.approx(found[scale], rel=1e-9)
    assert found[False] > 100 * found[True]


@pytest.mark.parametrize(
    "form",
    [
        lambda frame: frame,
        lambda frame: frame.astype(object),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        pl.from_pandas,
        pd.DataFrame.to_numpy,
    ],
    ids=["pandas", "objects", "Arrow", "Polars", "array"],
)
def test_booleans_are_0_and_1_in_frames_and_arrays(table, form) -> None:
    x, y, d = table
    frame = pd.DataFrame({"pay": x[:, 0], "member": x[:, 1] > 50})
    model = quick(8, cost="sqeuclidean")
    expected = model.fit(frame.astype(float).to_numpy(), y, d).objective_
    with pytest.warns(ScaleWarning):
        assert model.fit(form(frame), y, d).objective_ == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_scaled_array_gives_representatives_in_its_own_units_and_precision(
    table, dtype, support
) -> None:
    x, y, d = table[0].astype(dtype), *table[1:]
    found = quick(8, scale=True, support=support).fit(x, y, d)
    assert found.representatives_.dtype == dtype
    assert found.representatives_[:, 1].max() <= 80
    assert not hasattr(found, "feature_names_in_")
    # The certificate is of what is returned.
    again = certify(
        x, y, d, found.representatives_, found.y_, found.sensitive_, scale=True
    )
    assert again.objective == pytest.approx(found.objective_, rel=1e-12)
    consistent(found, x, y, d)
    start = FairCoreset(8, scale=True, init=found.representatives_, max_iter=0).fit(
        x, y, d
    )
    assert (
        start.objective_ == pytest.approx(found.objective_, rel=1e-6)
        or support == "rows"
    )


def test_one_warning_a_fit_names_the_columns_and_the_line_that_called(table) -> None:
    x, y, d = table
    for fit in (
        lambda: FairCoreset(8, n_init=1).fit(x, y, d),
        lambda: FairCoreset(8, n_init=1).fit(pd.DataFrame(x), y, d),
        lambda: certify(x, y, d, x[:8], y[:8], d[:8], epsilon=None),
    ):
        with pytest.warns(
            ScaleWarning, match=r"column 0 typically by .*column 1 by"
        ) as caught:
            fit()
        assert [warning.filename for warning in caught] == [__file__]
    named = pd.DataFrame(x).rename(columns={0: "pay", 1: "age"})
    with pytest.warns(
        ScaleWarning, match=r"column 'pay' typically by .*column 'age' by"
    ):
        FairCoreset(8, n_init=1).fit(named, y, d)


def test_what_is_given_explicitly_or_alike_in_size_is_silent(
    rng: Generator, table
) -> None:
    x, y, d = table
    rare = np.zeros(120)
    rare[5] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (True, False):
            quick(8, scale=scale).fit(x, y, d)
        quick(8).fit(pd.DataFrame(x).assign(word="a"), y, d)
        for quiet in (
            x[:, 1:],
            np.column_stack([x[:, 1], rare]),  # a rare yes is not a small column
            np.column_stack(
                [x[:, 1], np.full(120, 1e-9)]
            ),  # a constant one has no size
            np.column_stack([rng.lognormal(0, 2, 120), rng.normal(size=120)]),
            np.array([[1e308], [-1e-308]]),
            rng.normal(size=(120, 3)) * 1e-200,
        ):
            encode(quiet)
        with pytest.raises(ScaleWarning):
            encode(x * 1e-200)


def test_scaling_there_and_back() -> None:
    x = np.column_stack(
        [np.arange(5.0) * 1e300, np.full(5, 7.0), np.arange(5.0) * 1e-300]
    )
    encoding, table, _ = encode(x, True)
    np.testing.assert_allclose(table.numbers.std(axis=0), [1, 0, 1])
    np.testing.assert_allclose(encoding.decode(table.numbers), x)
    np.testing.assert_allclose(encoding.encode(x).numbers, table.numbers, atol=1e-12)
    with refused("init has 2 features"):
        encoding.encode(x[:, :2])


# --- The memory of reading a table


def test_a_float64_array_is_read_where_it_is() -> None:
    X = np.random.default_rng(0).normal(
        size=(400_000, 10)
    )  # far more than the rows whose scale is looked at
    assert peak(lambda: encode(X)) < 0.2 * X.nbytes  # the masses take a tenth


# --- Cells


def cells_with(counts: dict[tuple[str, int], int]) -> tuple:
    level = np.repeat([d for d, _ in counts], list(counts.values()))
    y = np.repeat([y for _, y in counts], list(counts.values()))
    cells = find_cells(y, level, len(y))
    return cells, cells.counts.copy()


ADULT = {
    ("Female", 0): 8670,
    ("Female", 1): 1112,
    ("Male", 0): 13984,
    ("Male", 1): 6396,
}


def test_adult_slots():
    cells, room = cells_with(ADULT)
    named = {("Female", 0): 4, ("Female", 1): 3, ("Male", 0): 5, ("Male", 1): 4}
    for slots, m, expected in (
        ("balanced-positive", 16, [5, 2, 7, 2]),
        ("equal", 18, [5, 4, 5, 4]),
        ("proportional", 16, [5, 1, 7, 3]),
        ([[4, 3], [5, 4]], 16, [4, 3, 5, 4]),
        (named, 16, [4, 3, 5, 4]),
    ):
        seats = count_slots(slots, m, cells, room, constrained=True)
        assert seats.tolist() == expected


@given(
    counts=st.lists(st.integers(1, 500), min_size=4, max_size=4),
    m=st.integers(4, 60),
    policy=st.sampled_from(["proportional", "equal", "balanced-positive"]),
)
def test_slots_sum_to_m_and_respect_the_cells(counts, m, policy):
    cells, room = cells_with(dict(zip(ADULT, counts, strict=True)))
    if m > sum(counts):
        with refused("lower m"):
            count_slots(policy, m, cells, room, constrained=True)
        return
    others = counts[0] + counts[2]
    if (
        policy == "balanced-positive"
        and 2 * min(counts[1], counts[3]) + others - (m + others) % 2 < m
    ):
        return  # more than the same number of positives and all others: refused, tested below
    seats = count_slots(policy, m, cells, room, constrained=True)
    assert seats.sum() == m
    assert (seats >= 1).all()
    assert (seats <= room).all()
    if policy == "balanced-positive":
        assert seats[1] == seats[3]


def test_balanced_positive_is_refused_where_the_cells_cannot_hold_m():
    cells, room = cells_with(dict(zip(ADULT, [1, 1, 1, 50], strict=True)))
    with refused("more than the cells can hold"):
        count_slots("balanced-positive", 8, cells, room, constrained=True)


@pytest.mark.parametrize(
    ("slots", "m", "words"),
    [
        ([[1, 1], [1, 2]], 6, "sum to 5, but m=6"),
        (
            [[6, 0], [1, 1]],
            8,
            r"0 representatives to the cell \(sensitive = Female, y = 1\)",
        ),
        ([1, 2, 3], 6, "level by outcome"),
        ([[1.5, 1], [1, 1]], 4, "whole"),
        ({("Child", 0): 4}, 4, "no row is in"),
    ],
)
def test_bad_slots_are_refused(slots, m, words):
    cells, room = cells_with(ADULT)
    with refused(words):
        count_slots(slots, m, cells, room, constrained=True)


def test_labels_of_mixed_types_are_known_by_what_the_caller_called_them() -> None:
    y = np.array([1, "x", 1, "x"], dtype=object)
    cells = find_cells(y, ["a", "a", "b", "b"], 4)
    assert overall_target(cells, {1: 0.25, "x": 0.75}).tolist() == [0.25, 0.75]
    seats = count_slots(
        "balanced-positive", 4, cells, cells.counts, constrained=True, positive=1
    )
    assert seats.tolist() == [1, 1, 1, 1]
    assert find_cells(
        np.array([1, True, 1.0, 0], object), None, 4
    ).outcomes.tolist() == [0, 1]
    assert find_cells(
        np.array([1, "1", 1, "x"], object), None, 4
    ).outcomes.tolist() == ["1", "x"]
    masked = np.ma.masked_array([0, 1, 0, 1], mask=[True, False, False, False])
    for labels in ((masked, ["a", "a", "b", "b"]), ([0, 1, 0, 1], masked)):
        with refused("masked"):
            find_cells(*labels, 4)


def test_a_constant_column_counts_nothing_in_other_rows_either() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "year": 50_000.0})
    other = frame.assign(year=90_000.0)
    y = [0, 1, 0, 1]
    level = ["a", "a", "b", "b"]
    for X, further in ((frame, other), (frame.to_numpy(), other.to_numpy())):
        fitted = quick(4, epsilon=None, scale=True).fit(X, y, level)
        assert fitted.transform(further).tolist() == fitted.transform(X).tolist()
        years = np.asarray(fitted.representatives_)[:, 1]
        assert years.tolist() == [50_000.0] * 4
