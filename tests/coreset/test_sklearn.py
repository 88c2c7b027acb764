"""Pipelines, searches and clones of scikit-learn, with and without metadata routing."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

from fwc_llm.coreset import FairCoreset, FairWASP


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(90, 3)), rng.integers(0, 2, 90), rng.integers(0, 2, 90)


def quick(m: int = 6, **parameters: object) -> FairCoreset:
    return FairCoreset(m, n_init=1, random_state=0, **parameters)


def test_a_pipeline_passes_the_levels_on_with_and_without_routing(table) -> None:
    X, y, d = table
    alone = quick().fit(StandardScaler().fit_transform(X), y, d)
    named = make_pipeline(StandardScaler(), quick()).fit(X, y, faircoreset__sensitive=d)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(StandardScaler(), quick()).fit(X, y, sensitive=d)
        as_step = make_pipeline(quick(), StandardScaler()).fit_transform(X, y, sensitive=d)
    assert named[-1].objective_ == routed[-1].objective_ == alone.objective_
    np.testing.assert_array_equal(routed.predict(X), alone.predict(StandardScaler().fit_transform(X)))
    assert as_step.shape == (90, 6)


def test_a_search_over_m_and_epsilon_scores_held_out_rows_with_their_levels(table) -> None:
    X, y, d = table
    grid = {"m": [4, 12], "epsilon": [0.01, None]}
    with sklearn.config_context(enable_metadata_routing=True):
        found = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(X, y, sensitive=d)
    assert found.best_params_["m"] == 12
    assert found.best_estimator_.objective_ == quick(**found.best_params_).fit(X, y, d).objective_
    first, second = np.arange(90) < 45, np.arange(90) >= 45
    for asked, score in zip(found.cv_results_["params"], found.cv_results_["split0_test_score"], strict=True):
        half = quick(**asked).fit(X[second], y[second], d[second])
        assert score == half.score(X[first], y[first], d[first])


def test_what_is_asked_for_is_kept_by_clones_and_nothing_else_is_passed(table) -> None:
    X, y, d = table
    fit = get_routing_for_object(quick()).fit.requests
    assert fit["sensitive"] is True
    assert fit["candidates"] is None
    assert get_routing_for_object(quick()).score.requests["sensitive"] is True
    assert get_routing_for_object(FairWASP()).fit.requests["sensitive"] is True
    assert not hasattr(FairWASP(), "set_score_request")
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(quick(support="rows").set_fit_request(candidates="may", sensitive="sex"))
        asked.set_score_request(sensitive=False)
        assert get_routing_for_object(clone(asked)).fit.requests["candidates"] == "may"
        pipeline = make_pipeline(StandardScaler(), asked).fit(X, y, sex=d, may=np.arange(45))
        with pytest.raises(ValueError, match="candidates"):
            make_pipeline(StandardScaler(), quick()).fit(X, y, sensitive=d, candidates=np.arange(45))
    assert pipeline[-1].row_index_.max() < 45


def test_an_estimator_before_its_fit_says_so(table) -> None:
    X, y, d = table
    for ask in (quick().predict, quick().transform, quick().score, quick().get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask(X)
    with pytest.raises(NotFittedError):
        quick().certify(X, y, d)


def test_distances_come_as_a_data_frame_where_that_is_set(table) -> None:
    X, y, d = table
    frame = pd.DataFrame(X, columns=list("abc"), index=range(100, 190))
    model = quick().set_output(transform="pandas").fit(frame, y, d)
    plain = quick().fit(frame, y, d)
    expected = pd.DataFrame(
        plain.transform(frame), index=frame.index, columns=plain.get_feature_names_out(), copy=False
    )
    pd.testing.assert_frame_equal(model.transform(frame), expected)
    with sklearn.config_context(transform_output="pandas"):
        pd.testing.assert_frame_equal(quick().fit_transform(frame, y, sensitive=d), expected)
        steps = make_pipeline(StandardScaler(), quick()).fit(frame, y, faircoreset__sensitive=d)
        assert list(steps.transform(frame)) == [f"faircoreset{j}" for j in range(6)]


def test_the_labels_of_a_pickle_have_four_bytes_each(table) -> None:
    fitted = FairCoreset(4, random_state=0, n_init=1).fit(*(np.repeat(part, 200, axis=0) for part in table))
    assert fitted.labels_.dtype == np.int32
    assert len(pickle.dumps(fitted)) < 4 * len(fitted.labels_) + 20_000
