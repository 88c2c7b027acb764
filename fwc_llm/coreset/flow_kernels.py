"""Successive shortest paths between the points of a coreset: the kernel of `fwc_llm.coreset.wasserstein`.

The flow lies in *pieces*: a piece is an amount of one row at one point. The cheapest way to pass something
from point j to point k is the piece at j with the least c_ik − c_ij; it is kept for every pair. A point's
pieces form a doubly linked list, those of a row a short chain of siblings.
"""

import numpy as np
from numba import njit

_NONE = -1
_CRUMB = 1e-12  # of a row: what rounding leaves of an amount that is used up


@njit(cache=True)
def _cheapest(cost, row, after, first, j, k):  # type: ignore[no-untyped-def]
    """The piece at j that passes to k at the least cost, and that cost."""
    best, value = _NONE, np.inf
    piece = first[j]
    while piece != _NONE:
        step = cost[row[piece], k] - cost[row[piece], j]
        if step < value:
            best, value = piece, step
        piece = after[piece]
    return best, value


@njit(cache=True)
def _shortest_path(step, price, excess, deficit, distance, previous, done):  # type: ignore[no-untyped-def]
    """Dijkstra on reduced costs from all points with excess to the nearest one with a deficit; returns it.

    Raises the prices, so that reduced costs stay non-negative and are 0 along the path.
    """
    m = len(price)
    for j in range(m):
        done[j] = False
        previous[j] = _NONE
        distance[j] = max(0.0, -price[j]) if excess[j] > 0.0 else np.inf
    target = _NONE
    while target == _NONE:
        j, least = _NONE, np.inf
        for k in range(m):
            if not done[k] and distance[k] < least:
                j, least = k, distance[k]
        if j == _NONE:
            return _NONE
        done[j] = True
        if deficit[j] > 0.0:
            target = j
            break
        for k in range(m):
            if not done[k]:
                length = least + max(0.0, step[j, k] + price[j] - price[k])
                if length < distance[k]:
                    distance[k], previous[k] = length, j
    reach = distance[target]
    for j in range(m):
        price[j] += distance[j] if done[j] else reach
    return target


@njit(cache=True)
def balance(cost, capacity):  # type: ignore[no-untyped-def]
    """Least cost of n unit rows at m points of these capacities (summing to n), and the points' prices (m,).

    With prices π every piece of row i lies where c_ij − π_j is least. A row has at most one piece at a point.
    """
    n, m = cost.shape
    size = n + m * m  # a basic solution has n + m − 1 pieces; ties may leave a few more
    row, amount = np.empty(size, np.int64), np.zeros(size)
    before, after, sibling = np.full(size, _NONE), np.full(size, _NONE), np.full(size, _NONE)
    point = np.full(size, _NONE)
    first, eldest = np.full(m, _NONE), np.full(n, _NONE)
    unused = np.arange(size - 1, -1, -1)  # a stack of free pieces
    n_unused = size
    load = np.zeros(m)
    for i in range(n):
        n_unused -= 1
        nearest = np.argmin(cost[i])
        _add(row, amount, point, before, after, sibling, first, eldest, unused[n_unused], i, nearest, 1.0)
        load[nearest] += 1.0
    excess, deficit = np.empty(m), np.empty(m)
    for j in range(m):
        excess[j], deficit[j] = _rest(load[j], capacity[j]), _rest(capacity[j], load[j])
    carrier, step = np.full((m, m), _NONE), np.full((m, m), np.inf)
    for j in range(m):
        for k in range(m):
            if j != k:
                carrier[j, k], step[j, k] = _cheapest(cost, row, after, first, j, k)
    price, distance = np.zeros(m), np.empty(m)
    previous, done = np.empty(m, np.int64), np.empty(m, np.bool_)
    while True:
        target = _shortest_path(step, price, excess, deficit, distance, previous, done)
        if target == _NONE:
            break
        moved, k, length = deficit[target], target, 0
        while previous[k] != _NONE:
            moved = min(moved, amount[carrier[previous[k], k]])
            k = previous[k]
            length += 1
        moved = min(moved, excess[k])
        excess[k] = _rest(excess[k], moved)
        deficit[target] = _rest(deficit[target], moved)
        if n_unused < length:
            grown = 2 * size
            row, point, sibling = _longer(row, grown), _longer(point, grown), _longer(sibling, grown)
            before, after, unused = _longer(before, grown), _longer(after, grown), _longer(unused, grown)
            more = np.zeros(grown)
            more[:size] = amount
            amount = more
            for piece in range(size, grown):
                unused[n_unused] = piece
                n_unused += 1
            size = grown
        k = target
        while previous[k] != _NONE:
            j = previous[k]
            piece = carrier[j, k]
            i = row[piece]
            amount[piece] = _rest(amount[piece], moved)
            if amount[piece] == 0.0:
                _remove(row, point, before, after, sibling, first, eldest, piece)
                unused[n_unused] = piece
                n_unused += 1
                for other in range(m):
                    if other != j and carrier[j, other] == piece:
                        carrier[j, other], step[j, other] = _cheapest(cost, row, after, first, j, other)
            piece = eldest[i]
            while piece != _NONE and point[piece] != k:
                piece = sibling[piece]
            if piece != _NONE:
                amount[piece] += moved
            else:
                n_unused -= 1
                piece = unused[n_unused]
                _add(row, amount, point, before, after, sibling, first, eldest, piece, i, k, moved)
                for other in range(m):
                    if other != k and cost[i, other] - cost[i, k] < step[k, other]:
                        carrier[k, other], step[k, other] = piece, cost[i, other] - cost[i, k]
            k = j
    total = 0.0
    for j in range(m):
        piece = first[j]
        while piece != _NONE:
            total += amount[piece] * cost[row[piece], j]
            piece = after[piece]
    return total, price


@njit(cache=True)
def _rest(amount, moved):  # type: ignore[no-untyped-def]
    """amount − moved, where less than a crumb is nothing."""
    rest = amount - moved
    return rest if rest > _CRUMB else 0.0


@njit(cache=True)
def _longer(values, size):  # type: ignore[no-untyped-def]
    """The same whole numbers in an array of `size`, the rest none."""
    longer = np.full(size, _NONE)
    longer[: len(values)] = values
    return longer


@njit(cache=True)
def _add(row, amount, point, before, after, sibling, first, eldest, piece, i, j, moved):  # type: ignore[no-untyped-def]
    """Make `piece` hold the amount `moved` of row i at point j, at the head of both lists."""
    row[piece], point[piece], amount[piece] = i, j, moved
    before[piece], after[piece] = _NONE, first[j]
    if first[j] != _NONE:
        before[first[j]] = piece
    first[j] = piece
    sibling[piece] = eldest[i]
    eldest[i] = piece


@njit(cache=True)
def _remove(row, point, before, after, sibling, first, eldest, piece):  # type: ignore[no-untyped-def]
    """Take a piece out of the lists of its point and of its row."""
    if before[piece] == _NONE:
        first[point[piece]] = after[piece]
    else:
        after[before[piece]] = after[piece]
    if after[piece] != _NONE:
        before[after[piece]] = before[piece]
    i = row[piece]
    if eldest[i] == piece:
        eldest[i] = sibling[piece]
        return
    older = eldest[i]
    while sibling[older] != piece:
        older = sibling[older]
    sibling[older] = sibling[piece]
