"""Pipelines, searches and clones of scikit-learn, with and without metadata routing."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

from fwc_llm.coreset import FairCoreset, FairWASP
from fwc_llm.errors import FwcError, InputError


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
    asked = clone(quick(support="rows").set_fit_request(candidates="may", sensitive="sex"))
    asked.set_score_request(sensitive=False)
    assert get_routing_for_object(clone(asked)).fit.requests["candidates"] == "may"
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), asked).fit(X, y, sex=d, may=np.arange(45))
        with pytest.raises(ValueError, match="candidates"):
            make_pipeline(StandardScaler(), quick()).fit(X, y, sensitive=d, candidates=np.arange(45))
    assert pipeline[-1].row_index_.max() < 45
    with pytest.raises(InputError, match="fit has no argument 'group' to be passed on: use sensitive, "):
        quick().set_fit_request(group=True)


def test_an_estimator_before_its_fit_says_so_in_both_tongues(table) -> None:
    X, y, d = table
    for ask in (quick().predict, quick().transform, quick().score, quick().get_feature_names_out):
        with pytest.raises(NotFittedError, match="This FairCoreset instance is not fitted yet") as error:
            ask(X)
        for kind in (FwcError, ValueError, AttributeError):
            assert isinstance(error.value, kind)
    with pytest.raises(NotFittedError):
        quick().certify(X, y, d)
    assert isinstance(pickle.loads(pickle.dumps(error.value)), NotFittedError)


def test_without_scikit_learn_the_estimators_are_whole() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import numpy as np; from fwc_llm.coreset import FairCoreset; from fwc_llm.errors import InputError\n"
        "r = np.random.default_rng(0)\n"
        "X, y, d = r.normal(size=(80, 2)), r.integers(0, 2, 80), r.integers(0, 2, 80)\n"
        "model = FairCoreset(4, n_init=1)\n"
        "try: model.predict(X)\n"
        "except InputError as error: print(type(error).__name__)\n"
        "model.fit(X, y, d); model.predict(X); model.transform(X); model.certify(X, y, d)\n"
        "model.fit_transform(X, y, sensitive=d); model.fit_predict(X, y, sensitive=d)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NotFittedError"]
