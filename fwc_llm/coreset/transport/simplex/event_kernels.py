"""Changes along an edge, in compiled code: turns of the parity set's vertex, and a heap of all changes."""

import numpy as np

from fwc_llm.coreset.compiling.kernel import part


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
    prices, edge, level, lean, other_lean, target, epsilon, least, at, order
):
    """When the key vertex is no longer the cheapest, and the level of the one that is then.

    See `ParitySet.first_break`. The new vertex leans `other_lean`; its level is -1 if there is none.
    """
    cells, outcomes = len(prices), len(target)
    size, steep = 0.0, 0.0
    for g in range(cells):
        size, steep = max(size, abs(prices[g])), max(steep, abs(edge[g]))
    time, found = np.inf, -1
    trial = np.empty(outcomes)
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
