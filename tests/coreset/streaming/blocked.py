"""Tables in blocks for the tests: arrays and frames cut up, and the whole table's inner problem."""

import numpy as np

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.transport.fair import Transport, fair_transport


class Blocks:
    """The rows of several arrays or frames, some at a time, as often as one likes."""

    def __init__(self, *held, size=700):
        self.held, self.size = held, size

    def __iter__(self):
        for low in range(0, len(self.held[0]), self.size):
            yield tuple(
                part.iloc[low : low + self.size] if hasattr(part, "iloc") else part[low : low + self.size]
                for part in self.held
            )


def made(n=6000, p=9, levels=2, seed=0, dtype=np.float32, ties=False):
    """Rows, outcomes and levels that are not fair; `ties`: of small whole numbers.

    With few columns many rows are further from one representative than from another by the same L1 distance:
    then several plans are best, and the moves that follow are not the same.
    """
    rng = np.random.default_rng(seed)
    d = rng.integers(0, levels, n)
    x = rng.normal(size=(n, p)) + 0.2 * d[:, None]
    y = (x[:, 0] + rng.normal(size=n) > 0.5 * d).astype(int)
    return (np.round(2 * x) if ties else x).astype(dtype), y, d


def whole_problem(fitted: FairCoreset, x, y, d, cell_of, sample_weight=None) -> Transport:
    """The inner problem of all rows for the published representatives, solved in memory."""
    costs = fitted.transform(x, y, d)
    cells = np.unique(cell_of)
    nearest = np.column_stack([costs[:, cell_of == g].min(axis=1) for g in cells])
    levels, outcomes = len(np.unique(d)), len(np.unique(y))
    return fair_transport(
        nearest, levels, outcomes, fitted.target_, fitted.epsilon, sample_weight=sample_weight
    )


def cells_of(fitted: FairCoreset) -> np.ndarray:
    """The cell of each representative."""
    levels, outcomes = np.unique(fitted.sensitive_), np.unique(fitted.y_)
    return np.searchsorted(levels, fitted.sensitive_) * len(outcomes) + np.searchsorted(outcomes, fitted.y_)
