"""Tables that several tests of the solver fit, a short fit, and what every fit must keep."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset


def quick(m: int = 6, **options: Any) -> FairCoreset:
    """A solver that ends after one start."""
    return FairCoreset(m, **{"n_init": 1, "random_state": 0, **options})


def consistent(fitted: FairCoreset, X: Any, y: Any, d: Any, weight: Any = None) -> None:
    """What a fit says of itself, its certificate, also with its own weights, and its score say of
    the same rows; the descent never rose, and the limit holds.
    """
    objective = pytest.approx(fitted.objective_, rel=1e-9, abs=1e-9)
    assert fitted.lower_bound_ == objective
    assert fitted.history_[-1] == objective
    assert (np.diff(fitted.history_) <= 1e-9 * fitted.history_[0]).all()
    assert fitted.epsilon is None or fitted.violation_ <= fitted.epsilon + 1e-9
    assert fitted.weights_.sum() == pytest.approx(fitted.m)
    assert -fitted.score(X, y, d, sample_weight=weight) == objective
    best = fitted.certify(X, y, d, sample_weight=weight)
    kept = fitted.certify(X, y, d, fitted.weights_, sample_weight=weight)
    assert [best.objective, best.lower_bound, kept.objective] == [objective] * 3
    assert [best.violation, kept.violation] == pytest.approx([fitted.violation_] * 2)


def people(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features of all kinds, outcomes no or yes, levels f or m."""
    rng = np.random.default_rng(seed)
    d = rng.choice(["f", "m"], n)
    frame = pd.DataFrame(
        {
            "town": pd.Series(rng.choice(["A", "B", "C"], n), dtype="str"),
            "pay": rng.lognormal(7, 1, n),
            "grade": pd.Categorical(
                rng.choice(["low", "high"], n), ["low", "high"], ordered=True
            ),
            "age": rng.integers(18, 80, n),
        }
    )
    return frame, np.where(rng.random(n) < np.where(d == "f", 0.3, 0.6), "yes", "no"), d


def arrays(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n), rng.integers(0, 2, n)


def ground_costs(
    model: FairCoreset,
    train: pd.DataFrame,
    X: pd.DataFrame,
    y: np.ndarray | None = None,
    d: np.ndarray | None = None,
) -> np.ndarray:
    """The costs of docs/method.md of rows to the representatives of a fit on `train`."""
    costs = np.zeros((len(X), model.m))
    for name, column in train.items():
        rows, points = X[name], model.representatives_[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            order = {level: rank for rank, level in enumerate(column.cat.categories)}
            column, rows, points = (
                part.astype(str).map(order) for part in (column, rows, points)
            )
        if pd.api.types.is_numeric_dtype(column):
            apart = np.subtract.outer(rows.to_numpy(), points.to_numpy())
            apart = np.abs(apart) / column.std(ddof=0)
            if model.cost == "sqeuclidean":
                apart = apart**2
        else:
            apart = np.not_equal.outer(rows.to_numpy(), points.to_numpy())
        costs += (model.column_weights or {}).get(name, 1.0) * apart
    if y is not None:
        costs += model.cost_outcome * np.not_equal.outer(y, model.y_)
    if d is not None:
        costs += model.cost_sensitive * np.not_equal.outer(d, model.sensitive_)
    return costs
