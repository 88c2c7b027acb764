"""Compiled moves of the representatives: medians by bins, means, medoids from tables."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def put_in_bins(numbers, edges, bins, low, high):  # type: ignore[no-untyped-def]
    """Writes how many of its column's ascending `edges` (q, bins − 1) each number reaches to `bins` (q, n).

    `numbers` are (n, q). Returns the least and the greatest value in each bin of rows
    low … high − 1, (q, bins) each.
    """
    q, e = edges.shape
    half = 1
    while 2 * half <= e:
        half *= 2
    least, most = np.full((q, e + 1), np.inf), np.full((q, e + 1), -np.inf)
    for i in range(low, high):
        for k in range(q):
            value = numbers[i, k]
            b = 0
            step = half
            while step:  # without a branch that could be mispredicted
                above = min(b + step, e)
                b = above if edges[k, above - 1] <= value else b
                step //= 2
            bins[k, i] = b
            least[k, b], most[k, b] = min(least[k, b], value), max(most[k, b], value)
    return least, most


@njit(nogil=True, cache=True)
def count_bins(bins, label, count):  # type: ignore[no-untyped-def]
    """Counts the rows with each label by bin: `count` (m + 1, bins) from `bins` and `label` (n,)."""
    count[:] = 0
    for i in range(len(bins)):
        count[label[i], bins[i]] += 1


@njit(nogil=True, cache=True)
def recount_bins(bins, old, new, rows, count):  # type: ignore[no-untyped-def]
    """Brings `count` up to date where only the labels of `rows` have changed."""
    for i in rows:
        count[old[i], bins[i]] -= 1
        count[new[i], bins[i]] += 1


@njit(nogil=True, cache=True)
def bin_medians(values, bins, only, count, label, place):  # type: ignore[no-untyped-def]
    """Moves `place` (m,) the least that reaches the medians of the `values` (n,) with each label.

    `bins` (n,) and `only` as `put_in_bins` writes them, `count` (m + 1, bins) the rows by label and bin. A
    label beyond `place` stands for none.
    """
    m = len(place)
    low_bin, high_bin = np.full(m + 1, -1, np.int16), np.full(m + 1, -1, np.int16)
    rank = np.zeros(m, np.int64)  # of the lower median, among the values that are looked at
    total = np.zeros(m, np.int64)
    end = np.zeros(m + 1, np.int64)  # of each one's values in `near`, as far as they are filled
    for j in range(m):
        end[j + 1] = end[j]
        total[j] = count[j].sum()
        if total[j] == 0:
            continue
        lower, upper = (total[j] - 1) // 2, total[j] // 2
        low, below = 0, 0
        while below + count[j, low] <= lower:
            below += count[j, low]
            low += 1
        high, upto = low, below + count[j, low]
        while upto <= upper:
            high += 1
            upto += count[j, high]
        if not np.isnan(only[low]) and not np.isnan(only[high]):
            place[j] = min(max(place[j], only[low]), only[high])
            continue
        low_bin[j], high_bin[j], rank[j] = low, high, lower - below
        end[j + 1] += count[j, low] + (count[j, high] if high > low else 0)
    # First the rows, then their values: the reads of distant values then overlap.
    rows = np.empty(end[m] + 1, np.int32)
    size = 0
    for i in range(len(values)):
        j = label[i]
        b = bins[i]
        rows[size] = i
        size += (b == low_bin[j]) | (b == high_bin[j])
    found = np.empty(size, values.dtype)
    for at in range(size):
        found[at] = values[rows[at]]
    near = np.empty(size, values.dtype)  # by representative
    for at in range(size):
        j = label[rows[at]]
        near[end[j]] = found[at]
        end[j] += 1
    first = 0
    for j in range(m):
        if low_bin[j] >= 0:
            own = np.partition(near[first : end[j]], rank[j])
            least = own[rank[j]]
            most = least if total[j] % 2 else own[rank[j] + 1 :].min()
            place[j] = min(max(place[j], least), most)
        first = end[j]


@njit(nogil=True, cache=True)
def sum_rows(numbers, label, low, high, m):  # type: ignore[no-untyped-def]
    """The sums (m, q) of the `numbers` (n, q) of rows low … high − 1, by representative."""
    q = numbers.shape[1]
    sums = np.zeros((m, q), np.float64)
    for i in range(low, high):
        for k in range(q):
            sums[label[i], k] += numbers[i, k]
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
