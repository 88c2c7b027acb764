"""k-medoids by swaps: FasterPAM (Schubert, Rousseeuw 2021) with memory linear in n.

See `fwc_llm.coreset.swaps.engine`, here with one cell and no prices.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import METRICS, Coreset, LabelledTable, prepare, sizes
from fwc_llm.coreset.swaps.engine import Exchanged, Patience, estimate, exchange
from fwc_llm.coreset.swaps.state import Points, Space
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

MAX_CANDIDATES = 100_000
GROWN = 40_000  # rows from which swaps begin on samples
SMALLEST = 4096  # rows of a sample
_ON_SAMPLE = Patience(passes=3, least=1e-6)
_AT_ONCE = Patience(passes=1, again=16)
_ROUNDS = 4  # of swaps for promising candidates, at most
_PROMISING = 20  # one candidate of so many is promising
_FEW = 12  # rounds end when less than one medoid of so many was swapped


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
    """FasterPAM from random medoids; every swap lowers the loss. Medoids are among `allowed` (positions).

    Large tables start from what swaps find on samples, and try the candidates first that gain on a sample.
    """
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = None if rows.mass is None else rows.mass.astype(np.float32)
    swaps = _Swaps(values, rows.numbers.shape[1], metric, mass)
    order = rng.permutation(allowed)
    medoids = order[:m].copy()
    losses: list[float] = []
    if rows.n >= GROWN:
        medoids = _grow(swaps, medoids, allowed, rng)
        medoids, losses = _swap_promising(swaps, medoids, allowed, rng)
        order = rng.permutation(allowed)
    medoids, found = swaps.seek(np.arange(rows.n), medoids, order, Patience(passes=max_passes))
    return MedoidClusters(medoids, found.labels, losses[:-1] + found.losses, found.converged)


class _Swaps:
    """The rows as a space without cells, in which medoids are exchanged."""

    def __init__(self, values: np.ndarray, n_numeric: int, metric: str, mass: np.ndarray | None) -> None:
        one = np.zeros(len(values), int), np.zeros((1, 1)), np.zeros(1)
        self._space = Space(values, n_numeric, *one, metric, mass)
        self._threads = Threads()

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self._space.values)

    def seek(
        self, rows: np.ndarray, medoids: np.ndarray, candidates: np.ndarray, patience: Patience
    ) -> tuple[np.ndarray, Exchanged]:
        """The medoids (m,) after swaps for `candidates` that lower the loss of `rows`, and how it went."""
        space = self._space
        mass = None if space.mass is None else space.mass[rows]
        part = replace(space, values=space.values[rows], cell=space.cell[rows], mass=mass)
        place = np.full(len(space.values), -1)
        place[rows] = np.arange(len(rows))
        cells = np.zeros(len(candidates), int)
        points = self._points(medoids)
        found = exchange(part, points, place[candidates], cells, candidates, patience, self._threads)
        return np.where(found.rows < 0, medoids, rows[found.rows]), found

    def gains(self, medoids: np.ndarray, candidates: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(q,) by how much the best swap with each candidate changes the loss of some `rows`."""
        cells = np.zeros(len(candidates), int)
        return estimate(self._space, self._points(medoids), candidates, cells, rows, self._threads)

    def _points(self, medoids: np.ndarray) -> Points:
        return Points(self._space.values[medoids], np.zeros(len(medoids), int), medoids)


def _grow(swaps: _Swaps, medoids: np.ndarray, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Medoids from swaps on a sample, and on larger ones, each four times as large."""
    n = swaps.size
    sizes = [n]
    while sizes[0] >= 4 * max(SMALLEST, 16 * len(medoids)):
        sizes.insert(0, sizes[0] // 4)
    order = rng.permutation(n)
    for size in sizes[:-1]:
        sample = np.unique(np.concatenate([order[:size], medoids]))
        candidates = rng.permutation(np.intersect1d(sample, allowed))
        medoids, _ = swaps.seek(sample, medoids, candidates, _ON_SAMPLE)
    return medoids


def _swap_promising(
    swaps: _Swaps, medoids: np.ndarray, allowed: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, list[float]]:
    """Swaps on all rows for the candidates that gain most on a sample, while there are many; the losses."""
    everyone = np.arange(swaps.size)
    losses: list[float] = []
    for _ in range(_ROUNDS):
        some = np.sort(rng.choice(swaps.size, min(SMALLEST, swaps.size), replace=False))
        ranking = np.argsort(swaps.gains(medoids, allowed, some), kind="stable")
        best = allowed[ranking[: len(allowed) // _PROMISING + 1]]
        medoids, found = swaps.seek(everyone, medoids, best, _AT_ONCE)
        losses = losses[:-1] + found.losses
        if _FEW * (len(found.losses) - 1) < len(medoids):
            break
    return medoids, losses
