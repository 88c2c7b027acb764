"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) with memory linear in n.

See `fwc_llm.coreset.swaps.engine`, here with one cell and no prices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import METRICS, Coreset, LabelledTable, prepare, sizes
from fwc_llm.coreset.swaps.engine import Patience, exchange
from fwc_llm.coreset.swaps.state import Points, Space
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

MAX_CANDIDATES = 100_000


@dataclass(frozen=True)
class MedoidClusters:
    """`medoids` (m,) positions; `labels` (n,) the nearest of them; `losses`: the sum of distances at the
    start and after every swap; `converged`: no swap with any candidate lowers it."""

    medoids: np.ndarray
    labels: np.ndarray
    losses: list[float]
    converged: bool


def kmedoids(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    metric: str = "l1",
    max_passes: int = 20,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m rows with the least summed distance to all rows, in L1 or (not squared) L2; weight = cluster size.

    A local optimum with respect to swaps of one medoid for one candidate. `max_passes` bounds the rounds over
    all candidates; of more than 100,000 candidates a seeded sample of that size is tried, with a note.
    """
    rows, allowed, rng = prepare(X, y, sensitive, m, seed, candidates, sample_weight)
    note = ""
    if len(allowed) > MAX_CANDIDATES:
        note = f"medoids among a sample of {MAX_CANDIDATES} of {len(allowed)} rows"
        allowed = np.sort(rng.choice(allowed, max(MAX_CANDIDATES, m), replace=False))
    found = swap_medoids(rows, m, rng, metric, max_passes, allowed)
    if not found.converged:
        note = "; ".join(filter(None, (note, f"stopped after {max_passes} passes")))
    return rows.chosen(found.medoids, sizes(found.labels, m, rows), note)


def swap_medoids(
    rows: LabelledTable, m: int, rng: np.random.Generator, metric: str, max_passes: int, allowed: np.ndarray
) -> MedoidClusters:
    """FasterPAM from random medoids among `allowed` (positions); every swap lowers the loss."""
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = None if rows.mass is None else rows.mass.astype(np.float32)
    one_cell = np.zeros(rows.n, int), np.zeros((1, 1)), np.zeros(1)
    space = Space(values, rows.n_numeric, *one_cell, metric, mass)
    order = rng.permutation(allowed)
    points = Points(values[order[:m]], np.zeros(m, int), order[:m])
    found = exchange(
        space, points, order, np.zeros(len(order), int), order, Patience(passes=max_passes), Threads()
    )
    medoids = np.where(found.rows < 0, order[:m], found.rows)
    return MedoidClusters(medoids, found.labels, found.losses, found.converged)
