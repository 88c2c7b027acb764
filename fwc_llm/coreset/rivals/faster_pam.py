"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) with memory linear in n.

See `fwc_llm.coreset.swaps.engine`, here with one cell and no prices.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import METRICS, Coreset, LabelledTable, prepare, sizes
from fwc_llm.coreset.swaps.engine import Exchanged, Patience, exchange
from fwc_llm.coreset.swaps.state import Points, Space
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

MAX_CANDIDATES = 100_000


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
    clusters = swap_medoids(rows, m, rng, metric, max_passes, allowed)
    if not clusters.converged:
        note = "; ".join(filter(None, (note, f"stopped after {max_passes} passes")))
    return rows.chosen(clusters.rows, sizes(clusters.labels, m, rows), note)


def swap_medoids(
    rows: LabelledTable, m: int, rng: np.random.Generator, metric: str, max_passes: int, allowed: np.ndarray
) -> Exchanged:
    """FasterPAM from random medoids among `allowed` (positions); every swap lowers the loss.

    The `rows` (m,) of the result are the medoids.
    """
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = None if rows.mass is None else rows.mass.astype(np.float32)
    single = np.zeros(rows.n, int), np.zeros((1, 1)), np.zeros(1)
    space = Space(values, rows.n_numeric, *single, metric, mass)
    order = rng.permutation(allowed)
    points = Points(values[order[:m]], np.zeros(m, int), order[:m])
    cells, patience = np.zeros(len(order), int), Patience(passes=max_passes)
    exchanged = exchange(space, points, order, cells, order, patience, Threads())
    return replace(exchanged, rows=np.where(exchanged.rows < 0, order[:m], exchanged.rows))
