"""The downstream classifier."""

import numpy as np
import pytest

from evals.paper.downstream import Constant, Network, judge, train


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    return rng.normal(size=(300, 4)) + 2 * y[:, None], y


@pytest.mark.slow
def test_it_learns_what_can_be_learned(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    classifier, epochs = train(X, y, np.ones(300), seed=0)
    d = np.where(np.arange(300) % 2, "a", "b")
    outcome = judge(classifier, epochs, X, y, d)
    assert outcome.auc > 0.98
    assert not outcome.trivial
    assert 1 <= outcome.epochs <= 500


@pytest.mark.slow
def test_rows_without_weight_are_not_seen(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    plain, _ = train(X, y, np.ones(300), seed=0)
    noisy_X = np.vstack([X, 100 * np.ones((20, 4))])
    noisy, _ = train(noisy_X, np.append(y, np.zeros(20)), np.append(np.ones(300), np.zeros(20)), seed=0)
    assert np.array_equal(plain.probabilities(X), noisy.probabilities(X))


@pytest.mark.slow
def test_weights_decide_between_contradicting_rows() -> None:
    X = np.repeat(np.array([[0.0], [0.0]]), 100, axis=0)
    y = np.repeat([0, 1], 100)
    for heavy in (0, 1):
        classifier, _ = train(X, y, np.where(y == heavy, 9.0, 1.0), seed=0)
        assert classifier.probabilities(X[:1])[0] == pytest.approx(0.9 if heavy else 0.1, abs=0.06)


def test_the_network_computes_what_scikit_learn_computes(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    from sklearn.metrics import log_loss
    from sklearn.neural_network import MLPClassifier

    X, y = blobs
    weights = np.random.default_rng(1).random(300)
    model = MLPClassifier((20,), random_state=0).partial_fit(X, y, classes=[0, 1])
    ours = Network(model.coefs_, model.intercepts_)
    theirs = model.predict_proba(X)
    assert ours.probabilities(X) == pytest.approx(theirs[:, 1], abs=1e-12)
    assert ours.loss(X, y, weights) == pytest.approx(log_loss(y, theirs, sample_weight=weights))


def test_one_outcome_leaves_a_constant() -> None:
    classifier, epochs = train(np.zeros((5, 2)), np.ones(5), np.ones(5), seed=0)
    assert isinstance(classifier, Constant)
    assert epochs == 0
    outcome = judge(classifier, epochs, np.zeros((4, 2)), np.array([0, 1, 0, 1]), np.array(list("aabb")))
    assert (outcome.dd, outcome.auc, outcome.trivial) == (0, 0.5, True)


@pytest.mark.parametrize("rare", [1, 2])
def test_a_rare_outcome_can_be_trained_on(rare: int) -> None:
    y = np.array([0] * 8 + [1] * rare)
    classifier, epochs = train(np.arange(len(y), dtype=float)[:, None], y, np.ones(len(y)), seed=0)
    assert epochs >= 1
    assert np.isfinite(classifier.probabilities(np.zeros((1, 1)))).all()
