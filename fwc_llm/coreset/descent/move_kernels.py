"""Compiled moves of the representatives: medians by bins, means."""

import numpy as np

from fwc_llm.coreset.compiling.kernel import kernel, part

NONE = 255  # a bin that no value is in
_SORTED = 12  # values up to which they are sorted


@kernel
def put_in_bins(values, edges, start, step, first, bins):  # type: ignore[no-untyped-def]
    """Writes how many of its column's ascending `edges` (q, e) each value (n, q) reaches to `bins` (n, q).

    Place `(value − start[k]) · step[k]` of a grid says that the edges before `first[k, place]` are not above
    the value, and those from `first[k, place + 1]` on are above it: few are left to compare.
    """
    last = first.shape[1] - 2
    for i in range(len(values)):
        for k in range(len(edges)):
            value = values[i, k]
            place = int(min(max((value - start[k]) * step[k], 0.0), float(last)))
            b, end = first[k, place], first[k, place + 1]
            while b < end:
                middle = (b + end) // 2
                if edges[k, middle] <= value:
                    b = middle + 1
                else:
                    end = middle
            bins[i, k] = b


@kernel
def count_bins(bins, label, count, low, high):  # type: ignore[no-untyped-def]
    """Counts the rows with each label by bin: columns low … high − 1 of `count` (m + 1, q, bins)."""
    for j in range(count.shape[0]):
        for k in range(low, high):
            for b in range(count.shape[2]):
                count[j, k, b] = 0
    for i in range(len(bins)):
        for k in range(low, high):
            count[label[i], k, bins[i, k]] += 1


@kernel
def recount_bins(bins, old, new, rows, count, low, high):  # type: ignore[no-untyped-def]
    """Brings these columns of `count` up to date where only the labels of `rows` have changed."""
    for q in range(len(rows)):
        i = rows[q]
        for k in range(low, high):
            count[old[i], k, bins[i, k]] -= 1
            count[new[i], k, bins[i, k]] += 1


@kernel
def weigh_bins(bins, old, new, rows, units, held, low, high):  # type: ignore[no-untyped-def]
    """Adds the `units` (n,) of the `rows` to these columns of `held` (m + 1, q, bins), by their new label.

    They are taken from those of their `old` label, if there are old labels.
    """
    for q in range(len(rows)):
        i = rows[q]
        for k in range(low, high):
            if len(old):
                held[old[i], k, bins[i, k]] -= units[i]
            held[new[i], k, bins[i, k]] += units[i]


@kernel
def find_bands(  # type: ignore[no-untyped-def]
    which, count, held, only, bins, unit, parts, ends, mass, place, band, size, below, total, low, high
):
    """Finds the bins in which the medians of the labels `which[low … high − 1]` lie.

    `count` (m + 1, q, bins) are the rows of each label by bin, and `held` (m + 1, q, bins) their mass; if it
    is empty, each row has the mass `unit`. `parts`, rows and masses,
    are split rows, of which the label `which[t]` has those from `ends[0, t]` and before `ends[1, t]`. Where
    both medians lie in bins that hold `only` (q, bins) one value, `place` (t, q) is moved here. Else `band`
    (2, m + 1, q) gets the two bins, `size` (t, q) how many entries they have, and `below` (t, q) the mass in
    the bins before. `total` (t,) gets the mass of the label, and `mass` (bins,) is room.
    """
    part_row, part_mass = parts
    weighted = len(held) > 0
    for t in range(low, high):
        j = which[t]
        total[t] = 0
        for b in range(count.shape[2] if count.shape[1] else 0):
            total[t] += held[j, 0, b] if weighted else count[j, 0, b] * unit
        for e in range(ends[0, t], ends[1, t]):
            total[t] += part_mass[e]
        for k in range(count.shape[1] if total[t] else 0):
            for b in range(count.shape[2]):
                mass[b] = held[j, k, b] if weighted else count[j, k, b] * unit
            for e in range(ends[0, t], ends[1, t]):
                mass[bins[part_row[e], k]] += part_mass[e]
            before, left = 0, 0
            while 2 * (before + mass[left]) < total[t]:
                before += mass[left]
                left += 1
            right, upto = left, before + mass[left]
            while 2 * upto <= total[t]:
                right += 1
                upto += mass[right]
            if only[k, left] == only[k, left] and only[k, right] == only[k, right]:  # neither is NaN
                place[t, k] = min(max(place[t, k], only[k, left]), only[k, right])
                continue
            band[0, j, k], band[1, j, k], below[t, k] = left, right, before
            size[t, k] = count[j, k, left] + (count[j, k, right] if right > left else 0)
            for e in range(ends[0, t], ends[1, t]):
                b = bins[part_row[e], k]
                size[t, k] += (b == left) | (b == right)


