"""k-means: Lloyd's algorithm (Lloyd 1982) from a greedy k-means++ start (Arthur, Vassilvitskii 2007).

It uses numpy and not scikit-learn, so that every selector works without an extra.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, LabelledTable, as_rows, candidate_rows, check_size, sizes

COMPILED = 10**8  # number of differences an iteration has from which compiled code is faster
_CHUNK = 1 << 22  # entries of a block of distances: 16 MB of float32


@dataclass(frozen=True)
class Clusters:
    """`centres` (k, q) float32; `labels` (n,) nearest centre; `distances` (n,) squared; `n_iter`."""

    centres: np.ndarray
    labels: np.ndarray
    distances: np.ndarray
    n_iter: int


def kmeans(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    max_iter: int = 300,
    sample_weight: Any = None,
) -> Coreset:
    """m free centres of the points (x, d, y) in squared L2, weighted by the rows they represent.

    A centre's protected level, outcome and categorical features are the most frequent ones of its cluster.
    See `lloyd` for when the iteration stops.
    """
    rows = as_rows(X, y, sensitive, sample_weight)
    check_size(m, len(candidate_rows(None, rows)))
    points = rows.dense(np.sqrt(0.5))
    clusters = lloyd(points, m, np.random.default_rng(seed), max_iter, mass=rows.mass)
    return rounded_coreset(rows, clusters, sizes(clusters.labels, m, rows))


def rounded_coreset(rows: LabelledTable, clusters: Clusters, weights: np.ndarray) -> Coreset:
    """The centres of `rows` as a coreset: the one-hot parts of a centre become their largest entry."""
    k = rows.n_numeric
    codes, start = [], k
    for size in rows.sizes:
        codes.append(np.argmax(clusters.centres[:, start : start + size], axis=1))
        start += size
    points: Any = np.column_stack([clusters.centres[:, :k].astype(float), *codes[:-2]])
    if rows.encoder is not None:
        points = rows.encoder.decode(points)
    return Coreset(points, None, rows.levels[codes[-2]], rows.outcomes[codes[-1]], weights.astype(float))


def lloyd(
    points: np.ndarray,
    k: int,
    rng: np.random.Generator,
    max_iter: int = 300,
    tol: float = 1e-4,
    mass: np.ndarray | None = None,
) -> Clusters:
    """k-means of `points` (n, q) float32, of this `mass` (n,); None stands for 1 each.

    Stops when no row changes its centre, when the centres' squared shifts sum to less than `tol` times the
    mean variance of a column (scikit-learn's rule), or after `max_iter` iterations. A centre that loses all
    its rows restarts at the row that is farthest from its own.
    """
    steps = _steps(points, k, mass)
    centres = plus_plus(points, k, rng, steps, mass)
    limit = tol * _mean_variance(points, mass)
    n_iter = 0
    for n_iter in range(1, max_iter + 1):  # noqa: B007 - the count is reported
        changed = steps.assign(centres)
        means, counts = steps.means()
        moved = means.astype(np.float32)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            far = steps.distances() if mass is None else steps.distances() * (mass > 0)
            moved[empty] = points[np.argsort(-far, kind="stable")[: len(empty)]]
        shift = float(np.sum((moved - centres) ** 2, dtype=np.float64))
        centres = moved
        if shift <= limit or not changed:
            break
    steps.assign(centres)
    return Clusters(centres, steps.labels(), steps.distances(), n_iter)


def plus_plus(
    points: np.ndarray,
    k: int,
    rng: np.random.Generator,
    steps: "Steps | None" = None,
    mass: np.ndarray | None = None,
) -> np.ndarray:
    """k starting rows: each the best of 2 + ln k rows drawn with probability ∝ mass · squared distance."""
    steps = steps or _steps(points, k, mass)
    n, trials = len(points), 2 + int(np.log(k))
    chosen = [_any_row(n, rng, mass)]
    closest = steps.reached(np.array(chosen), np.full(n, np.inf, np.float32))[0][0]
    for _ in range(1, k):
        cumulative = np.cumsum(closest if mass is None else mass * closest, dtype=np.float64)
        if cumulative[-1] <= 0:  # fewer distinct rows than centres: any row will do
            chosen.append(_any_row(n, rng, mass))
            continue
        drawn = np.searchsorted(cumulative, rng.random(trials) * cumulative[-1], side="right")
        drawn = np.minimum(drawn, n - 1)
        reached, sums = steps.reached(drawn, closest)
        best = int(np.argmin(sums))
        chosen.append(int(drawn[best]))
        closest = reached[best]
    return np.array(points[chosen])


def nearest_centre(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) nearest centre of every row and (n,) squared distance to it."""
    steps = _steps(points, len(centres))
    steps.assign(centres)
    return steps.labels(), steps.distances()


class Steps(Protocol):
    """The steps of k-means on some points."""

    def reached(self, rows: np.ndarray, closest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, n) the lesser of `closest` (n,) and the squared distances to `rows` (w,), and (w,) the sums."""

    def assign(self, centres: np.ndarray) -> int:
        """Find every row's nearest of the `centres` (k, q); how many rows changed theirs."""

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """(k, q) float64 means of the clusters and (k,) how many rows they have."""

    def labels(self) -> np.ndarray:
        """(n,) nearest centre of every row."""

    def distances(self) -> np.ndarray:
        """(n,) squared distance of every row to its centre."""


class PlainLloyd:
    """The steps with numpy alone, in blocks of bounded memory; the sums are weighted by `mass` (n,)."""

    def __init__(self, points: np.ndarray, k: int, mass: np.ndarray | None = None) -> None:
        self._points, self._k, self._mass = points, k, mass
        self._norms = np.einsum("ij,ij->i", points, points)
        self._labels = np.full(len(points), -1)
        self._centres = points[:0]

    def reached(self, rows: np.ndarray, closest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`."""
        others = self._points[rows]
        squared = (
            self._norms - 2.0 * (others @ self._points.T) + np.einsum("ij,ij->i", others, others)[:, None]
        )
        found = np.minimum(np.maximum(squared, 0.0), closest)
        return found, found.sum(axis=1, dtype=np.float64) if self._mass is None else found @ self._mass

    def assign(self, centres: np.ndarray) -> int:
        """See `Steps`."""
        previous, n = self._labels, len(self._points)
        self._labels, self._centres = np.empty(n, np.int64), centres
        half = 0.5 * np.einsum("ij,ij->i", centres, centres)
        block = max(1, _CHUNK // max(1, len(centres)))
        for start in range(0, n, block):
            # |x − c|² = |x|² − 2 (x·c − |c|²/2): the nearest centre has the largest x·c − |c|²/2.
            score = self._points[start : start + block] @ centres.T
            score -= half
            self._labels[start : start + block] = score.argmax(axis=1)
        return int((self._labels != previous).sum())

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`."""
        labels, k, mass = self._labels, self._k, self._mass
        if mass is not None:
            held = np.bincount(labels, mass, k)
            sums = np.column_stack([np.bincount(labels, mass * column, k) for column in self._points.T])
            return sums / np.where(held > 0, held, 1.0)[:, None], held
        counts = np.bincount(labels, minlength=k)
        sums = np.column_stack([np.bincount(labels, column, minlength=k) for column in self._points.T])
        return sums / np.maximum(counts, 1)[:, None], counts

    def labels(self) -> np.ndarray:
        """See `Steps`."""
        return self._labels

    def distances(self) -> np.ndarray:
        """See `Steps`."""
        apart = self._points - self._centres[self._labels]
        return np.asarray(np.einsum("ij,ij->i", apart, apart))


def _any_row(n: int, rng: np.random.Generator, mass: np.ndarray | None) -> int:
    """A row drawn by mass."""
    return int(rng.integers(n) if mass is None else rng.choice(n, p=mass / mass.sum()))


def _mean_variance(points: np.ndarray, mass: np.ndarray | None) -> float:
    """The mean variance of a column."""
    if mass is None:
        return float(points.var(axis=0, dtype=np.float64).mean())
    share = mass / mass.sum()
    return float((share @ (points - share @ points) ** 2).mean())


def _steps(points: np.ndarray, k: int, mass: np.ndarray | None = None) -> Steps:
    if (
        mass is not None or points.size * k < COMPILED
    ):  # weights need sums that the compiled steps do not have
        return PlainLloyd(points, k, mass)
    from fwc_llm.coreset.rivals.compiled.lloyd_steps import CompiledLloyd

    return CompiledLloyd(points, k)
