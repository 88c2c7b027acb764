"""The paper's downstream classifier: one hidden layer of 20 ReLU units, trained on a weighted
coreset.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.variance import arrays_of

HIDDEN = 20
LEARNING_RATE = 1e-3
BATCH = 32
EPOCHS = 500
QUICK_EPOCHS = 40
PATIENCE = 10
VALIDATION = 0.1
_LEAST_GAIN = (
    1e-4  # a smaller fall of the validation loss does not count, as in scikit-learn
)


@dataclass(frozen=True)
class Judgement:
    """Measures of the classifier on test rows: demographic disparity, AUC, equalized odds,
    accuracy.

    `trivial`: it answers the same for every test row. `epochs`: the number of training epochs.
    """

    dd: float
    auc: float
    odds: float
    accuracy: float
    trivial: bool
    epochs: int


class Constant:
    """The classifier for training rows that all have one outcome."""

    def __init__(self, outcome: int) -> None:
        self.outcome = outcome

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """(n,) P(y = 1)."""
        return np.full(len(X), float(self.outcome))


class Network:
    """The coefficients of a fitted MLP, a matrix and a vector each for the hidden and the last
    layer.
    """

    def __init__(
        self, coefficients: list[np.ndarray], intercepts: list[np.ndarray]
    ) -> None:
        self.hidden, self.last = (array.copy() for array in coefficients)
        self.hidden_offset, self.last_offset = (array.copy() for array in intercepts)

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """(n,) P(y = 1)."""
        return np.asarray(expit(self._scores(X)))

    def loss(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
        """Weighted mean log loss."""
        signed = np.where(y == 1, -1.0, 1.0) * self._scores(X)
        return float(np.average(np.logaddexp(0.0, signed), weights=weights))

    def _scores(self, X: np.ndarray) -> np.ndarray:
        hidden = np.maximum(X @ self.hidden + self.hidden_offset, 0.0)
        return np.asarray(hidden @ self.last + self.last_offset)[:, 0]


def train(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray, seed: int, epochs: int = EPOCHS
) -> tuple[Network | Constant, int]:
    """The classifier and its number of epochs.

    Adam at 1e-3, batches of 32, at most `epochs` epochs. 10 % of the rows (drawn by outcome) are
    held out for validation. Training stops when their weighted log loss has not fallen for 10
    epochs, and the best epoch's coefficients are kept. scikit-learn's own `early_stopping` is not
    used because its validation score is accuracy. With the few validation rows of a small coreset,
    accuracy changes in steps, and training stops after about 15 epochs, almost untrained (AUC 0.50
    on 5 % of the Drug table, against 0.75 with the loss).
    """
    from sklearn.neural_network import MLPClassifier
    from sklearn.utils import shuffle

    kept = weights > 0
    X = X[kept]
    y = y[kept].astype(int)
    weights = weights[kept] / weights[kept].mean()
    if len(np.unique(y)) < 2:
        return Constant(int(y[0])), 0
    learn, check = _set_apart(y, np.random.default_rng(seed))
    network = MLPClassifier(
        (HIDDEN,),
        batch_size=min(BATCH, len(learn)),
        learning_rate_init=LEARNING_RATE,
        random_state=seed,
    )
    best: Network | None = None
    best_loss = np.inf
    waited = 0
    learned = 0
    while learned < epochs and waited < PATIENCE:
        network.partial_fit(
            X[learn], y[learn], classes=[0, 1], sample_weight=weights[learn]
        )  # one epoch
        learned += 1
        if network.shuffle:
            # `partial_fit` uses the seed's order in each epoch but the first. With the rows stored
            # in that order, batches are slices: a third less time for the same coefficients.
            learn = shuffle(learn, random_state=seed)
            network.set_params(shuffle=False)
        now = Network(network.coefs_, network.intercepts_)
        loss = now.loss(X[check], y[check], weights[check])
        if best is None or loss < best_loss - _LEAST_GAIN:
            best = now
            best_loss = loss
            waited = 0
        else:
            waited += 1
    return (Constant(0) if best is None else best), learned


def _set_apart(
    y: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions for training and for validation: a tenth of each outcome, at least one row in
    total.
    """
    check = []
    for outcome in (0, 1):
        rows = rng.permutation(np.flatnonzero(y == outcome))
        check.append(rows[: round(VALIDATION * len(rows))])
    apart = np.concatenate(check)
    if not len(apart):
        if (y == 0).sum() >= (y == 1).sum():
            larger = 0
        else:
            larger = 1
        apart = np.flatnonzero(y == larger)[:1]
    return np.setdiff1d(np.arange(len(y)), apart), apart


def judge(
    classifier: Network | Constant,
    epochs: int,
    X: np.ndarray,
    y: np.ndarray,
    d: np.ndarray,
) -> Judgement:
    """The classifier on test rows; it says yes from a probability of one half."""
    from sklearn.metrics import roc_auc_score

    score = classifier.probabilities(X)
    said = (score >= 0.5).astype(float)
    found = ArmEstimates(arrays_of(said, y, d)[0])
    return Judgement(
        dd=found.value("dp_gap"),
        auc=float(roc_auc_score(y, score)),
        odds=found.value("eo_gap"),
        accuracy=found.value("accuracy"),
        trivial=bool(said.min() == said.max()),
        epochs=epochs,
    )


def distance_to_ideal(dd: np.ndarray, auc: np.ndarray) -> np.ndarray:
    """The paper's tradeoff, its equation "tradeoff": Euclidean distance of (DD, AUC) from (0,
    1).
    """
    return np.asarray(np.hypot(dd, 1 - auc))