@kernel
def find_entries(bins, label, slot, band, row_step, column_step, at, place, low, high):  # type: ignore[no-untyped-def]
    """The entries of rows low … high − 1 that lie in the `band` of their label, see `find_bands`.

    Column k of row i is entry `row_step · i + column_step · k` of the table, written to `at`, and belongs to
    the place `slot[label[i]] · q + k`, written to `place`. Returns how many there are.
    """
    size, q = 0, bins.shape[1]
    for i in range(low, high):
        j = label[i]
        t = slot[j]
        if t < 0:
            continue
        for k in range(q):
            b = bins[i, k]
            at[size] = row_step * i + column_step * k
            place[size] = t * q + k
            size += (b == band[0, j, k]) | (b == band[1, j, k])
    return size


@kernel
def put_in_place(found, mass, place, end, near, near_mass):  # type: ignore[no-untyped-def]
    """Puts the values `found` and their masses side by side with those of their place, behind its `end`."""
    for q in range(len(found)):
        at = end[place[q]]
        near[at], near_mass[at] = found[q], mass[q]
        end[place[q]] += 1


@kernel
def move_to_middle(near, mass, end, size, below, total, place, low, high):  # type: ignore[no-untyped-def]
    """Moves rows low … high − 1 of `place` (t, q) the least that reaches the medians.

    Those of `place[t, k]` are among the `size[t, k]` values `near` before `end`; `below` is the mass before
    them, of `total[t]` in all.
    """
    q = place.shape[1]
    for t in range(low, high):
        for k in range(q):
            if size[t, k]:
                last = end[t * q + k]
                first = last - size[t, k]
                values, masses = near[first:last], mass[first:last]
                least, most = _middle(values, masses, below[t, k], total[t])
                place[t, k] = min(max(place[t, k], least), most)


@part
def _middle(values, mass, below, total):  # type: ignore[no-untyped-def]
    """The lower and the upper median, see `_select`; they exchange values and their masses in place."""
    if len(values) <= _SORTED:
        for at in range(1, len(values)):
            value, own, free = values[at], mass[at], at
            while free > 0 and values[free - 1] > value:
                values[free], mass[free] = values[free - 1], mass[free - 1]
                free -= 1
            values[free], mass[free] = value, own
        at, upto = 0, below + mass[0]
        while 2 * upto < total:
            at += 1
            upto += mass[at]
        least = most = values[at]
        if 2 * upto == total:  # all up to here is half, so that the next value is as good
            most = values[at + 1] if at + 1 < len(values) else np.inf
        return least, most
    least = _select(values, mass, below, total)
    upto, most = below, np.inf
    for at in range(len(values)):
        if values[at] <= least:
            upto += mass[at]
        else:
            most = min(most, values[at])
    return least, least if 2 * upto > total else most


@part
def _select(values, mass, below, total):  # type: ignore[no-untyped-def]
    """The least value up to which, with `below`, lies half of the `total` (Hoare's FIND, in place).

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
                mass[left], mass[right] = mass[right], mass[left]
                left += 1
                right -= 1
        before = below
        for at in range(low, right + 1):
            before += mass[at]
        if 2 * before >= total:
            high = right
            continue
        for at in range(right + 1, left):
            before += mass[at]
        if 2 * before >= total:
            return pivot
        low, below = left, before
    return values[low]


@kernel
def sum_rows(values, label, wanted, sums):  # type: ignore[no-untyped-def]
    """Adds the rows `values` (n, q) to the `sums` (m, q) of their labels, where these are `wanted` (m,)."""
    for i in range(len(values)):
        if wanted[label[i]]:
            for k in range(values.shape[1]):
                sums[label[i], k] += values[i, k]
