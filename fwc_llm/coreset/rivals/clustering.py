"""k-means and k-medoids.

k-means is scikit-learn's (Lloyd 1982; Arthur, Vassilvitskii 2007). k-medoids is
`fwc_llm.coreset.fasterpam` with one cell and prices of 0 (Schubert, Rousseeuw 2021).
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.checks import check_choice
from fwc_llm.coreset.fasterpam import Exchanged, Points, Space, exchange
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.rivals.base import LabelledTable
from fwc_llm.coreset.threads import Threads

_MOST_CANDIDATES = 100_000


def lloyd(
    points: Array, k: int, seed: int, max_iter: int = 300, mass: Array | None = None
) -> Any:
    """Fit scikit-learn's `KMeans` to `points` (n, q) with row weights `mass` (n,), None: 1 per row.

    One thread, because sums over several threads depend on their order.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct rows than centres
        return KMeans(k, n_init=1, max_iter=max_iter, random_state=seed).fit(
            points, sample_weight=mass
        )


def kmedoids(
    rows: LabelledTable,
    m: int,
    rng: Rng,
    allowed: Array,
    metric: str = "l1",
    max_passes: int = 20,
) -> tuple[Exchanged, str]:
    """Run FasterPAM from random medoids among the rows at `allowed` (positions).

    Distances are L1 or (not squared) L2. The search ends in a local optimum, where no swap of one
    medoid for one candidate lowers the summed distance, or after `max_passes` passes over all
    candidates. Of more than 100,000 candidates a random sample of 100,000 (or m) is tried. Returns
    the last swaps, whose `rows` (m,) are the medoids, and a note on what was left out.
    """
    check_choice("metric", metric, ("l1", "l2"))
    notes = []
    if len(allowed) > _MOST_CANDIDATES:
        notes.append(
            f"medoids among a sample of {_MOST_CANDIDATES} of {len(allowed)} rows"
        )
        allowed = np.sort(rng.choice(allowed, max(_MOST_CANDIDATES, m), replace=False))
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = rows.mass.astype(np.float32)
    single = np.zeros(rows.n, int), np.zeros((1, 1)), np.zeros(1)
    space = Space(
        values, FeatureCost.of(rows, metric), *single, mass, root=metric == "l2"
    )
    order = rng.permutation(allowed)
    points = Points(values[order[:m]], np.zeros(m, int), order[:m])
    found = exchange(
        space, points, order, np.zeros(len(order), int), order, Threads(), max_passes
    )
    if not found.converged:
        notes.append(f"stopped after {max_passes} passes")
    medoids = np.where(found.rows < 0, order[:m], found.rows)
    return replace(found, rows=medoids), "; ".join(notes)
