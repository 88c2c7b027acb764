"""Rivals of Fair Wasserstein Coresets for arrays: rows in, weighted points out.

All have the signature `rival(X, y, sensitive, m, seed=0, …) -> Coreset`. X is an (n, p) float
array, which is not scaled, or a DataFrame of mixed columns, scaled as in `FairCoreset`
(docs/method.md, "Ground cost and scaling"). docs/baselines.md has the sources and formulas.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.paper.sampling import sampling_probability
from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.problem.encoding import encode, pick
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.rivals import clustering
from fwc_llm.coreset.rivals.base import LabelledTable, as_rows, sizes
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Coreset:
    """m weighted points that represent n rows.

    `points` (m, p) are in the units of X, a DataFrame if X was one. `rows` (m,) are the points'
    positions in X; None for free points. `sensitive` (m,) and `y` (m,) are the points' levels and
    outcomes. `weights` (m,) are the numbers of rows that the points represent: they sum to n, for
    sensitivity sampling only in expectation. `note` names any deviation from the method.
    """

    points: "Array | pd.DataFrame"
    rows: Array | None
    sensitive: Array
    y: Array
    weights: Array
    note: str = ""


def chosen(
    X: Any, rows: LabelledTable, at: Array, weights: Array, note: str = ""
) -> Coreset:
    """The coreset of the rows of X at the positions `at` (m,)."""
    level, outcome = rows.codes[at, -2:].T
    labels = rows.levels[level], rows.outcomes[outcome]
    return Coreset(pick(X, at), at, *labels, np.asarray(weights, float), note)


def rounded(X: Any, rows: LabelledTable, centres: Array, weights: Array) -> Coreset:
    """The coreset of centres (m, q): every one-hot part becomes the code of its largest entry."""
    k = rows.n_numeric
    parts = np.split(centres[:, k:], np.cumsum(rows.sizes)[:-1], axis=1)
    codes = [part.argmax(axis=1) for part in parts]
    points: Any = np.column_stack([centres[:, :k].astype(float), *codes[:-2]])
    if is_frame(X):
        points = encode(X, scale=True)[0].decode(points)
    levels = rows.levels[codes[-2]]
    return Coreset(
        points, None, levels, rows.outcomes[codes[-1]], weights.astype(float)
    )


def prepare(
    X: Any, y: Any, sensitive: Any, m: int, seed: int
) -> tuple[LabelledTable, Rng]:
    """Return the encoded rows and a generator."""
    rows = as_rows(X, y, sensitive)
    if not 1 <= m <= rows.n:
        raise InputError(f"m is {m}: give a number from 1 to {rows.n}")
    return rows, np.random.default_rng(seed)


def uniform(X: Any, y: Any, sensitive: Any, m: int, seed: int = 0) -> Coreset:
    """m rows drawn without replacement; each gets the weight n/m."""
    rows, rng = prepare(X, y, sensitive, m, seed)
    return chosen(X, rows, rng.permutation(rows.n)[:m], np.full(m, rows.n / m))


def kmeans(X: Any, y: Any, sensitive: Any, m: int, seed: int = 0) -> Coreset:
    """m k-means centres of the points (x, d, y), weighted by their clusters' rows.

    Distances are squared L2. A centre's protected level, outcome and categorical features are the
    most frequent ones of its cluster.
    """
    rows, _ = prepare(X, y, sensitive, m, seed)
    clusters = clustering.lloyd(rows.squared_points(), m, seed)
    return rounded(X, rows, clusters.cluster_centers_, sizes(clusters.labels_, m, rows))


def kmedoids(
    X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, metric: str = "l1"
) -> Coreset:
    """m rows with the least summed distance (L1, or L2 not squared) to all rows, weighted by
    cluster size.
    """
    rows, rng = prepare(X, y, sensitive, m, seed)
    found, note = clustering.kmedoids(rows, m, rng, np.arange(rows.n), metric)
    return chosen(X, rows, found.rows, sizes(found.labels, m, rows), note)


def kmedian_coreset(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    k: int = 50,
    individually_fair: bool = False,
) -> Coreset:
    """m draws with replacement in proportion to the k-median sensitivity.

    Bachem, Lucic, Lattanzi (2018). A row's sensitivity bounds its influence on the cost of any
    clustering. Weights are in proportion to the inverse probability, so that every weighted sum is
    unbiased.
    """
    rows, rng = prepare(X, y, sensitive, m, seed)
    every = np.arange(rows.n)
    probability = sampling_probability(rows, seed, k, individually_fair, every)
    drawn = rng.choice(rows.n, m, p=probability)
    return chosen(X, rows, drawn, 1 / (m * probability[drawn]))


def indfair_coreset(
    X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, k: int = 50
) -> Coreset:
    """`kmedian_coreset` with the individually fair sensitivity (Chhaya et al. 2022)."""
    return kmedian_coreset(X, y, sensitive, m, seed, k, individually_fair=True)
