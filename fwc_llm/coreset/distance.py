"""The exact Wasserstein distance between n rows, weighted or not, and a weighted coreset of m points.

Unlike in the inner problem of FWC, the weights are given. With few points the problem is a flow between m
sinks, which needs no optimal-transport library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.compiled import kernel, part, read_only
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError

_GROWTH = 4  # factor from one sample size to the next
_BLOCK = 4096  # rows per step in the sum of the bound


@dataclass(frozen=True)
class Distance:
    """`value`, the cost of the best plan, and `lower_bound`, the dual bound: equal up to rounding."""

    value: float
    lower_bound: float


def wasserstein(cost: Any, weights: Any, sample_weight: Any = None) -> Distance:
    """min Σ_ij c_ij q_ij  subject to  Σ_j q_ij = 1/n,  Σ_i q_ij = w_j / Σw,  q ≥ 0.

    `cost` (n, m) finite, `weights` (m,) not negative, not all 0; points of weight 0 are left out. With
    `sample_weight` (n,) row i has its share of these weights in the place of 1/n. Successive
    shortest paths (Ahuja, Magnanti, Orlin, *Network Flows*, chapter 9): every row starts at its nearest
    point, at prices from a sample of the rows, so that few rows start at a wrong point. Points with a surplus
    then pass rows on along the cheapest paths. Memory: 1.25 times the cost matrix, plus a few times n + m².

    Errors: `InputError` for wrong shapes, a cost that is not finite or too large, invalid weights.
    """

    matrix, weight = np.asarray(cost, np.float64), np.asarray(weights, np.float64)
    if matrix.ndim != 2 or weight.shape != matrix.shape[1:] or not len(matrix):
        raise InputError(f"cost is {matrix.shape} and weights {weight.shape}: give (n, m) and (m,)")
    if not np.isfinite(matrix).all():
        raise InputError("cost must be finite")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and (weight > 0).any()):
        raise InputError("weights must be finite, not negative and not all 0")
    masses = read_weights(sample_weight, len(matrix))
    if masses is not None and masses.positive is not None:
        matrix, masses = matrix[masses.positive], masses.take(masses.positive)
    matrix = np.ascontiguousarray(np.compress(weight > 0, matrix, axis=1) if (weight == 0).any() else matrix)
    weight = weight[weight > 0] / weight.max()
    share = weight / weight.sum()
    prices = np.zeros(len(share))
    order = np.random.default_rng(0).permutation(len(matrix))
    for size in _sizes(len(matrix), len(share)):
        chosen = order[:size] if size < len(matrix) else None
        rows = matrix if chosen is None else matrix[chosen]
        if masses is None:
            value = balance(rows, *capacities(share, size), prices) / size
        else:
            supply = _supply(masses.values if chosen is None else masses.values[chosen])
            rows, supply = (rows, supply) if supply.all() else (rows[supply > 0], supply[supply > 0])
            units = int(supply.sum())
            value = balance(rows, _parts(share, units), supply, prices) / units
    if not np.isfinite(value):
        raise InputError(
            f"no plan was found: the costs, up to {np.abs(matrix).max()}, are too large to be added"
        )
    bound = 0.0
    for low in range(0, len(matrix), _BLOCK):
        least = (matrix[low : low + _BLOCK] - prices).min(axis=1)
        bound += float(least.sum() if masses is None else masses.values[low : low + _BLOCK] @ least)
    whole = len(matrix) if masses is None else masses.total
    return Distance(value, bound / whole + float(share @ prices))


def _sizes(n: int, m: int) -> list[int]:
    """Sizes of the initial samples, each a quarter of the next; the smallest has about m rows."""
    sizes = [n]
    while sizes[0] // _GROWTH >= m:
        sizes.insert(0, sizes[0] // _GROWTH)
    return sizes


def capacities(share: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """The capacity of each point for n rows, (m,) int64 in units, and the number of units of a row."""
    unit = 1 << (62 - n.bit_length())
    return _parts(share, n * unit), unit


def _parts(share: np.ndarray, units: int) -> np.ndarray:
    """The units that each share (m,) gets, (m,) int64, all of them together."""
    parts = np.floor(share * float(units)).astype(np.int64)
    parts[np.argmax(parts)] += units - int(parts.sum())  # the rounding error
    return parts


def _supply(mass: np.ndarray) -> np.ndarray:
    """The rows' masses (n,) as whole units, int64, fewer than 2⁶² in all."""
    return np.asarray(np.floor(mass / mass.sum() * 2.0**61), dtype=np.int64)


_NONE = -1
_ROW, _POINT, _AMOUNT, _BEFORE, _AFTER, _SIBLING = 0, 1, 2, 3, 4, 5  # the columns of `pieces`
_ROUNDING = 1e-13  # relative to the numbers that are summed: smaller differences count as 0


