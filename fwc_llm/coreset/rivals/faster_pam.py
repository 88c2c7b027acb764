"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n².

Distances are computed when they are needed, a candidate's n at a time, and never kept. Candidates are tried
in batches, one a thread; the best of a batch is swapped in at once if it lowers the loss.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import METRICS, Coreset, Rows, as_rows, candidate_rows, check_size
from fwc_llm.coreset.rivals.swap_kernels import best_swap, two_nearest, update_nearest
from fwc_llm.errors import FwcError

MAX_CANDIDATES = 100_000
_BATCH = 32


@dataclass(frozen=True)
class Medoids:
    """`medoids` (m,) positions; `labels` (n,) which of them is nearest; `losses`: the sum of the distances at
    the start and after every swap; `converged`: no swap with any candidate lowers it."""

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
) -> Coreset:
    """m rows with the least summed distance to all rows, in L1 or (not squared) L2; weight = cluster size.

    A local optimum with respect to swaps of one medoid for one candidate. `max_passes` bounds the rounds over
    all candidates; above 100,000 candidates a seeded sample of as many is tried, and the note says so.
    """
    rows = as_rows(X, y, sensitive)
    allowed = candidate_rows(candidates, rows.n)
    check_size(m, len(allowed))
    rng = np.random.default_rng(seed)
    note = ""
    if len(allowed) > MAX_CANDIDATES:
        note = f"medoids among a sample of {MAX_CANDIDATES} of {len(allowed)} rows"
        allowed = np.sort(rng.choice(allowed, max(MAX_CANDIDATES, m), replace=False))
    found = swap_medoids(rows, m, rng, metric, max_passes, allowed)
    if not found.converged:
        note = "; ".join(filter(None, (note, f"stopped after {max_passes} passes")))
    weights = np.bincount(found.labels, minlength=m).astype(float)
    return rows.chosen(found.medoids, weights, note)


def swap_medoids(
    rows: Rows, m: int, rng: np.random.Generator, metric: str, max_passes: int, allowed: np.ndarray
) -> Medoids:
    """FasterPAM from random medoids; every swap lowers the loss. Medoids are among `allowed` (positions)."""
    if metric not in METRICS:
        raise FwcError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    numbers = np.ascontiguousarray(rows.numbers.T, dtype=np.float32)
    codes = np.ascontiguousarray(rows.codes.T, dtype=np.int32)
    euclidean = metric == "l2"
    order = rng.permutation(allowed)
    medoids = np.ascontiguousarray(order[:m])
    nearest, second, d_nearest, d_second = two_nearest(numbers, codes, medoids, euclidean)
    _bound_second(d_nearest, d_second, m)
    losses = [float(d_nearest.sum(dtype=np.float64))]
    is_medoid = np.zeros(rows.n, bool)
    is_medoid[medoids] = True
    since_swap, passes = 0, 0
    while since_swap < len(order) and passes < max_passes:
        passes += 1
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            since_swap += len(batch)
            batch = batch[~is_medoid[batch]]
            candidate, slot, change = best_swap(
                numbers, codes, batch, nearest, d_nearest, d_second, m, euclidean
            )
            if candidate >= 0 and change < -1e-9 * losses[-1]:
                is_medoid[medoids[slot]], is_medoid[candidate] = False, True
                medoids[slot] = candidate
                update_nearest(numbers, codes, medoids, slot, nearest, second, d_nearest, d_second, euclidean)
                _bound_second(d_nearest, d_second, m)
                losses.append(float(d_nearest.sum(dtype=np.float64)))
                since_swap = 0
            if since_swap >= len(order):
                break
    return Medoids(medoids, nearest, losses, since_swap >= len(order))


def _bound_second(d_nearest: np.ndarray, d_second: np.ndarray, m: int) -> None:
    """A single medoid has no second: stand in a finite distance that no row can exceed."""
    if m == 1:
        d_second[:] = 2.0 * d_nearest.max() + 1.0
