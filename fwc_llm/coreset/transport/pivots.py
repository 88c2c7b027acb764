"""The pivots of the dual simplex method, see `dual_simplex`, in compiled code.

A heap orders the changes along an edge.
"""

import numpy as np

from fwc_llm.coreset.compiled import kernel, part

HELD = -2  # owner of an artificial tie
VERTEX = -1  # owner of a tie of the parity set

OPTIMAL, RISES_FOR_EVER, MANY_PIVOTS, SINGULAR = 0, 1, 2, 3


@kernel
def lay_out(  # type: ignore[no-untyped-def]
    cost, prices, width, anchors, noise, random, cell, excess, start, key, own
):
    """Write the cells to which each row may go as pairs, row by row; returns how many there are.

    The arguments are those of `dual_simplex`. Row i has the pairs `start[i]` to `start[i + 1]`, each with its
    `cell` and its `excess`, cost less price, over the cheapest, the row's `key`. With an empty `cell` pairs
    are only counted. Random parts of `noise` break ties.
    """
    cells, n = cost.shape
    at = 0
    for i in range(n):
        least, best = cost[0, i] - prices[0], 0
        for g in range(1, cells):
            value = cost[g, i] - prices[g]
            if value < least:
                least, best = value, g
        start[i], key[i], own[i] = at, best, 0.0
        reach = width if i < n - anchors else np.inf
        for g in range(cells):
            more = cost[g, i] - prices[g] - least
            if more <= reach and more < np.inf:
                if len(cell):
                    cell[at] = g
                    excess[at] = more if g == best else more + noise * random[at % len(random)]
                at += 1
    start[n] = at
    return at


@kernel  # type: ignore[misc]
def pivot(  # type: ignore[no-untyped-def]
    cell, excess, start, key, own, mass, prices, owner, pair, target, epsilon, total,
    top_level, top_lean, tie_level, tie_lean, most, square, room, of_cells, whole, of_rows, places,
):  # fmt: skip
    """Pivots until every tie has a feasible mass, at most `most` times; returns the reason and the number.

    The first arrays are those of `lay_out`, changed in place. `owner` (G,) is the row tied in each slot,
    VERTEX or HELD, and `pair` the second pair of a row's tie. A vertex of the parity set is its level and how
    far (Y,) it leans from the target: `top_level[0]` and `top_lean` are the key vertex, `tie_level[slot]` and
    `tie_lean[slot]` the ones that are tied. `square` (2, G, G) gets the ties as columns (the basis), and its
    inverse; `of_cells` (11, G) gets, in its last row, what the ties carry. The rest is room, as numba takes
    long to compile what makes arrays: `room` (G, 2 G), `whole` (3, G), `of_rows` (1, N + 1) and `places`
    (4, N + 1), all zeros.
    """
    cells, n, outcomes = len(prices), len(key), len(target)
    basis, inverse = square[0], square[1]
    size, scale, lack, rest, load = of_cells[0], of_cells[1], of_cells[2], of_cells[3], of_cells[10]
    edge, best_edge, at, time = of_cells[4], of_cells[5], of_cells[6], of_rows[0]
    parent, first_of, order = whole[0], whole[1], whole[2]
    goal, heap, touched, tied = places[0], places[1], places[2], places[3]
    lean, other_lean, trial = of_cells[7], of_cells[8], of_cells[9]
    for pivots in range(most):
        _columns(
            basis, size, scale, parent, first_of, owner, pair, cell, key, target, epsilon,
            top_level[0], top_lean, tie_level, tie_lean,
        )  # fmt: skip
        if not invert(basis, inverse, room):
            return SINGULAR, pivots
        _lack(lack, mass, key, total, target, epsilon, top_level[0], top_lean)
        times(inverse, lack, load)
        for g in range(cells):  # once refined
            rest[g] = lack[g]
            for k in range(cells):
                rest[g] -= basis[g, k] * load[k]
        for g in range(cells):
            value = 0.0
            for k in range(cells):
                value += inverse[g, k] * rest[k]
            load[g] += value
        slot, empties_key, slope = _leaving(
            owner, load, inverse, size, scale, parent, mass, total, edge, best_edge
        )
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
                tied[owner[g]] = 1
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
        when, new_level = turn(
            prices, edge, level, lean, other_lean, target, epsilon, least, at, order, trial
        )
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
                    prices, edge, level, lean, other_lean, target, epsilon, least, at, order, trial
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
                tied[owner[g]] = 0
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
    """Write the ties as columns: what a unit on each adds to the cells.

    Vertices of one level may differ by as little as ε. So each is tied to the level's first one (its parent),
    and only the first one to the key vertex: then no two columns are nearly parallel.

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
    """The tie along whose edge D rises fastest (steepest edge).

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