def balance(cost: np.ndarray, capacity: np.ndarray, unit: int | np.ndarray, prices: np.ndarray) -> float:
    """Least cost of n rows of `unit` (int) units each at m points, divided by `unit`; NaN if none is found.

    With one number of units for each row, `unit` (n,) int64, the cost is that of all units, not divided.
    The `capacity` (m,) int64 of the points, in units, sums to that of all rows. `prices` (m,) holds any
    initial prices π and, at the end, those that prove the plan optimal: every piece of row i lies at a point
    where c_ij − π_j is least, up to rounding.
    """
    n, m = cost.shape
    pieces, first, eldest = np.empty((n + 4 * m, 6), np.int64), np.full(m, _NONE), np.full(n, _NONE)
    unused = np.arange(len(pieces))[::-1].copy()  # a stack of free pieces
    rest = capacity.copy()  # what a point still wants; below 0: what it has too much
    carrier, step = np.full((m, m), _NONE), np.full((m, m), np.inf)
    places, distance = np.empty((3, m), np.int64), np.empty(m)
    supply = np.broadcast_to(unit, n).astype(np.int64)
    total: float = _balance(
        *(read_only(cost), supply, prices, pieces, first, eldest, unused, rest, carrier, step, places),
        distance,
    )
    return total / unit if isinstance(unit, int) else total


@kernel(_nrt=True)  # it makes room for more pieces
def _balance(  # type: ignore[no-untyped-def]
    cost, supply, prices, pieces, first, eldest, unused, rest, carrier, step, places, distance
):
    """See `balance`, which makes the arrays; returns the cost in units."""
    n, m = cost.shape
    n_unused = len(unused)
    previous, order, waiting = places[0], places[1], places[2]
    for i in range(n):
        n_unused -= 1
        point = _nearest(cost[i], prices, rest)
        _add(pieces, first, eldest, unused[n_unused], i, point, supply[i])
        rest[point] -= supply[i]
    for j in range(m):
        for k in range(m):
            if j != k:
                carrier[j, k], step[j, k] = _cheapest(cost, pieces, first, j, k)
    while True:
        settled, reached = _shortest_paths(step, prices, rest, distance, previous, waiting, order)
        if not reached:
            break
        surely = True  # the first path holds, later ones where no earlier one has used them up
        for place in range(settled):
            target = order[place]
            while rest[target] > 0:
                amount = _passable(pieces, carrier, step, prices, previous, rest, target, surely)
                if amount == 0:
                    break
                surely = False
                if n_unused < m:
                    pieces, unused, n_unused = grown_pieces(pieces, unused, n_unused)
                rest[target] -= amount
                k = target
                while previous[k] != _NONE:
                    n_unused = _pass_on(
                        cost, pieces, first, eldest, carrier, step, unused, n_unused, previous[k], k, amount
                    )
                    k = previous[k]
                rest[k] += amount
        if surely:
            return np.nan  # costs too large to be added
    total = 0.0
    for j in range(m):
        if rest[j] != 0:
            return np.nan
        piece = first[j]
        while piece != _NONE:
            total += pieces[piece, _AMOUNT] * cost[pieces[piece, _ROW], j]
            piece = pieces[piece, _AFTER]
    return total


@part
def _nearest(cost, prices, rest):  # type: ignore[no-untyped-def]
    """The point at which cost − prices is least; of equal ones the one that wants most.

    With costs of absolute differences half the points may be equal: a row that lies outside all of them
    differs by the same from each at these prices.
    """
    best, least = 0, np.inf
    for j in range(len(prices)):
        if cost[j] - prices[j] < least:
            best, least = j, cost[j] - prices[j]
    for j in range(len(prices)):
        nothing = _ROUNDING * (abs(cost[j]) + abs(prices[j]))
        if rest[j] > rest[best] and cost[j] - prices[j] <= least + nothing:
            best = j
    return best


@part
def _shortest_paths(step, prices, rest, distance, previous, waiting, order):  # type: ignore[no-untyped-def]
    """Dijkstra on reduced costs from all points with a surplus to all points with free capacity.

    Returns how many points are settled (`order`, nearest first), and whether one of them has free capacity.
    Raises the prices, so that reduced costs stay non-negative and are 0 along the paths.
    """
    m = len(prices)
    wanting = 0
    at, least = _NONE, np.inf
    for j in range(m):
        previous[j], waiting[j] = _NONE, j
        distance[j] = 0.0 if rest[j] < 0 else np.inf
        wanting += rest[j] > 0
        if rest[j] < 0 and at == _NONE:
            at, least = j, 0.0
    settled, reached, reach = 0, 0, 0.0
    while at != _NONE:
        j = waiting[at]
        waiting[at] = waiting[m - 1 - settled]
        order[settled] = j
        settled += 1
        reach = least
        reached += rest[j] > 0
        if reached == wanting:
            break
        at, nearest = _NONE, np.inf
        base = reach + prices[j]
        for place in range(m - settled):
            k = waiting[place]
            length = max(reach, base + step[j, k] - prices[k])
            if length < distance[k]:
                distance[k], previous[k] = length, j
            if distance[k] < nearest:
                at, nearest = place, distance[k]
        least = nearest
    for j in range(m):
        prices[j] += min(distance[j], reach)
    return settled, reached > 0


