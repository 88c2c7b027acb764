"""Compiled moves of the representatives: medians by bins, means."""

import numpy as np

from fwc_llm.coreset.compiling.kernel import kernel, part


@kernel
def put_in_bins(values, edges, bins, least, most):  # type: ignore[no-untyped-def]
    """Writes how many of its column's ascending `edges` (q, e) each value (n, q) reaches to `bins` (q, n).

    `least` and `most` (q, e + 1) get the least and the greatest value in each bin.
    """
    q, e = edges.shape
    half = 1
    while 2 * half <= e:
        half *= 2
    for k in range(q):
        for b in range(e + 1):
            least[k, b], most[k, b] = np.inf, -np.inf
    for i in range(len(values)):
        for k in range(q):
            value = values[i, k]
            b = 0
            step = half
            while step:  # without a branch that could be mispredicted
                above = min(b + step, e)
                b = above if edges[k, above - 1] <= value else b
                step //= 2
            bins[k, i] = b
            least[k, b], most[k, b] = min(least[k, b], value), max(most[k, b], value)


@kernel
def count_bins(bins, label, count):  # type: ignore[no-untyped-def]
    """Counts the rows with each label by bin: `count` (m + 1, bins) from `bins` and `label` (n,)."""
    for j in range(count.shape[0]):
        for b in range(count.shape[1]):
            count[j, b] = 0
    for i in range(len(bins)):
        count[label[i], bins[i]] += 1


@kernel
def recount_bins(bins, old, new, rows, count):  # type: ignore[no-untyped-def]
    """Brings `count` up to date where only the labels of `rows` have changed."""
    for q in range(len(rows)):
        i = rows[q]
        count[old[i], bins[i]] -= 1
        count[new[i], bins[i]] += 1


@kernel
def find_middle(bins, label, count, only, place, band, rank, rows):  # type: ignore[no-untyped-def]
    """Finds where the medians of each label lie: the bins, and the rows that are in them.

    `bins` (n,), `label` (n,) and `count` (m + 1, bins) are as `count_bins` has them. Where both medians lie
    in bins that hold `only` (bins,) one value, the label's `place` is moved here. Else the first of the rows
    (n + 1,) get the numbers of those in `band` (2, m + 1), its two bins; `rank` (3, m + 1) gets the rank of
    the lower median among them, how many rows the label has, and where its values begin, label by label.
    Returns how many rows there are.
    """
    m = len(place)
    band[0, m], band[1, m], rank[2, 0] = -1, -1, 0  # a label beyond `place` stands for none
    for j in range(m):
        band[0, j], band[1, j], rank[2, j + 1] = -1, -1, rank[2, j]
        total = 0
        for b in range(count.shape[1]):
            total += count[j, b]
        if total == 0:
            continue
        lower, upper = (total - 1) // 2, total // 2
        low, below = 0, 0
        while below + count[j, low] <= lower:
            below += count[j, low]
            low += 1
        high, upto = low, below + count[j, low]
        while upto <= upper:
            high += 1
            upto += count[j, high]
        if only[low] == only[low] and only[high] == only[high]:  # neither is NaN
            place[j] = min(max(place[j], only[low]), only[high])
            continue
        band[0, j], band[1, j], rank[0, j], rank[1, j] = low, high, lower - below, total
        rank[2, j + 1] += count[j, low] + (count[j, high] if high > low else 0)
    size = 0
    for i in range(len(bins)):
        j, b = label[i], bins[i]
        rows[size] = i
        size += (b == band[0, j]) | (b == band[1, j])
    return size


@kernel
def move_to_middle(rows, found, label, band, rank, near, place):  # type: ignore[no-untyped-def]
    """Moves `place` (m,) the least that reaches the medians: `found` (s,) are the values of the `rows` (s,).

    The rest is as `find_middle` left it; `near` (s,) is room for the values, label by label.
    """
    for at in range(len(found)):
        j = label[rows[at]]
        near[rank[2, j]] = found[at]
        rank[2, j] += 1  # where they end, when all are there
    first = 0
    for j in range(len(place)):
        end = rank[2, j]
        if band[0, j] >= 0:
            own = near[first:end]
            least = _select(own, rank[0, j])
            most = least
            if rank[1, j] % 2 == 0:
                most = own[rank[0, j] + 1]
                for at in range(rank[0, j] + 2, len(own)):
                    most = min(most, own[at])
            place[j] = min(max(place[j], least), most)
        first = end


@part
def _select(values, rank):  # type: ignore[no-untyped-def]
    """The value of this rank, from 0; moves what is not smaller behind it (Hoare's FIND, in place).

    Equal values are exchanged like larger and smaller ones: they fall into halves, however many they are.
    """
    low, high = 0, len(values) - 1
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while pivot < values[right]:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return values[rank]


@kernel
def sum_rows(values, label, sums):  # type: ignore[no-untyped-def]
    """Adds the rows `values` (n, q) to the `sums` (m, q) of their labels."""
    for i in range(len(values)):
        for k in range(values.shape[1]):
            sums[label[i], k] += values[i, k]
