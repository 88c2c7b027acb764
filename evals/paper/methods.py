"""Every method of the paper's comparison behind one call: rows in, weighted representatives out."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.paper.data import Part, Space
from fwc_llm.notices import ScaleWarning


@dataclass(frozen=True)
class Chosen:
    """m representatives: `points` in the units of `Space.features`, levels `d`, outcomes `y`,
    `weights` (m,).

    `objective` and `lower_bound` are FWC's certificate, NaN for the rivals.
    """

    points: Any
    d: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    seconds: float
    objective: float = np.nan
    lower_bound: float = np.nan
    note: str = ""


FWC = {"fwc-0.01": 0.01, "fwc-0.05": 0.05, "fwc-0.1": 0.1, "fwc-unlimited": None}
TITLES = {
    "fwc-0.01": "FWC (ε 0.01)",
    "fwc-0.05": "FWC (ε 0.05)",
    "fwc-0.1": "FWC (ε 0.1)",
    "fwc-unlimited": "FWC without limit",
    "fairlets-kmeans": "Fairlets (k-means)",
    "fairlets-kmedoids": "Fairlets (k-medoids)",
    "indfair": "Individually fair coreset",
    "kmedian": "k-median coreset",
    "uniform": "Uniform",
    "kmeans": "k-means",
    "kmedoids": "k-medoids",
}
# In squared L2 the objective is constant after about 30 moves, but rows that tie still change the
# last bits of the means.
_SQUARED_MOVES = 60
# rows times representatives up to which swaps follow: Adult at 5 %, the others always
_SWAPPED = 60_000_000
PAPER_FWC = ("fwc-0.01", "fwc-0.05", "fwc-0.1")
RIVALS = tuple(name for name in TITLES if name not in FWC)
METHODS = (*PAPER_FWC, *RIVALS)


def has_metric(method: str) -> bool:
    """Whether the method has a choice of metric; the others give one coreset for both."""
    return method in FWC or method.endswith("kmedoids")


def choose(
    method: str, space: Space, train: Part, m: int, seed: int, metric: str = "l1"
) -> Chosen:
    """The coreset of `method`, optimised in `metric` ("l1" or "sqeuclidean") if the method has a
    choice.

    FWC has free representatives (the paper's synthetic ones) in proportional slots. k-medoids in
    "sqeuclidean" minimises Euclidean distances, as its authors define it. Raises `FwcError` where a
    method does not apply.
    """
    X = space.features(train, metric)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ScaleWarning
        )  # raw columns are meant as they are
        if method in FWC:
            found = _fwc(X, train, m, seed, metric, FWC[method])
        else:
            found = _rival(method, X, train, m, seed, metric)
    seconds = time.perf_counter() - start
    return Chosen(**found, seconds=seconds)


def _fwc(
    X: Any, train: Part, m: int, seed: int, metric: str, epsilon: float | None
) -> dict[str, Any]:
    from fwc_llm.coreset import FairCoreset

    moves = 300 if metric == "l1" else _SQUARED_MOVES
    # Free representatives end in a local optimum that swaps leave. On larger tables they take too
    # long here.
    swaps = True if train.n * m <= _SWAPPED else "auto"
    solver = FairCoreset(
        m,
        epsilon=epsilon,
        cost=metric,
        max_iter=moves,
        random_state=seed,
        n_init=1,
        swaps=swaps,
    )
    fitted = solver.fit(X, train.y, train.d)
    return {
        "points": fitted.representatives_,
        "d": fitted.sensitive_,
        "y": fitted.y_,
        "weights": fitted.weights_,
        "objective": fitted.objective_,
        "lower_bound": fitted.lower_bound_,
    }


def _rival(
    method: str, X: Any, train: Part, m: int, seed: int, metric: str
) -> dict[str, Any]:
    from evals.paper import rivals
    from evals.paper.fairlet_clustering import fairlets

    name, _, clustering = method.partition("-")
    options: dict[str, Any] = {}
    if name == "fairlets":
        options = {"clustering": clustering, "balance": balance(train.d)}
    if has_metric(method):
        options["metric"] = "l1" if metric == "l1" else "l2"
    name = {"indfair": "indfair_coreset", "kmedian": "kmedian_coreset"}.get(name, name)
    function = fairlets if name == "fairlets" else getattr(rivals, name)
    found = function(X, train.y, train.d, m, seed=seed, **options)
    return {
        "points": found.points,
        "d": found.sensitive,
        "y": found.y,
        "weights": found.weights,
        "note": found.note,
    }


def balance(d: np.ndarray) -> tuple[int, int]:
    """The largest balance 1/q that the rows allow: m fairlets are needed, so they must be small.

    The largest p/q (4/5 on Drug) makes fairlets of up to nine rows: too few fairlets for a coreset
    of 20 %.
    """
    few, many = np.sort(np.unique(d, return_counts=True)[1])
    return 1, int(np.ceil(many / few))
