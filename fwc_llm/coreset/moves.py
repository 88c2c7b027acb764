"""Compiled moves of the representatives: medians from presorted columns, means, medoids from tables."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def column_median(order, column, label, count, place):  # type: ignore[no-untyped-def]
    """The medians of one column, for all representatives, in one walk along its sorted order.

    `order` (n,) sorts `column` (n,); `label` (n,) is the representative of each row, and one more that
    stands for none. `count` (m,) says how many rows each carries. `place` (m,) is moved, in place, into the
    interval between the lower and the upper median.
    """
    m = len(count)
    left = np.zeros(m + 1, np.int32)  # rows up to and including the lower median
    low, high = place.copy(), place.copy()
    waiting = 0
    for j in range(m):
        left[j] = (count[j] + 1) // 2
        waiting += count[j] > 0
    left[m] = len(order) + 2
    for r in range(len(order)):
        i = order[r]
        j = label[i]
        rest = left[j] - 1
        left[j] = rest
        if rest == 0:
            low[j] = high[j] = column[i]
            waiting -= count[j] % 2
        elif rest == -1 and count[j] % 2 == 0:
            high[j] = column[i]
            waiting -= 1
        if waiting == 0:
            break
    for j in range(m):
        place[j] = min(max(place[j], low[j]), high[j])


@njit(nogil=True, cache=True)
def sum_rows(values, n_numeric, label, low, high, m):  # type: ignore[no-untyped-def]
    """The sums (m, n_numeric) of the numeric columns of rows low … high − 1, by representative."""
    sums = np.zeros((m, n_numeric), np.float64)
    for i in range(low, high):
        for k in range(n_numeric):
            sums[label[i], k] += values[i, k]
    return sums


@njit(nogil=True, cache=True)
def medoid_costs(  # type: ignore[no-untyped-def]
    rows, weight, codes, values, offset, n_numeric, squared, candidates, out
):
    """Cost of moving the weighted `rows` to each of the `candidates`, given as codes (p, c); `out` (c,).

    `codes` (p, n) are places among the column's distinct values, `values[offset[k]:offset[k + 1]]`.
    """
    out[:] = 0.0
    longest = 0
    for k in range(len(codes)):
        longest = max(longest, offset[k + 1] - offset[k])
    table = np.empty(longest, np.float64)
    for k in range(len(codes)):
        size = offset[k + 1] - offset[k]
        value = values[offset[k] : offset[k + 1]]
        table[:size] = 0.0
        total, moment = 0.0, 0.0
        for q in range(len(rows)):
            c = codes[k, rows[q]]
            table[c] += weight[q]
            total += weight[q]
            moment += weight[q] * value[c]
        if k >= n_numeric:
            for c in range(size):
                table[c] = total - table[c]
        else:
            # About the weighted mean, so that neither sum cancels.
            centre = moment / total
            if squared:
                spread = 0.0
                for c in range(size):
                    spread += table[c] * (value[c] - centre) ** 2
                for c in range(size):
                    table[c] = total * (value[c] - centre) ** 2 + spread
            else:
                moment = 0.0
                for c in range(size):
                    moment += table[c] * (value[c] - centre)
                below, part = 0.0, 0.0
                for c in range(size):
                    v = value[c] - centre
                    below += table[c]
                    part += table[c] * v
                    table[c] = v * (2 * below - total) - (2 * part - moment)
        for c in range(candidates.shape[1]):
            out[c] += table[candidates[k, c]]
