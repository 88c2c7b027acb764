"""Compiled search for the representative that a row costs least at, over all cells at once.

Distances are float32, and what they may be off is taken off every gap: a row whose gap is positive has its
representative in exact arithmetic, too. All other rows get −1.
"""

import numpy as np

from fwc_llm.coreset.compiled import column_cost, kernel, part
from fwc_llm.coreset.descent.assignment import FAR
from fwc_llm.coreset.tile import ROWS, WIDTH, l1_pair, l1_tile, sqeuclidean_tile

_ROUNDING = 1e-12  # of sums of a few numbers in float64, relative to the largest: far more than it is
_DOWN = 0.999999  # so that float32 does not round a gap up


def make_room(p: int) -> tuple[np.ndarray, ...]:
    """What `scan_rows` needs to work."""
    # Arrays of their own: of parts of one, LLVM does not see that they do not overlap.
    block, out = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
    near, far, place = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32), np.empty(ROWS, np.int32)
    least, most, others, within = (np.empty(ROWS) for _ in range(4))
    return block, out, near, far, place, least, most, others, within, np.empty(ROWS, np.int64)


@part(forceinline=True)
def _error(value, squared, relative, absolute):  # type: ignore[no-untyped-def]
    """How far a float32 cost may be off."""
    inputs = absolute * (2 * np.sqrt(value) + absolute) if squared else absolute
    return relative * value + inputs


@kernel
def scan_rows(  # type: ignore[no-untyped-def]
    x, which, own, offset, tiles, tile_label, tile_start, n_numeric, squared, errors, wanted, room, label, gap
):
    """Finds the representative of the rows `which` of x (n, p) that costs least, where that is sure.

    Representatives are tiled by cell. A row whose `own` cell (n,) is h pays `offset[h, g]` besides in cell g.
    Writes `label` (n,) and `gap` (n,), by which every other representative costs more: −1 and 0 where the
    gap to another cell is not larger than `wanted`, or that within the cell not positive. `errors` are what
    float32 may get wrong (relative, and in the inputs); with a relative error of 0 distances are exact, and
    the first of equally near ones is the one.
    """
    block, out, near, far, place, least, most, others, within, first = room
    relative, absolute = errors
    for start in range(0, len(which), ROWS):
        count = min(ROWS, len(which) - start)
        for lane in range(ROWS):
            i = which[start + (lane if lane < count else 0)]  # loops of known length are faster
            for k in range(x.shape[1]):
                block[k, lane] = x[i, k]
        for lane in range(ROWS):
            least[lane], most[lane], others[lane], within[lane], first[lane] = np.inf, np.inf, np.inf, 0, -1
        for g in range(len(tile_start) - 1):
            if tile_start[g] == tile_start[g + 1]:
                continue
            for lane in range(ROWS):
                near[lane], far[lane], place[lane] = FAR, FAR, -1
            for t in range(tile_start[g], tile_start[g + 1]):
                if squared:
                    sqeuclidean_tile(block, tiles, t, n_numeric, out)
                else:
                    l1_tile(block, tiles, t, n_numeric, out)
                for w in range(WIDTH):
                    j = tile_label[t, w]
                    if j < 0:
                        break
                    for lane in range(ROWS):
                        value = out[w, lane]
                        far[lane] = min(far[lane], max(value, near[lane]))
                        place[lane] = j if value < near[lane] else place[lane]
                        near[lane] = min(value, near[lane])
            for lane in range(count):
                one, two = np.float64(near[lane]), np.float64(far[lane])
                more = offset[own[which[start + lane]], g]
                error = _error(one, squared, relative, absolute)
                apart = two - one - error - _error(two, squared, relative, absolute)
                error += _ROUNDING * (one + abs(more))
                low, high = one + more - error, one + more + error
                if relative == 0:
                    apart = max(two - one, 1e-300)
                if low < least[lane]:
                    others[lane] = min(others[lane], least[lane])
                    least[lane], most[lane], within[lane], first[lane] = low, high, apart, place[lane]
                else:
                    others[lane] = min(others[lane], low)
        for lane in range(count):
            i, apart = which[start + lane], others[lane] - most[lane]
            sure = apart > wanted and within[lane] > 0
            label[i] = first[lane] if sure else -1
            gap[i] = _DOWN * min(apart, within[lane]) if sure else 0


@kernel
def carry_rows(x, label, gap, before, after, lost, n_numeric, errors, wanted, new_label, new_gap):  # type: ignore[no-untyped-def]
    """Takes over the labels (n,) of rows x (n, p) where they are still sure, with what is left of the gaps.

    The points moved from `before` to `after` (m, p), by L1. For a row of label j, others may have come
    nearer by `lost[j]`. The other rows keep what `new_label` and `new_gap` (n,) have; returns how many.
    """
    relative, absolute = errors
    size = 0
    for i in range(len(x)):
        j = label[i]
        if j >= 0:
            was = np.float64(l1_pair(x, i, before, np.intp(j), n_numeric))
            now = np.float64(l1_pair(x, i, after, np.intp(j), n_numeric))
            error = (relative + _ROUNDING) * (was + now) + 2 * absolute
            left = np.float64(gap[i]) + was - now - lost[j] - error
            if left > wanted:
                new_label[i], new_gap[i] = j, _DOWN * left
                continue
        new_label[i], new_gap[i] = -1, 0
        size += 1
    return size


@kernel
def cost_carried(values, label, points, n_numeric, squared, cost):  # type: ignore[no-untyped-def]
    """The feature `cost` (b,) of the rows `values` (b, p) at the points of their labels; 0 for label −1."""
    for i in range(len(values)):
        j, total = label[i], 0.0
        if j >= 0:
            for k in range(n_numeric):
                total += column_cost(values[i, k] - points[j, k], True, squared)
            for k in range(n_numeric, values.shape[1]):
                total += column_cost(values[i, k] - points[j, k], False, squared)
        cost[i] = total
