"""Compiled k-means++: every row of a start in one call."""

from fwc_llm.coreset.compiling.kernel import kernel, part


@kernel
def spread(  # type: ignore[no-untyped-def]
    values, ids, mass, uniform, n_numeric, squared, chosen, free, draws, upto, nearest, reached
):
    """Writes the rows `chosen` (c,) after the first one, see `start.spread_rows`.

    `values` (p, n) are the rows, columns first; `ids` (n,) are equal for rows that count as the same, `mass`
    (n,) is empty where each row has the mass 1, and `uniform` (c − 1, t) are the draws. The rest is room:
    `free`, `upto` and `nearest` (n,), `draws` (t,), `reached` (t, n).
    """
    n, trials = values.shape[1], uniform.shape[1]
    for i in range(n):
        nearest[i] = 1e308
    _reach(values, chosen[0], n_numeric, squared, nearest, reached[0])
    for i in range(n):
        nearest[i], free[i] = reached[0, i], ids[i] != ids[chosen[0]]
    for c in range(1, len(chosen)):
        total, last = 0.0, 0
        for even in range(2):  # where what is left equals a chosen row in all but its id, it is drawn evenly
            for i in range(n if total == 0 else 0):
                weight = 0.0
                if free[i]:
                    weight = 1.0 if even else nearest[i]
                    if len(mass) and not even:
                        weight *= mass[i]
                    last = i if weight > 0 else last
                total += weight
                upto[i] = total
        for t in range(trials):
            low, high, goal = 0, n, uniform[c - 1, t] * total
            while low < high:
                middle = (low + high) // 2
                if upto[middle] <= goal:
                    low = middle + 1
                else:
                    high = middle
            draws[t] = min(low, last)
        best, least = 0, 0.0
        for t in range(trials):
            _reach(values, draws[t], n_numeric, squared, nearest, reached[t])
            total = 0.0
            for i in range(n):
                total += reached[t, i] * (mass[i] if len(mass) else 1.0)
            if t == 0 or total < least:
                best, least = t, total
        one = chosen[c] = draws[best]
        for i in range(n):
            nearest[i] = reached[best, i]
            free[i] = free[i] and ids[i] != ids[one]


@part
def _reach(values, draw, n_numeric, squared, nearest, own):  # type: ignore[no-untyped-def]
    """Writes the least of `nearest` (n,) and the cost from the row `draw` to `own` (n,).

    The sums over columns have numpy's order, see `column_costs`.
    """
    for i in range(len(own)):
        own[i] = 0.0
    for k in range(n_numeric):
        column = values[k]
        value = column[draw]
        if squared:
            for i in range(len(own)):
                own[i] += (column[i] - value) * (column[i] - value)
        else:
            for i in range(len(own)):
                own[i] += abs(column[i] - value)
    if n_numeric < len(values):
        for i in range(len(own)):
            apart = 0
            for k in range(n_numeric, len(values)):
                apart += values[k, i] != values[k, draw]
            own[i] += apart
    for i in range(len(own)):
        own[i] = min(nearest[i], own[i])
