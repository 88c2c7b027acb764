"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n².

Distances are computed when they are needed, a candidate's n at a time, and never kept. Candidates are tried
in batches, shared by threads; the best of a batch is swapped in at once if it lowers the loss. Batches grow
while nothing is found.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import METRICS, Coreset, Rows, as_rows, candidate_rows, check_size
from fwc_llm.coreset.rivals.swap_kernels import best_exchanges, two_nearest, update_nearest
from fwc_llm.errors import FwcError

MAX_CANDIDATES = 100_000
_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512
_THREADS = os.cpu_count() or 1
_MOST_TIMES = 4  # a code may be written, to cost as much
_WORTH_SHARING = 2_000_000  # comparisons of two cells: about a millisecond


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
    euclidean = metric == "l2"
    numbers, codes, unit = _columns(rows, euclidean)
    order = rng.permutation(allowed)
    medoids = np.ascontiguousarray(order[:m])
    centres = np.take(numbers, medoids, axis=1), np.take(codes, medoids, axis=1)
    nearest, second, d_nearest, d_second = two_nearest(numbers, codes, unit, *centres, euclidean)
    _bound_second(d_nearest, d_second, m)
    by_medoid = _sorted(numbers, codes, centres, nearest, d_nearest, d_second)
    losses = [float(d_nearest.sum(dtype=np.float64))]
    is_medoid = np.zeros(rows.n, bool)
    is_medoid[medoids] = True
    since_swap, seen, size = 0, 0, _SMALLEST_BATCH
    with ThreadPoolExecutor(_THREADS) as pool:
        while since_swap < len(order) and seen < max_passes * len(order):
            batch = np.take(order, np.arange(seen, seen + min(size, len(order) - since_swap)), mode="wrap")
            seen, since_swap = seen + len(batch), since_swap + len(batch)
            batch = batch[~is_medoid[batch]]
            if len(batch) == 0:
                continue
            candidate, slot, change = _best_swap(batch, numbers, codes, unit, by_medoid, euclidean, pool)
            if change >= -1e-9 * losses[-1]:
                size = min(2 * size, _LARGEST_BATCH)
                continue
            is_medoid[medoids[slot]], is_medoid[candidate] = False, True
            medoids[slot] = candidate
            centres[0][:, slot], centres[1][:, slot] = numbers[:, candidate], codes[:, candidate]
            update_nearest(
                *(numbers, codes, unit, *centres, slot),
                *(nearest, second, d_nearest, d_second, euclidean),
            )
            _bound_second(d_nearest, d_second, m)
            by_medoid = _sorted(numbers, codes, centres, nearest, d_nearest, d_second)
            losses.append(float(d_nearest.sum(dtype=np.float64)))
            since_swap, size = 0, max(size // 2, _SMALLEST_BATCH)
    return Medoids(medoids, nearest, losses, since_swap >= len(order))


def _best_swap(
    batch: np.ndarray,
    numbers: np.ndarray,
    codes: np.ndarray,
    unit: np.float32,
    by_medoid: tuple[np.ndarray, ...],
    euclidean: bool,
    pool: ThreadPoolExecutor,
) -> tuple[int, int, float]:
    """The best exchange of a medoid for a row of the batch: (row, slot, change of the loss)."""
    work = len(batch) * codes.shape[1] * (len(numbers) + len(codes))
    parts = [batch] if work < _WORTH_SHARING else np.array_split(batch, min(_THREADS, len(batch)))

    def exchanges(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = numbers[:, part], codes[:, part]
        found: tuple[np.ndarray, np.ndarray] = best_exchanges(
            *(*by_medoid[:2], unit, *by_medoid[2:], *points, euclidean)
        )
        return found

    found = [exchanges(batch)] if len(parts) == 1 else list(pool.map(exchanges, parts))
    slots, changes = (np.concatenate([part[side] for part in found]) for side in (0, 1))
    best = int(np.argmin(changes))
    return int(batch[best]), int(slots[best]), float(changes[best])


def _columns(rows: Rows, euclidean: bool) -> tuple[np.ndarray, np.ndarray, np.float32]:
    """The table by columns: numbers (k, n) float32, codes (c, n), and what a mismatch of two codes costs.

    A column of two numbers is a code too, and codes in a small type are compared several times as fast. So
    one-hot columns become codes. Their mismatch is the unit; where it is a fraction of 1, what a mismatch of
    the others costs, these stand there as often as it takes.
    """
    numbers = np.ascontiguousarray(rows.numbers.T, dtype=np.float32)
    low, high = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
    costs = (high - low)[:, 0].astype(np.float64) ** (2 if euclidean else 1)
    two = ((numbers == low) | (numbers == high)).all(axis=1) & (costs > 0)
    unit = min(costs[two], default=1.0)
    times = round(1 / unit)
    if 1 <= times <= _MOST_TIMES and np.isclose(times * unit, 1.0, rtol=1e-6):
        two &= np.isclose(costs, unit, rtol=1e-6)
    else:
        two[:], times = False, 1
    codes = np.concatenate([numbers[two] == high[two], *[rows.codes.T] * times])
    # The type must hold the codes, and their number.
    small = np.uint8 if codes.max(initial=0) < 256 and len(codes) < 256 else np.int32
    return numbers[~two], np.ascontiguousarray(codes, small), np.float32(1 / times)


def _sorted(
    numbers: np.ndarray,
    codes: np.ndarray,
    centres: tuple[np.ndarray, np.ndarray],
    nearest: np.ndarray,
    d_nearest: np.ndarray,
    d_second: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """The table sorted by medoid and falling d₁ + d₂, and the medoids, as `best_exchanges` takes them."""
    reach = (d_nearest + d_second).astype(np.float64)
    order = np.argsort(nearest * (2.0 * reach.max() + 1.0) - reach)
    m = centres[0].shape[1]
    starts = np.zeros(m + 1, np.int64)
    np.cumsum(np.bincount(nearest, minlength=m), out=starts[1:])
    return (
        np.take(numbers, order, axis=1),
        np.take(codes, order, axis=1),
        starts,
        d_nearest[order],
        d_second[order],
        *centres,
    )


def _bound_second(d_nearest: np.ndarray, d_second: np.ndarray, m: int) -> None:
    """A single medoid has no second: stand in a finite distance that no row can exceed."""
    if m == 1:
        d_second[:] = 2.0 * d_nearest.max() + 1.0
