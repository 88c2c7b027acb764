"""Pivots of the dual simplex method in compiled code: the steps of `dual_simplex`, on the same arrays.

What differs is only the bookkeeping. The inverse of the basis is updated where a pivot changes a column, not
made anew, and a heap orders the changes along an edge. Sums are then rounded in another order.
"""

import numpy as np

from fwc_llm.coreset.compiling.kernel import kernel, part
from fwc_llm.coreset.transport.simplex.event_kernels import sink, turn
from fwc_llm.coreset.transport.simplex.matrix_kernels import follow, invert, times

HELD = -2  # owner of an artificial tie
VERTEX = -1  # owner of a tie of the parity set
_INEXACT = 1e-9  # residual of the equations, relative to the masses, that shows an inverse worn out

OPTIMAL, RISES_FOR_EVER, MANY_PIVOTS, SINGULAR = 0, 1, 2, 3


@kernel  # type: ignore[misc]
def pivot(  # type: ignore[no-untyped-def]
    cell, excess, start, key, own, mass, prices, owner, pair, target, epsilon, total,
    top_level, top_lean, tie_level, tie_lean, load, most,
):  # fmt: skip
    """Pivots until every tie has a feasible mass, at most `most` times; returns the reason and the number.

    The arrays are those of `Pairs` and `DualSimplex`, changed in place. A vertex of the parity set is its
    level and how far (Y,) it leans from the target: `top_level[0]` and `top_lean` are the key vertex,
    `tie_level[slot]` and `tie_lean[slot]` the ones that are tied. `load` (G,) gets what the ties carry.
    """
    cells, n, outcomes = len(prices), len(key), len(target)
    basis, fresh = np.zeros((cells, cells)), np.zeros((cells, cells))
    inverse, room = np.zeros((cells, cells)), np.zeros((cells, 2 * cells))
    size, scale, parent = np.zeros(cells), np.zeros(cells), np.zeros(cells, np.int64)
    first_of = np.zeros(cells // outcomes, np.int64)
    lack, rest, edge, best_edge = np.zeros(cells), np.zeros(cells), np.zeros(cells), np.zeros(cells)
    tied = np.zeros(n, np.bool_)
    time, goal = np.zeros(n + 1), np.zeros(n + 1, np.int64)
    heap = np.zeros(n + 1, np.int64)
    touched = np.zeros(n, np.int64)
    lean, other_lean, at = np.zeros(outcomes), np.zeros(outcomes), np.zeros(cells)
    order = np.zeros(outcomes, np.int64)
    updates = np.int64(-1)  # no inverse yet
    for pivots in range(most):
        _columns(
            fresh, size, scale, parent, first_of, owner, pair, cell, key, target, epsilon,
            top_level[0], top_lean, tie_level, tie_lean,
        )  # fmt: skip
        updates = follow(basis, fresh, inverse, room, rest, updates)
        if updates < 0:
            return SINGULAR, pivots
        while True:
            _lack(lack, mass, key, total, target, epsilon, top_level[0], top_lean)
            times(inverse, lack, load)
            wrong = 0.0
            for g in range(cells):
                value = lack[g]
                for k in range(cells):
                    value -= basis[g, k] * load[k]
                rest[g] = value
                wrong = max(wrong, abs(value))
            if updates > 0 and wrong > _INEXACT * total:
                updates = invert(basis, inverse, room)
                if updates < 0:
                    return SINGULAR, pivots
                continue
            for g in range(cells):
                value = 0.0
                for k in range(cells):
                    value += inverse[g, k] * rest[k]
                load[g] += value
            slot, empties_key, slope = _leaving(
                owner, load, inverse, size, scale, parent, mass, total, edge, best_edge
            )
            if slot >= 0 or updates == 0:
                break
            updates = invert(basis, inverse, room)  # is it the optimum without the rounding of updates?
            if updates < 0:
                return SINGULAR, pivots
        if slot < 0:
            return OPTIMAL, pivots
        wide, high = 0.0, 0.0
        for g in range(cells):
            for k in range(cells):
                wide += basis[g, k] * basis[g, k]
                high += inverse[g, k] * inverse[g, k]
        if empties_key:
            one = owner[slot]
            if one == VERTEX:
                top_level[0] = tie_level[slot]
                for y in range(outcomes):
                    top_lean[y] = tie_lean[slot, y]
            else:
                key[one] = cell[pair[slot]]
                own[one] = excess[pair[slot]]
        owner[slot] = HELD
        steep = 0.0
        for g in range(cells):
            steep = max(steep, abs(best_edge[g]))
        least = max(1e-13, 1e-16 * np.sqrt(wide) * np.sqrt(high)) * steep
        peak = -np.inf
        for g in range(cells):
            edge[g] = best_edge[g] if abs(best_edge[g]) > least else 0.0
            peak = max(peak, edge[g])
        vertex_tied = False
        for g in range(cells):
            if owner[g] >= 0:
                tied[owner[g]] = True
            vertex_tied |= owner[g] == VERTEX
        # Events: the first change of each row, and of the vertex (number n).
        count = 0
        for i in range(n):
            touched[i] = -1
            pace = edge[key[i]]
            if pace >= peak - least:
                continue
            soonest, aim = np.inf, -1
            for p in range(start[i], start[i + 1]):
                rise = edge[cell[p]] - pace
                if rise > least:
                    when = max(excess[p] - own[i], 0.0) / rise
                    if when < soonest:
                        soonest, aim = when, p
            if aim >= 0:
                time[i], goal[i] = soonest, aim
                heap[count] = i
                count += 1
        level = top_level[0]
        for y in range(outcomes):
            lean[y] = top_lean[y]
        when, new_level = turn(prices, edge, level, lean, other_lean, target, epsilon, least, at, order)
        if new_level >= 0:
            time[n] = when
            heap[count] = n
            count += 1
        for k in range(count // 2 - 1, -1, -1):
            sink(heap, time, k, count)
        left = slope * (1 - 1e-12)
        ended = False
        while count > 0:
            i = heap[0]
            now = time[i]
            if i == n:
                drop = np.inf
                if not vertex_tied:
                    drop = 0.0
                    for y in range(outcomes):
                        g, h = level * outcomes + y, new_level * outcomes + y
                        if level == new_level:
                            drop += edge[g] * epsilon * (lean[y] - other_lean[y])
                        else:
                            drop += edge[g] * (target[y] + epsilon * lean[y])
                            drop -= edge[h] * (target[y] + epsilon * other_lean[y])
                    drop *= total
            elif tied[i]:
                drop = np.inf
            else:
                before = key[i] if touched[i] < 0 else cell[touched[i]]
                drop = mass[i] * (edge[cell[goal[i]]] - edge[before])
            left -= drop
            if left <= 0:
                ended = True
                break
            again = False
            if i == n:
                level = new_level
                for y in range(outcomes):
                    lean[y] = other_lean[y]
                when, new_level = turn(
                    prices, edge, level, lean, other_lean, target, epsilon, least, at, order
                )
                if new_level >= 0:
                    again = True
                    time[n] = max(when, now)
            else:
                touched[i] = goal[i]
                here, pace = excess[goal[i]], edge[cell[goal[i]]]
                if pace < peak - least:
                    soonest, aim = np.inf, -1
                    for p in range(start[i], start[i + 1]):
                        rise = edge[cell[p]] - pace
                        if rise > least:
                            when = (excess[p] - here) / rise
                            if when < soonest:
                                soonest, aim = when, p
                    if aim >= 0:
                        again = True
                        time[i], goal[i] = max(soonest, now), aim
            if not again:
                count -= 1
                heap[0] = heap[count]
            sink(heap, time, np.int64(0), count)
        for g in range(cells):
            if owner[g] >= 0:
                tied[owner[g]] = False
        if not ended:
            return RISES_FOR_EVER, pivots
        i = heap[0]
        if time[i] > 0:
            for g in range(cells):
                prices[g] += time[i] * edge[g]
                edge[g] *= time[i]
            for p in range(len(cell)):
                excess[p] -= edge[cell[p]]
            for k in range(n):
                own[k] -= edge[key[k]]
        for k in range(n):
            if touched[k] >= 0:
                key[k] = cell[touched[k]]
                own[k] = excess[touched[k]]
        top_level[0] = level
        for y in range(outcomes):
            top_lean[y] = lean[y]
        if i == n:
            owner[slot] = VERTEX
            tie_level[slot] = new_level
            for y in range(outcomes):
                tie_lean[slot, y] = other_lean[y]
        else:
            owner[slot], pair[slot] = i, goal[i]
    return MANY_PIVOTS, most


@part
def _columns(  # type: ignore[no-untyped-def]
    basis, size, scale, parent, first_of, owner, pair, cell, key, target, epsilon,
    level, lean, tie_level, tie_lean,
):  # fmt: skip
    """Write the ties as columns, see `DualSimplex._equations`.

    `parent` is the slot of the vertex to which a vertex is tied, or VERTEX for the key; HELD for other ties.
    """
    cells, outcomes = len(owner), len(target)
    for g in range(cells):
        for k in range(cells):
            basis[g, k] = 0.0
    for d in range(len(first_of)):
        first_of[d] = HELD
    first_of[level] = VERTEX
    for k in range(cells):
        size[k], scale[k], parent[k] = 1.0, 1.0, HELD
        if owner[k] == HELD:
            basis[k, k] = 1.0
        elif owner[k] >= 0:
            basis[cell[pair[k]], k] = 1.0
            basis[key[owner[k]], k] -= 1.0
        else:
            here = tie_level[k]
            above = first_of[here]
            if above == HELD:
                first_of[here] = k
                above = VERTEX
            parent[k] = above
            other = level if above == VERTEX else tie_level[above]
            length = 0.0
            for y in range(outcomes):
                from_lean = lean[y] if above == VERTEX else tie_lean[above, y]
                if other == here:
                    moved = epsilon * (from_lean - tie_lean[k, y])
                    basis[here * outcomes + y, k] = moved
                    length += moved * moved
                else:
                    given, taken = target[y] + epsilon * from_lean, target[y] + epsilon * tie_lean[k, y]
                    basis[other * outcomes + y, k] = given
                    basis[here * outcomes + y, k] = -taken
                    length += given * given + taken * taken
            length = np.sqrt(length)
            size[k], scale[k] = length, 1.0 / length
            for y in range(outcomes):
                basis[here * outcomes + y, k] /= length
                if other != here:
                    basis[other * outcomes + y, k] /= length
            if above >= 0:
                size[above] = min(size[above], length)


@part
def _lack(lack, mass, key, total, target, epsilon, level, lean):  # type: ignore[no-untyped-def]
    """The fair masses of the key vertex less what the cells' rows have."""
    for g in range(len(lack)):
        lack[g] = 0.0
    for i in range(len(key)):
        lack[key[i]] -= mass[i]
    for y in range(len(target)):
        lack[level * len(target) + y] += total * (target[y] + epsilon * lean[y])


@part
def _leaving(  # type: ignore[no-untyped-def]
    owner, load, inverse, size, scale, parent, mass, total, edge, best_edge
):
    """The tie along whose edge D rises fastest, see `DualSimplex._leaving`.

    Returns its slot or -1, whether its owner's key is empty, and the slope; the edge is `best_edge`.
    """
    cells = len(owner)
    slot, empties_key, slope, steepest = -1, False, 0.0, 0.0
    for k in range(cells):
        if owner[k] == HELD:
            sign = 1.0 if load[k] > 0 else -1.0
            amount = load[k]
            for g in range(cells):
                edge[g] = inverse[k, g]
        else:
            sign = -1.0
            amount = scale[k] * load[k]
            for g in range(cells):
                edge[g] = scale[k] * inverse[k, g]
            if owner[k] == VERTEX:
                for child in range(cells):
                    if parent[child] == k:
                        amount -= scale[child] * load[child]
                        for g in range(cells):
                            edge[g] -= scale[child] * inverse[child, g]
        length = 0.0
        for g in range(cells):
            length += edge[g] * edge[g]
        length = np.sqrt(length)
        amount *= sign
        if amount > total * max(1e-13 / size[k], 4e-15 * length) and amount / length > steepest:
            slot, empties_key, slope, steepest = k, False, amount, amount / length
            for g in range(cells):
                best_edge[g] = sign * edge[g]
    for k in range(cells):
        one = owner[k]
        first = one != HELD
        for j in range(k):
            first &= owner[j] != one
        if not first:
            continue
        amount, least = -(total if one == VERTEX else mass[one]), np.inf
        for g in range(cells):
            edge[g] = 0.0
        for j in range(k, cells):
            if owner[j] == one and (one >= 0 or parent[j] == VERTEX):
                amount += scale[j] * load[j]
                least = min(least, 1.0 / scale[j])
                for g in range(cells):
                    edge[g] += scale[j] * inverse[j, g]
        length = 0.0
        for g in range(cells):
            length += edge[g] * edge[g]
        length = np.sqrt(length)
        if amount > total * max(1e-13 / least, 4e-15 * length) and amount / length > steepest:
            slot, empties_key, slope, steepest = k, True, amount, amount / length
            for g in range(cells):
                best_edge[g] = edge[g]
    return slot, empties_key, slope
