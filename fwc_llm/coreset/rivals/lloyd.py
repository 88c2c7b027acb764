"""k-means: Lloyd's algorithm (Lloyd 1982) from a greedy k-means++ start (Arthur, Vassilvitskii 2007).

It uses numpy and not scikit-learn, so that every selector works without an extra.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, LabelledTable, as_rows, check_size

_CHUNK = 1 << 22  # entries of a block of distances: 16 MB of float32


@dataclass(frozen=True)
class Clusters:
    """`centres` (k, q) float32; `labels` (n,) nearest centre; `distances` (n,) squared; `n_iter`."""

    centres: np.ndarray
    labels: np.ndarray
    distances: np.ndarray
    n_iter: int


def kmeans(X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, max_iter: int = 300) -> Coreset:
    """m free centres of the points (x, d, y) in squared L2, weighted by the rows they represent.

    A centre's protected level, outcome and categorical features are the most frequent ones of its cluster.
    See `lloyd` for when the iteration stops.
    """
    rows = as_rows(X, y, sensitive)
    check_size(m, rows.n)
    clusters = lloyd(rows.dense(np.sqrt(0.5)), m, np.random.default_rng(seed), max_iter)
    return rounded_coreset(rows, clusters, np.bincount(clusters.labels, minlength=m))


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
    points: np.ndarray, k: int, rng: np.random.Generator, max_iter: int = 300, tol: float = 1e-4
) -> Clusters:
    """k-means of `points` (n, q) float32.

    Stops when no row changes its centre, when the centres' squared shifts sum to less than `tol` times the
    mean variance of a column (scikit-learn's rule), or after `max_iter` iterations. A centre that loses all
    its rows restarts at the row that is farthest from its own.
    """
    centres = plus_plus(points, k, rng)
    limit = tol * float(points.var(axis=0, dtype=np.float64).mean())
    labels = np.full(len(points), -1)
    n_iter = 0
    for n_iter in range(1, max_iter + 1):  # noqa: B007 - the count is reported
        previous = labels
        labels, distances = nearest_centre(points, centres)
        moved = means(points, labels, distances, k)
        shift = float(np.sum((moved - centres) ** 2, dtype=np.float64))
        centres = moved
        if shift <= limit or np.array_equal(labels, previous):
            break
    labels, distances = nearest_centre(points, centres)
    return Clusters(centres, labels, distances, n_iter)


def plus_plus(points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """k starting rows: each the best of 2 + ln k rows drawn with probability ∝ squared distance."""
    n, trials = len(points), 2 + int(np.log(k))
    norms = np.einsum("ij,ij->i", points, points)
    chosen = [int(rng.integers(n))]
    closest = _squared(points, norms, points[chosen])[:, 0]
    for _ in range(1, k):
        cumulative = np.cumsum(closest, dtype=np.float64)
        if cumulative[-1] <= 0:  # fewer distinct rows than centres: any row will do
            chosen.append(int(rng.integers(n)))
            continue
        drawn = np.searchsorted(cumulative, rng.random(trials) * cumulative[-1], side="right")
        drawn = np.minimum(drawn, n - 1)
        reached = np.minimum(_squared(points, norms, points[drawn]), closest[:, None])
        best = int(np.argmin(reached.sum(axis=0, dtype=np.float64)))
        chosen.append(int(drawn[best]))
        closest = reached[:, best]
    return np.array(points[chosen])


def nearest_centre(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) nearest centre of every row and (n,) squared distance to it, in blocks of bounded memory."""
    n = len(points)
    labels, distances = np.empty(n, np.int64), np.empty(n, np.float32)
    half = 0.5 * np.einsum("ij,ij->i", centres, centres)
    block = max(1, _CHUNK // max(1, len(centres)))
    for start in range(0, n, block):
        part = points[start : start + block]
        # |x − c|² = |x|² − 2 (x·c − |c|²/2): the nearest centre has the largest x·c − |c|²/2.
        score = part @ centres.T
        score -= half
        labels[start : start + block] = score.argmax(axis=1)
        distances[start : start + block] = ((part - centres[labels[start : start + block]]) ** 2).sum(axis=1)
    return labels, distances


def means(points: np.ndarray, labels: np.ndarray, distances: np.ndarray, k: int) -> np.ndarray:
    """(k, q) means of the clusters; an empty cluster takes one of the rows farthest from their centres."""
    counts = np.bincount(labels, minlength=k)
    sums = np.column_stack([np.bincount(labels, weights=column, minlength=k) for column in points.T])
    centres = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        centres[empty] = points[np.argsort(-distances, kind="stable")[: len(empty)]]
    return centres


def _squared(points: np.ndarray, norms: np.ndarray, others: np.ndarray) -> np.ndarray:
    squared = norms[:, None] - 2.0 * (points @ others.T) + np.einsum("ij,ij->i", others, others)[None, :]
    return np.asarray(np.maximum(squared, 0.0))
