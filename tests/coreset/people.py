"""Tables that several tests of the solver fit."""

import numpy as np
import pandas as pd


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
