"""`FairCoreset` behaves like scikit-learn's estimators, on arrays and DataFrames."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.checks import check_jobs
from fwc_llm.coreset.threads import count_threads
from tests.coreset.people import arrays, consistent, people, quick
from tests.refusals import refused


@pytest.fixture
def data():
    x, y, d = people(200)
    return x[["town", "age"]].set_axis([f"file:{i}" for i in range(200)]), y, d


def test_a_dataframe_gives_dataframe_rows_and_names(data):
    x, y, d = data
    f = quick(12, support="rows", slots="balanced-positive", positive="yes").fit(
        x, y, d
    )
    pd.testing.assert_frame_equal(f.representatives_, x.iloc[f.row_index_])
    assert f.feature_names_in_.tolist() == ["town", "age"]
    assert f.n_features_in_ == 2
    assert set(f.y_) == {"yes", "no"}
    free = quick(12).fit(x, y, d)
    assert free.row_index_ is None
    assert list(free.representatives_.columns) == ["town", "age"]
    assert free.representatives_["town"].isin(list("ABC")).all()
    assert free.representatives_["age"].between(18, 80).all()


def test_a_later_fit_on_an_array_forgets_the_names(data):
    x, y, d = data
    solver = quick(12)
    solver.fit(x, y, d).fit(x[["age"]].to_numpy(), y, d)
    assert solver.n_features_in_ == 1
    assert not hasattr(solver, "feature_names_in_")


def test_candidates_by_position_are_those_of_the_mask(data):
    rows = np.random.default_rng(3).permutation(200)[:150]
    mask = np.zeros(200, bool)
    mask[rows] = True
    model = quick(8, support="rows")
    by_mask = model.fit(*data, candidates=mask).row_index_
    assert set(by_mask) <= set(rows)
    np.testing.assert_array_equal(model.fit(*data, candidates=rows).row_index_, by_mask)


def test_threads_are_counted_as_joblib_does():
    processors = count_threads()
    for n_jobs, expected in (
        (1, 1),
        (-1, processors),
        (-2, max(1, processors - 1)),
        (-99, 1),
        (None, None),
    ):
        assert check_jobs(n_jobs) == expected


def test_without_a_parity_limit_neither_outcomes_nor_levels_are_needed(data):
    x, y, d = data
    found = quick(epsilon=None).fit(x)
    assert found.y_ is None
    assert found.sensitive_ is None
    assert found.objective_ == pytest.approx(
        -found.score(x, y, d), abs=1e-9
    )  # neither is compared
    shares = np.round(np.random.default_rng(0).random(200) * 4) / 4
    for levels in (["f"] * 200, shares):  # one alone, and decimals
        quick(12, epsilon=None).fit(x, y, levels)


def test_a_descent_that_is_cut_off_has_not_converged(data):
    table = synthetic(400, 6)
    start = {"init": "random", "n_init": 1, "random_state": 0}
    assert not FairCoreset(20, max_iter=1, **start).fit(*table).converged_
    assert FairCoreset(20, **start).fit(*table).converged_


@pytest.mark.parametrize("seed", [0, 1])
def test_ordinal_columns_stay_at_ranks_and_more_starts_are_never_worse_there(seed):
    rng = np.random.default_rng(seed)
    ranks = {name: rng.integers(0, 4, 300) for name in "uv"}
    kind = pd.CategoricalDtype([0, 1, 2, 3], ordered=True)
    frame = pd.DataFrame(ranks).astype(kind)
    y = rng.integers(0, 2, 300)
    d = rng.integers(0, 2, 300)
    fit = partial(FairCoreset, 8, cost="sqeuclidean", random_state=seed)
    one, more = (fit(n_init=starts).fit(frame, y, d) for starts in (1, 4))
    assert more.objective_ <= one.objective_ + 1e-9
    consistent(one, frame, y, d)
    again = FairCoreset(
        8, cost="sqeuclidean", init=one.representatives_, max_iter=0
    ).fit(frame, y, d)
    assert one.objective_ == pytest.approx(again.objective_, rel=1e-9)


def test_a_descent_that_stands_still_ends():
    table = synthetic(3000, 10)
    fitted = FairCoreset(100, cost="sqeuclidean", random_state=0, swaps=False).fit(
        *table
    )
    assert fitted.n_iter_ < 300  # rounding kept the means moving until max_iter
    assert (np.diff(fitted.history_) <= 1e-12 * fitted.objective_).all()


def test_rows_are_named_by_plain_numbers_or_their_text(data):
    x, y, d = data
    indices = (
        pd.RangeIndex(200),
        np.arange(200) * 1.5,
        pd.Index(np.arange(200), dtype="Int64"),
        x.index,
    )
    for index, value in zip(indices, (np.nan, np.inf, np.nan, -np.inf), strict=True):
        bad = x.set_index(index).astype({"age": float})
        bad.iloc[4, 1] = value
        with refused(r"'age' .* in row (4|6\.0|'file:4'):"):
            quick().fit(bad, y, d)


# --- Pipelines


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return arrays(90)


def test_a_pipeline_passes_the_levels_on_with_and_without_routing(table) -> None:
    X, y, d = table
    alone = quick().fit(StandardScaler().fit_transform(X), y, d)
    named = make_pipeline(StandardScaler(), quick()).fit(X, y, faircoreset__sensitive=d)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), quick()).fit(X, y, sensitive=d)
        as_step = make_pipeline(quick(), StandardScaler()).fit_transform(
            X, y, sensitive=d
        )
    assert named[-1].objective_ == routed[-1].objective_ == alone.objective_
    np.testing.assert_array_equal(
        routed.predict(X), alone.predict(StandardScaler().fit_transform(X))
    )
    assert as_step.shape == (90, 6)


def test_a_search_over_m_and_epsilon_scores_held_out_rows_with_their_levels(
    table,
) -> None:
    X, y, d = table
    grid = {"m": [4, 12], "epsilon": [0.01, None]}
    with sklearn.config_context(enable_metadata_routing=True):
        found = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(
            X, y, sensitive=d
        )
    assert found.best_params_["m"] == 12
    assert (
        found.best_estimator_.objective_
        == quick(**found.best_params_).fit(X, y, d).objective_
    )
    first = np.arange(90) < 45
    second = np.arange(90) >= 45
    for asked, score in zip(
        found.cv_results_["params"], found.cv_results_["split0_test_score"], strict=True
    ):
        half = quick(**asked).fit(X[second], y[second], d[second])
        assert score == half.score(X[first], y[first], d[first])


def test_an_estimator_whose_fit_failed_is_not_fitted(table) -> None:
    X, y, d = table
    model = quick()
    with refused():
        model.fit(X, None, d)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.certify(X, y, d)


def test_errors_name_the_estimator() -> None:
    X, y, sex = arrays(50)
    fitted = quick().fit(X, y, sex)
    for call in (
        lambda: quick().fit(X, y),
        lambda: fitted.predict(X[:, :1]),
        lambda: fitted.certify(X, None, sex),
        lambda: quick().predict(X),
    ):
        with pytest.raises(ValueError, match="FairCoreset"):
            call()
    for call, words in (
        (
            lambda: FairCoreset(),
            "missing a required argument: 'm'; there are m, epsilon, ",
        ),
        (
            lambda: quick().fit(X, y, sensitve=sex),
            "'sensitve'; there are X, y, sensitive, ",
        ),
    ):
        with pytest.raises(TypeError, match=f"^FairCoreset: .*{words}"):
            call()


def test_a_polars_table_comes_back_as_polars_where_set_output_asks() -> None:
    X, *labels = arrays(90)
    table = pl.DataFrame(X, schema=["a", "b", "c"])
    model = quick().fit(table, *labels)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert isinstance(model.transform(table), np.ndarray)
    model.set_output(transform="polars")
    assert isinstance(model.transform(table), pl.DataFrame)
    model.set_output(transform="pandas")
    assert isinstance(model.transform(table), pd.DataFrame)
