"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) with memory linear in n.

See `fwc_llm.coreset.exchange.exchange`, here with one cell and no prices.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.exchange.exchange import Patience, exchange
from fwc_llm.coreset.exchange.space import Points, Space
from fwc_llm.coreset.rivals.base import (
    METRICS,
    Coreset,
    LabelledTable,
    as_rows,
    candidate_rows,
    check_size,
    sizes,
)
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
    rows = as_rows(X, y, sensitive, sample_weight)
    allowed = candidate_rows(candidates, rows)
    check_size(m, len(allowed))
    rng = np.random.default_rng(seed)
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
    """FasterPAM from random medoids; every swap lowers the loss. Medoids are among `allowed` (positions)."""
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    order = rng.permutation(allowed)
    medoids = np.ascontiguousarray(order[:m])
    cell = np.zeros(rows.n, int)
    mass = None if rows.mass is None else rows.mass.astype(np.float32)
    space = Space(values, rows.numbers.shape[1], cell, np.zeros((1, 1)), np.zeros(1), metric, mass)
    start = Points(values[medoids], np.zeros(m, int), medoids)
    cells, patience = np.zeros(len(order), int), Patience(passes=max_passes)
    found = exchange(space, start, order, cells, order, patience, Threads())
    medoids = np.where(found.rows < 0, medoids, found.rows)
    return MedoidClusters(medoids, found.labels, found.losses, found.converged)
