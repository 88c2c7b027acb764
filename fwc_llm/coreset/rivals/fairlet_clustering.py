"""Fairlets (Backurs et al., *Scalable Fair Clustering*, ICML 2019): clusters of both protected levels.

The rows are divided into small balanced fairlets. The fairlets' centres are clustered, and every fairlet
joins the cluster of its centre. The original clustering is quadratic in the number of fairlets (the paper
could not run it on Adult in 32 GB); ours is k-medoids without a distance matrix, with memory linear in n.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.checks import candidate_mask
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.rivals.base import METRICS, Coreset, LabelledTable, as_rows, check_size
from fwc_llm.coreset.rivals.faster_pam import swap_medoids
from fwc_llm.coreset.rivals.lloyd import lloyd, rounded_coreset
from fwc_llm.coreset.rivals.quadtree import fairlet_decomposition
from fwc_llm.errors import InputError

_DENOMINATORS = 5
NOTE = "the fairlets' centres are clustered without their distance matrix, in bounded memory"


def fairlets(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    balance: tuple[int, int] | str | None = None,
    clustering: str = "kmedoids",
    metric: str = "l1",
    candidates: Any = None,
) -> Coreset:
    """m fairlet centres (`clustering="kmedoids"`) or free means of them (`"kmeans"`); weight = cluster size.

    `balance=(p, q)` or "p/q", p ≤ q: in every fairlet the rarer level is at least p/q times as frequent as
    the other; by default the largest such fraction with q ≤ 5 that the table allows. The tree is built on
    features and outcome.

    Errors: `InputError` unless there are exactly two protected levels, for a balance that the table does not
    have, and when there are fewer fairlets than m.
    """
    if clustering not in {"kmedoids", "kmeans"}:
        raise InputError(f"clustering is {clustering!r}: choose 'kmedoids' or 'kmeans'")
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(METRICS)}")
    rows = as_rows(X, y, sensitive)
    allowed = candidate_mask(candidates, rows.n)
    rng = np.random.default_rng(seed)
    groups = decompose(rows, balance, rng)
    centres = np.array([_centre(rows, group, metric) for group in groups])
    sizes = np.array([len(group) for group in groups])
    possible = np.flatnonzero(allowed[centres])
    if m > len(possible):
        raise InputError(
            f"m is {m}, but the table has {len(possible)} fairlets whose centre may be chosen: lower m"
        )
    check_size(m, len(possible))
    among = rows.take(centres)
    if clustering == "kmeans":
        points = among.dense(np.sqrt(0.5))
        clusters = lloyd(points, m, rng)
        return rounded_coreset(among, clusters, np.bincount(clusters.labels, weights=sizes, minlength=m))
    found = swap_medoids(among, m, rng, metric, 20, possible)
    return rows.chosen(centres[found.medoids], np.bincount(found.labels, weights=sizes, minlength=m), NOTE)


def decompose(
    rows: LabelledTable, balance: tuple[int, int] | str | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """The fairlets of the table: arrays of positions that partition its rows."""
    if len(rows.levels) != 2:
        raise InputError(
            f"fairlets are for two protected levels, this table has {len(rows.levels)}: "
            f"{', '.join(str(level) for level in rows.levels)}"
        )
    red = rows.codes[:, -2] == 1
    p, q = _balance(int(red.sum()), int((~red).sum()), balance)
    colourless = replace(rows, codes=np.delete(rows.codes, -2, axis=1))
    return fairlet_decomposition(colourless.dense(1.0), red, p, q, rng)


def _balance(red: int, blue: int, wanted: tuple[int, int] | str | None) -> tuple[int, int]:
    """(p, q) without a common divisor, checked against the table or, if None, the largest it allows."""
    few, many = min(red, blue), max(red, blue)
    if wanted is None:
        largest = max(_DENOMINATORS, -(-many // few))
        p, q = max(((few * q // many, q) for q in range(1, largest + 1)), key=lambda pair: pair[0] / pair[1])
    else:
        try:
            p, q = (int(part) for part in (wanted.split("/") if isinstance(wanted, str) else wanted))
        except (TypeError, ValueError):
            p, q = 0, 0
        if not 1 <= p <= q:
            raise InputError(f"balance is {wanted!r}: give whole numbers p and q with 1 ≤ p ≤ q, as in '4/5'")
        if few * q < many * p:
            raise InputError(
                f"the levels are {few} to {many}: no fairlets of balance {p}/{q}; lower p or raise q"
            )
    divisor = math.gcd(p, q)
    return p // divisor, q // divisor


def _centre(rows: LabelledTable, group: np.ndarray, metric: str) -> int:
    """The member with the least summed distance to the others."""
    members = Table(rows.numbers[group], rows.codes[group])
    if metric == "l2":
        distance = np.sqrt(cost_matrix(members, members, "sqeuclidean"))
    else:
        distance = cost_matrix(members, members, "l1")
    return int(group[np.argmin(distance.sum(axis=1))])
