"""Compiled kernels of k-means (numba): imported only for tables large enough to be worth the import.

Sums are kept for each chunk of rows apart, so that results do not depend on the number of threads.
"""

import numpy as np

from fwc_llm.coreset.compiled import kernel
from fwc_llm.coreset.tile import ROWS, WIDTH, sqeuclidean_pair, sqeuclidean_tile

_UP, _DOWN = np.float32(1.0 + 2.0**-22), np.float32(1.0 - 2.0**-22)  # what a sum may lose


@kernel
def come_closer(blocks, tiles, closest, reached, sums, chunk, out, low, high):  # type: ignore[no-untyped-def]
    """Writes `reached` (w, n'), the lesser of `closest` (n',) and the squared distances to w points.

    The points are in `tiles` (T, q, WIDTH), and the rows low … high − 1 in `blocks` (n' / ROWS, q, ROWS).
    Adds what is reached to `sums` (chunks, w, ROWS).
    """
    c, q = low // chunk, blocks.shape[1]
    for b in range(low // ROWS, high // ROWS):
        for t in range(len(tiles)):
            sqeuclidean_tile(blocks[b], tiles, t, q, out)
            for w in range(min(WIDTH, len(reached) - t * WIDTH)):
                place = t * WIDTH + w
                for lane in range(ROWS):
                    i = b * ROWS + lane
                    value = out[w, lane] if out[w, lane] < closest[i] else closest[i]
                    reached[place, i] = value
                    sums[c, place, lane] += value


@kernel
def assign(  # type: ignore[no-untyped-def]
    x, centres, tiles, steps, longest, second_longest, labels, upper, lower, sums, counts, chunk, slack,
    queue, block, out, best, next_best, place, low, high,
):  # fmt: skip
    """Finds the nearest of the `centres` (k, q) for rows low … high − 1 of `x` (n, q); how many changed it.

    `steps` (k,) is how far each centre has come since the last call, and the two longest of them bound how
    far others have (Hamerly 2010): `upper` (n,) is the distance to the row's own centre at most, and `lower`
    that to any other at least. A row whose bounds do not meet is left out. Rows that change are added to and
    taken from `sums` (chunks, k, q) and `counts` (chunks, k). `slack` is how far distances may be off,
    relative. `labels` (n,) are −1 at first. The last six before the range are room.
    """
    c, q, k = low // chunk, x.shape[1], len(centres)
    changed, waiting = 0, 0
    for i in range(low, high):
        own = labels[i]
        settled = False
        if own >= 0:
            most = second_longest if steps[own] == longest else longest
            lower[i] = lower[i] * _DOWN - most * _UP
            upper[i] = (upper[i] + steps[own]) * _UP
            settled = upper[i] < lower[i]
            if not settled:
                upper[i] = np.sqrt(sqeuclidean_pair(x, i, centres, own, q)) * slack
                settled = upper[i] < lower[i]
        if not settled:
            queue[waiting] = i
            waiting += 1
        if waiting < ROWS and (i < high - 1 or waiting == 0):
            continue
        for lane in range(ROWS):
            source = queue[min(lane, waiting - 1)]
            for column in range(q):
                block[column, lane] = x[source, column]
            best[lane] = np.float32(np.inf)
            next_best[lane] = np.float32(np.inf)
            place[lane] = 0
        for t in range(len(tiles)):
            sqeuclidean_tile(block, tiles, t, q, out)
            for w in range(min(WIDTH, k - t * WIDTH)):
                j = np.int32(t * WIDTH + w)
                for lane in range(ROWS):
                    value = out[w, lane]
                    larger = value if value > best[lane] else best[lane]
                    next_best[lane] = larger if larger < next_best[lane] else next_best[lane]
                    place[lane] = j if value < best[lane] else place[lane]
                    best[lane] = value if value < best[lane] else best[lane]
        for lane in range(waiting):
            source = queue[lane]
            old, new = labels[source], place[lane]
            upper[source] = np.sqrt(best[lane]) * slack
            lower[source] = np.sqrt(next_best[lane]) / slack
            if old == new:
                continue
            changed += 1
            labels[source] = new
            counts[c, new] += 1
            for column in range(q):
                sums[c, new, column] += x[source, column]
            if old >= 0:
                counts[c, old] -= 1
                for column in range(q):
                    sums[c, old, column] -= x[source, column]
        waiting = 0
    return changed


@kernel
def own_distances(x, centres, labels, distances, low, high):  # type: ignore[no-untyped-def]
    """Writes the squared `distances` (n,) of rows low … high − 1 to their own centres."""
    for i in range(low, high):
        distances[i] = sqeuclidean_pair(x, i, centres, labels[i], x.shape[1])
