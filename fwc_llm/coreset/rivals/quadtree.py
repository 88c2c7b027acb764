"""Fairlet decomposition along a quadtree (Backurs, Indyk, Onak, Schieber, Vakilian, Wagner: *Scalable Fair
Clustering*, ICML 2019): rows of two colours into small groups of balance at least p/q, close rows together.
"""

import math

import numpy as np

LEAF_SIDE = 1e-4


def fairlet_decomposition(
    points: np.ndarray, red: np.ndarray, p: int, q: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Fairlets: arrays of positions that partition the n rows, each with at most p + q rows and both colours,
    the rarer one at least p/q times as often as the other.

    `points` (n, k) without the colour; `red` (n,) bool; p ≤ q without a common divisor. The whole table must
    have min(reds, blues) / max(reds, blues) ≥ p/q.
    """
    codes = _cells(points, rng)
    fairlets: list[np.ndarray] = []
    waiting = [(np.arange(len(points)), 0)]
    while waiting:
        rows, level = waiting.pop()
        while level < len(codes) and len(rows) > 1 and np.all(codes[level][rows] == codes[level][rows[0]]):
            level += 1  # an only child has the rows of its parent
        if level == len(codes) or len(rows) == 1:
            fairlets += _basic(rows[red[rows]], rows[~red[rows]], p, q)
            continue
        rows = rows[np.lexsort((red[rows], codes[level][rows]))]
        taken, children = _take(rows, codes[level][rows], red[rows], p, q)
        fairlets += _basic(taken[red[taken]], taken[~red[taken]], p, q)
        waiting += [(child, level + 1) for child in children]
    return fairlets


def _cells(points: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The cell of each row, (n,) uint64 (hashed coordinates), for every level of the tree below the root.

    The points are shifted by U(0, range) in every dimension, in a box of twice the range. Each level halves
    all dimensions, until the longest side is at most `LEAF_SIDE`.
    """
    low = points.min(axis=0).astype(float)
    span = points.max(axis=0).astype(float) - low
    varying = span > 0
    low, span = low[varying], span[varying]
    place = (points[:, varying] - low + rng.random(len(span)) * span) / (2.0 * span)  # in [0, 1]
    depth = max(1, math.ceil(math.log2(2.0 * span.max() / LEAF_SIDE))) if len(span) else 0
    factor = rng.integers(1, 2**63, len(span), dtype=np.uint64) | np.uint64(1)
    codes = []
    for level in range(1, depth + 1):
        coordinates = np.floor(place * 2.0**level).astype(np.uint64)
        codes.append((coordinates * factor).sum(axis=1, dtype=np.uint64))  # overflow is harmless in a hash
    return codes


def _take(
    rows: np.ndarray, code: np.ndarray, red: np.ndarray, p: int, q: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The rows that a node takes from its children, and the rows that each child keeps.

    `rows` are sorted by child (`code`), blue before red. The rows taken are (p, q)-balanced, and so are those
    that a child keeps.
    """
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    sizes = np.diff(np.r_[starts, len(rows)])
    reds = np.add.reduceat(red.astype(np.int64), starts)
    kept = np.array([sizes - reds, reds])  # blue, red; each child has its reds after its blues
    before = kept.copy()
    # 1. The surplus of each child's majority colour.
    kept = np.minimum(kept, kept[::-1] * q // p)
    # 2. Spare rows of the children in the colour that is scarce among the rows taken.
    scarce, missing = _missing((before - kept).sum(axis=1), p, q)
    if missing:
        spare = np.maximum(kept[scarce] + (-kept[1 - scarce] * p // q), 0)  # −(−a // b) rounds up
        kept[scarce] -= np.clip(missing - (np.cumsum(spare) - spare), 0, spare)
        scarce, missing = _missing((before - kept).sum(axis=1), p, q)
    # 3. Rows outside whole fairlets; the children then have the ratio p to q exactly.
    if missing:
        whole = np.minimum(kept[scarce] // p, kept[1 - scarce] // q)
        for child in np.flatnonzero(kept[scarce] > p * whole):
            kept[scarce, child], kept[1 - scarce, child] = p * whole[child], q * whole[child]
            if _missing((before - kept).sum(axis=1), p, q)[1] == 0:
                break
    position = np.arange(len(rows)) - np.repeat(starts, sizes)
    blue_kept, red_kept, blues = (np.repeat(values, sizes) for values in (kept[0], kept[1], before[0]))
    stays = np.where(red, position - blues < red_kept, position < blue_kept)
    remaining = rows[stays]
    ends = np.cumsum(kept.sum(axis=0))
    return rows[~stays], [part for part in np.split(remaining, ends[:-1]) if len(part)]


def _missing(taken: np.ndarray, p: int, q: int) -> tuple[int, int]:
    """The scarcer colour of the rows taken (blue, red), and how many more of it the balance p/q needs."""
    scarce = int(taken[1] < taken[0])
    return scarce, max(0, -(-int(taken[1 - scarce]) * p // q) - int(taken[scarce]))


def _basic(red: np.ndarray, blue: np.ndarray, p: int, q: int) -> list[np.ndarray]:
    """A (p, q)-balanced set as fairlets of at most p + q rows."""
    many, few = (red, blue) if len(red) >= len(blue) else (blue, red)
    fairlets = []
    i = j = 0  # rows of `many` and `few` that are used up
    while (len(many) - i) - (len(few) - j) >= q - p and len(many) - i >= q and len(few) - j >= p:
        fairlets.append(np.r_[many[i : i + q], few[j : j + p]])
        i, j = i + q, j + p
    left_many, left_few = len(many) - i, len(few) - j
    if 1 <= left_many + left_few <= p + q:
        return [*fairlets, np.r_[many[i:], few[j:]]]
    if left_many != left_few and left_few >= p:
        size = left_many - left_few + p
        fairlets.append(np.r_[many[i : i + size], few[j : j + p]])
        i, j = i + size, j + p
    return fairlets + [np.r_[a, b] for a, b in zip(many[i:], few[j:], strict=True)]