@part
def _passable(pieces, carrier, step, prices, previous, rest, target, surely):  # type: ignore[no-untyped-def]
    """The amount that can pass to the target along its path; 0 if not `surely` and earlier paths used it up.

    If two consecutive steps would move the same row, the path is shortened to one step at the same cost:
    otherwise the row's amount at the point between would limit the flow.
    """
    amount, k = rest[target], target
    while previous[k] != _NONE:
        j = previous[k]
        piece = carrier[j, k]
        while piece != _NONE and previous[j] != _NONE:
            before = carrier[previous[j], j]
            if before == _NONE or pieces[before, _ROW] != pieces[piece, _ROW]:
                break
            j = previous[j]
            piece = carrier[j, k]
        previous[k] = j
        nothing = _ROUNDING * (abs(step[j, k]) + abs(prices[j]) + abs(prices[k]))
        if piece == _NONE or not (surely or step[j, k] + prices[j] - prices[k] <= nothing):
            return 0
        amount = min(amount, pieces[piece, _AMOUNT])
        k = j
    return min(amount, max(0, -rest[k]))


@part
def _pass_on(  # type: ignore[no-untyped-def]
    cost, pieces, first, eldest, carrier, step, unused, n_unused, j, k, amount
):
    """Passes the amount of the cheapest piece from j to k; returns the number of free pieces."""
    m = len(step)
    piece = carrier[j, k]
    i = pieces[piece, _ROW]
    pieces[piece, _AMOUNT] -= amount
    if pieces[piece, _AMOUNT] == 0:
        _remove(pieces, first, eldest, piece)
        unused[n_unused] = piece
        n_unused += 1
        for other in range(m):
            if carrier[j, other] == piece:
                carrier[j, other], step[j, other] = _cheapest(cost, pieces, first, j, other)
    piece = eldest[i]
    while piece != _NONE and pieces[piece, _POINT] != k:
        piece = pieces[piece, _SIBLING]
    if piece != _NONE:
        pieces[piece, _AMOUNT] += amount
        return n_unused
    n_unused -= 1
    piece = unused[n_unused]
    _add(pieces, first, eldest, piece, i, k, amount)
    for other in range(m):
        if other != k and cost[i, other] - cost[i, k] < step[k, other] - _tie(cost, i, k, other):
            carrier[k, other], step[k, other] = piece, cost[i, other] - cost[i, k]
    return n_unused


@part
def _cheapest(cost, pieces, first, j, k):  # type: ignore[no-untyped-def]
    """The piece at j that passes to k at the least cost, of equal ones the largest, and that cost."""
    least = np.inf
    piece = first[j]
    while piece != _NONE:
        i = pieces[piece, _ROW]
        least = min(least, cost[i, k] - cost[i, j])
        piece = pieces[piece, _AFTER]
    best, value, most = _NONE, np.inf, 0
    piece = first[j]
    while piece != _NONE:
        i, amount = pieces[piece, _ROW], pieces[piece, _AMOUNT]
        more = cost[i, k] - cost[i, j]
        if amount > most and more <= least + _tie(cost, i, j, k):
            best, value, most = piece, more, amount
        piece = pieces[piece, _AFTER]
    return best, value


@part
def _tie(cost, i, j, k):  # type: ignore[no-untyped-def]
    """The difference in cost below which two ways from j to k count as equal."""
    return _ROUNDING * (abs(cost[i, j]) + abs(cost[i, k]))


@part(_nrt=True)
def grown_pieces(pieces, unused, n_unused):  # type: ignore[no-untyped-def]
    """Twice as many pieces, with the new ones on the stack."""
    size = len(pieces)
    grown, more = np.empty((2 * size, 6), np.int64), np.empty(2 * size, np.int64)
    for piece in range(size):
        for column in range(6):
            grown[piece, column] = pieces[piece, column]
    for place in range(n_unused):
        more[place] = unused[place]
    for place in range(size):
        more[n_unused + place] = size + place
    return grown, more, n_unused + size


@part
def _add(pieces, first, eldest, piece, i, j, amount):  # type: ignore[no-untyped-def]
    """Make `piece` hold the amount of row i at point j, at the head of both lists."""
    pieces[piece, _ROW], pieces[piece, _POINT], pieces[piece, _AMOUNT] = i, j, amount
    pieces[piece, _BEFORE], pieces[piece, _AFTER] = _NONE, first[j]
    if first[j] != _NONE:
        pieces[first[j], _BEFORE] = piece
    first[j] = piece
    pieces[piece, _SIBLING] = eldest[i]
    eldest[i] = piece


@part
def _remove(pieces, first, eldest, piece):  # type: ignore[no-untyped-def]
    """Take a piece out of the lists of its point and of its row."""
    before, after = pieces[piece, _BEFORE], pieces[piece, _AFTER]
    if before == _NONE:
        first[pieces[piece, _POINT]] = after
    else:
        pieces[before, _AFTER] = after
    if after != _NONE:
        pieces[after, _BEFORE] = before
    i = pieces[piece, _ROW]
    if eldest[i] == piece:
        eldest[i] = pieces[piece, _SIBLING]
        return
    older = eldest[i]
    while pieces[older, _SIBLING] != piece:
        older = pieces[older, _SIBLING]
    pieces[older, _SIBLING] = pieces[piece, _SIBLING]