@part
def cheapest(prices, target, epsilon, lean, order):  # type: ignore[no-untyped-def]
    """The level of the cheapest vertex, whose `lean` it writes, see `ParitySet.best`."""
    outcomes = len(target)
    found, least = 0, np.inf
    for again in range(2):  # first the cheapest level, then its lean
        for d in range(len(prices) // outcomes):
            if again and d != found:
                continue
            for y in range(outcomes):
                place = y
                while place > 0 and prices[d * outcomes + order[place - 1]] > prices[d * outcomes + y]:
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = y
            upto, value = 0.0, 0.0
            for k in range(outcomes):
                y = order[k]
                share = target[y]
                upto += share
                tilt = 2 * min(max(0.5 - (upto - share), 0.0), share) - share
                value += (share + epsilon * tilt) * prices[d * outcomes + y]
                if again:
                    lean[y] = tilt
            if not again and value < least:
                found, least = d, value
    return found


@part
def turn(  # type: ignore[no-untyped-def]
    prices, edge, level, lean, other_lean, target, epsilon, least, at, order, trial
):
    """When the key vertex is no longer the cheapest, and the level of the one that is then.

    The prices move along `edge`, whose changes up to `least` count as rounding. The new vertex leans
    `other_lean`; its level is -1 if there is none. The method is Newton's on the concave function
    min_w ⟨prices + t · edge, w⟩, from infinity.
    """
    cells, outcomes = len(prices), len(target)
    size, steep = 0.0, 0.0
    for g in range(cells):
        size, steep = max(size, abs(prices[g])), max(steep, abs(edge[g]))
    time, found = np.inf, -1
    while True:
        end = time == np.inf
        for g in range(cells):
            at[g] = edge[g] if end else prices[g] + time * edge[g]
        other = cheapest(at, target, epsilon, trial, order)
        apart, length, lead, faster = 0.0, 0.0, 0.0, 0.0
        for y in range(outcomes):
            g, h = level * outcomes + y, other * outcomes + y
            if level == other:
                moved = epsilon * (lean[y] - trial[y])
                apart = max(apart, abs(lean[y] - trial[y]))
                length += abs(moved)
                lead -= prices[g] * moved
                faster += edge[g] * moved
            else:
                apart = 1.0
                given, taken = target[y] + epsilon * lean[y], target[y] + epsilon * trial[y]
                length += given + taken
                lead -= prices[g] * given - prices[h] * taken
                faster += edge[g] * given - edge[h] * taken
        if apart <= 1e-14:
            break
        gain = faster if end else time * faster - lead
        noise = 1e-14 * length * (steep if end else size + time * steep)
        earlier = max(lead, 0.0) / faster if faster > least * length else np.inf
        if gain <= noise or earlier >= time:
            break
        time, found = earlier, other
        for y in range(outcomes):
            other_lean[y] = trial[y]
    return time, found


@part
def sink(heap, time, k, count):  # type: ignore[no-untyped-def]
    """Put the entry at place k of the heap where it belongs; of equal times the lower number comes first."""
    one = heap[k]
    while True:
        child = 2 * k + 1
        if child >= count:
            break
        if child + 1 < count:
            a, b = heap[child], heap[child + 1]
            if time[b] < time[a] or (time[b] == time[a] and b < a):
                child += 1
        a = heap[child]
        if time[a] > time[one] or (time[a] == time[one] and a > one):
            break
        heap[k] = a
        k = child
    heap[k] = one


@part
def invert(basis, inverse, room):  # type: ignore[no-untyped-def]
    """Invert by elimination with row exchanges; returns whether the matrix is regular."""
    cells = len(basis)
    for g in range(cells):
        for k in range(cells):
            room[g, k] = basis[g, k]
            room[g, cells + k] = 1.0 if g == k else 0.0
    for k in range(cells):
        best = k
        for g in range(k + 1, cells):
            if abs(room[g, k]) > abs(room[best, k]):
                best = g
        if not abs(room[best, k]) > 0.0:
            return False
        if best != k:
            for h in range(2 * cells):
                room[k, h], room[best, h] = room[best, h], room[k, h]
        whole = room[k, k]
        for h in range(k, 2 * cells):
            room[k, h] /= whole
        for g in range(cells):
            factor = room[g, k]
            if g != k and factor != 0.0:
                for h in range(k, 2 * cells):
                    room[g, h] -= factor * room[k, h]
    for g in range(cells):
        for k in range(cells):
            inverse[g, k] = room[g, cells + k]
    return True


@part
def times(matrix, vector, out):  # type: ignore[no-untyped-def]
    """Write the product of a matrix and a vector to `out`."""
    for g in range(len(out)):
        value = 0.0
        for k in range(len(vector)):
            value += matrix[g, k] * vector[k]
        out[g] = value
