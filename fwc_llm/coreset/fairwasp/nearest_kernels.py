"""Compiled search for nearest rows (numba): imported only for tables large enough to be worth the import."""

import numpy as np

from fwc_llm.coreset.compiling.compiled_cost import column_cost
from fwc_llm.coreset.compiling.kernel import kernel


@kernel
def find_nearest(  # type: ignore[no-untyped-def]
    rows, place, members, member_place, n_numeric, squared, best, row, low, high
):
    """Find the nearest of `members` (k, p) for each of `rows` (n, p) from `low` to `high`.

    `member_place` (k,), ascending, and `place` (n,) bound the cost from below by their difference (squared
    if the cost is). The search goes outwards from the row's own place, both ways, until that bound exceeds
    the best cost. Writes `best[low:high]` and `row[low:high]`; of equal costs the smaller index wins.
    """
    p, k = rows.shape[1], len(members)
    for i in range(low, high):
        right, above = 0, k  # the first place that is not smaller
        while right < above:
            middle = (right + above) // 2
            if member_place[middle] < place[i]:
                right = middle + 1
            else:
                above = middle
        left = right - 1
        least, found = np.inf, k
        while left >= 0 or right < k:
            before = place[i] - member_place[left] if left >= 0 else np.inf
            after = member_place[right] - place[i] if right < k else np.inf
            if before <= after:
                j, bound = left, before
                left -= 1
            else:
                j, bound = right, after
                right += 1
            if (bound * bound if squared else bound) > least:
                break
            cost = 0.0
            for column in range(p):
                cost += column_cost(rows[i, column] - members[j, column], column < n_numeric, squared)
                if cost > least:
                    break
            if cost < least or (cost == least and j < found):
                least, found = cost, j
        best[i], row[i] = least, found
