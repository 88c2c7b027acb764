"""Fairlets: clusters that are balanced in two protected levels.

Backurs et al., *Scalable Fair Clustering*, ICML 2019. The rows are divided into small balanced
fairlets, whose centres are clustered, by k-medoids without a distance matrix or by k-means. Every
fairlet joins the cluster of its centre.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from evals.paper.rivals import Coreset, chosen, rounded
from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.checks import check_choice
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.rivals.base import LabelledTable, as_rows
from fwc_llm.coreset.rivals.clustering import kmedoids, lloyd
from fwc_llm.errors import InputError

_DENOMINATORS = 5  # largest q of the default balance p/q, unless 1/q needs a larger one
LEAF_SIDE = 1e-4  # longest side of a leaf of the tree, in the units of the points
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
) -> Coreset:
    """m medoids (or k-means centroids) of the fairlets' centres, weighted by rows.

    A weight is the number of rows in the cluster. `clustering` is "kmedoids" or "kmeans".
    `balance=(p, q)` or "p/q", p ≤ q: in every fairlet the rarer level has at least p/q times as
    many rows as the other. The default is the largest fraction that the table allows with q ≤ 5, or
    with q up to the ratio of the levels if that is above 5. The tree is built on features and
    outcome.

    Raises `InputError`: other than two protected levels, a balance that the table does not allow,
    or fewer than m fairlets.
    """
    check_choice("clustering", clustering, ("kmedoids", "kmeans"))
    rows = as_rows(X, y, sensitive)
    rng = np.random.default_rng(seed)
    groups = decompose(rows, balance, rng)
    centres = np.array([_centre(rows, group, metric) for group in groups])
    sizes = np.array([len(group) for group in groups])
    if not 1 <= m <= len(groups):
        raise InputError(
            f"m is {m}: give a number from 1 to {len(groups)}, the number of fairlets"
        )
    among = rows.take(centres)
    if clustering == "kmeans":
        clusters = lloyd(among.squared_points(), m, seed)
        weights = np.bincount(clusters.labels_, weights=sizes, minlength=m)
        return rounded(X, among, clusters.cluster_centers_, weights)
    medoids, _ = kmedoids(among, m, rng, np.arange(len(groups)), metric)
    weights = np.bincount(medoids.labels, weights=sizes, minlength=m)
    return chosen(X, rows, centres[medoids.rows], weights, NOTE)


def decompose(
    rows: LabelledTable, balance: tuple[int, int] | str | None, rng: Rng
) -> list[Array]:
    """Return the fairlets of the table: arrays of positions that partition its rows."""
    if len(rows.levels) != 2:
        raise InputError(
            f"fairlets are for two protected levels, this table has {len(rows.levels)}: "
            f"{', '.join(str(level) for level in rows.levels)}"
        )
    red = rows.codes[:, -2] == 1
    p, q = _balance(int(red.sum()), int((~red).sum()), balance)
    colourless = replace(rows, codes=np.delete(rows.codes, -2, axis=1))
    return fairlet_decomposition(colourless.dense(1.0), red, p, q, rng)


def _balance(
    red: int, blue: int, wanted: tuple[int, int] | str | None
) -> tuple[int, int]:
    """Return (p, q), coprime: `wanted`, if the counts allow it; None: the largest p/q that they
    allow.
    """
    few = min(red, blue)
    many = max(red, blue)
    if wanted is None:
        largest = max(_DENOMINATORS, -(-many // few))
        p, q = max(
            ((few * q // many, q) for q in range(1, largest + 1)),
            key=lambda pair: pair[0] / pair[1],
        )
    else:
        try:
            p, q = (
                int(part)
                for part in (wanted.split("/") if isinstance(wanted, str) else wanted)
            )
        except (TypeError, ValueError):
            p = 0
            q = 0
        if not 1 <= p <= q:
            raise InputError(
                f"balance is {wanted!r}: give whole numbers p and q with 1 ≤ p ≤ q, as in '4/5'"
            )
        if few * q < many * p:
            raise InputError(
                f"the levels have {few} and {many} rows: no fairlets of balance {p}/{q}; lower p "
                f"or raise q"
            )
    divisor = math.gcd(p, q)
    return p // divisor, q // divisor


def _centre(rows: LabelledTable, group: Array, metric: str) -> int:
    """Position of the row with the least summed distance to the others of its group."""
    members = EncodedTable(rows.numbers[group], rows.codes[group])
    distance = cost_matrix(members, members, metric)
    return int(
        group[
            np.argmin((np.sqrt(distance) if metric == "l2" else distance).sum(axis=1))
        ]
    )


def fairlet_decomposition(
    points: Array, red: Array, p: int, q: int, rng: Rng
) -> list[Array]:
    """Partition n rows into fairlets, arrays of positions of at most p + q rows each.

    A fairlet has both colours, the rarer one at least p/q times as often as the other. `points` (n,
    k) do not include the colour; `red` (n,) is bool; p ≤ q are coprime. The whole table must have
    min(reds, blues) / max(reds, blues) ≥ p/q.
    """
    codes = _cells(points, rng)
    fairlets: list[Array] = []
    waiting = [(np.arange(len(points)), 0)]
    while waiting:
        rows, level = waiting.pop()
        while (
            level < len(codes)
            and len(rows) > 1
            and np.all(codes[level][rows] == codes[level][rows[0]])
        ):
            level += 1  # an only child has the rows of its parent
        if level == len(codes) or len(rows) == 1:
            fairlets += _basic(rows[red[rows]], rows[~red[rows]], p, q)
            continue
        rows = rows[np.lexsort((red[rows], codes[level][rows]))]
        taken, children = _take(rows, codes[level][rows], red[rows], p, q)
        fairlets += _basic(taken[red[taken]], taken[~red[taken]], p, q)
        waiting += [(child, level + 1) for child in children]
    return fairlets


def _cells(points: Array, rng: Rng) -> list[Array]:
    """The node of each row, (n,) uint64 (hashed coordinates), for every level of the tree below
    the root.

    Each level halves all dimensions of a randomly shifted box, until the longest side is at most
    `LEAF_SIDE`.
    """
    low = points.min(axis=0).astype(float)
    span = points.max(axis=0).astype(float) - low
    varying = span > 0
    low = low[varying]
    span = span[varying]
    scaled = (points[:, varying] - low + rng.random(len(span)) * span) / (
        2.0 * span
    )  # in [0, 1]
    if len(span):
        depth = max(1, math.ceil(math.log2(2.0 * span.max() / LEAF_SIDE)))
    else:
        depth = 0
    factor = rng.integers(1, 2**63, len(span), dtype=np.uint64) | np.uint64(1)
    codes = []
    for level in range(1, depth + 1):
        coordinates = np.floor(scaled * 2.0**level).astype(np.uint64)
        codes.append(
            (coordinates * factor).sum(axis=1, dtype=np.uint64)
        )  # overflow is harmless in a hash
    return codes


def _take(
    rows: Array, code: Array, red: Array, p: int, q: int
) -> tuple[Array, list[Array]]:
    """Return the rows that a node takes from its children, and the rows that each child keeps.

    The rows taken, and those of each child, are (p, q)-balanced. `rows` are sorted by child
    (`code`), blue before red.
    """
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    sizes = np.diff(np.r_[starts, len(rows)])
    reds = np.add.reduceat(red.astype(np.int64), starts)
    stay = np.array([sizes - reds, reds])  # (2, children): blue, red
    before = stay.copy()
    # 1. The surplus of each child's majority colour.
    stay = np.minimum(stay, stay[::-1] * q // p)
    # 2. Spare rows of the children in the colour that is scarce among the rows taken.
    scarce, missing = _missing((before - stay).sum(axis=1), p, q)
    if missing:
        spare = np.maximum(
            stay[scarce] + (-stay[1 - scarce] * p // q), 0
        )  # −(−a // b) rounds up
        stay[scarce] -= np.clip(missing - (np.cumsum(spare) - spare), 0, spare)
        scarce, missing = _missing((before - stay).sum(axis=1), p, q)
    # 3. Rows outside whole fairlets; the children then have the ratio p to q exactly.
    if missing:
        n_fairlets = np.minimum(stay[scarce] // p, stay[1 - scarce] // q)
        for child in np.flatnonzero(stay[scarce] > p * n_fairlets):
            stay[scarce, child] = p * n_fairlets[child]
            stay[1 - scarce, child] = q * n_fairlets[child]
            if _missing((before - stay).sum(axis=1), p, q)[1] == 0:
                break
    position = np.arange(len(rows)) - np.repeat(starts, sizes)
    blue_stay, red_stay, blues = (
        np.repeat(values, sizes) for values in (stay[0], stay[1], before[0])
    )
    stays = np.where(red, position - blues < red_stay, position < blue_stay)
    remaining = rows[stays]
    ends = np.cumsum(stay.sum(axis=0))
    return rows[~stays], [part for part in np.split(remaining, ends[:-1]) if len(part)]


def _missing(taken: Array, p: int, q: int) -> tuple[int, int]:
    """Return the scarcer colour of the rows taken, (blue, red), and how many more the balance
    needs.
    """
    scarce = int(taken[1] < taken[0])
    return scarce, max(0, -(-int(taken[1 - scarce]) * p // q) - int(taken[scarce]))


def _basic(red: Array, blue: Array, p: int, q: int) -> list[Array]:
    """Partition a (p, q)-balanced set into fairlets of at most p + q rows."""
    many, few = (red, blue) if len(red) >= len(blue) else (blue, red)
    fairlets = []
    i = j = 0  # rows of `many` and `few` that are used up
    while (
        (len(many) - i) - (len(few) - j) >= q - p
        and len(many) - i >= q
        and len(few) - j >= p
    ):
        fairlets.append(np.r_[many[i : i + q], few[j : j + p]])
        i = i + q
        j = j + p
    left_many = len(many) - i
    left_few = len(few) - j
    if 1 <= left_many + left_few <= p + q:
        return [*fairlets, np.r_[many[i:], few[j:]]]
    if left_many != left_few and left_few >= p:
        size = left_many - left_few + p
        fairlets.append(np.r_[many[i : i + size], few[j : j + p]])
        i = i + size
        j = j + p
    return fairlets + [np.r_[a, b] for a, b in zip(many[i:], few[j:], strict=True)]
