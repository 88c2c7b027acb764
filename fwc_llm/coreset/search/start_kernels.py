"""Compiled costs of k-means++: what is left to the nearest row chosen, were a further one chosen."""

from fwc_llm.coreset.compiling.kernel import kernel


@kernel
def reach(values, draws, n_numeric, squared, nearest, out):  # type: ignore[no-untyped-def]
    """Writes the least of `nearest` (n,) and the cost from the row `draws[t]` to `out` (t, n).

    `values` (p, n) are the rows, columns first. The sums have numpy's order, see `column_costs`.
    """
    for t in range(len(draws)):
        own = out[t]
        for i in range(len(own)):
            own[i] = 0.0
        for k in range(n_numeric):
            column = values[k]
            value = column[draws[t]]
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
                    apart += values[k, i] != values[k, draws[t]]
                own[i] += apart
        for i in range(len(own)):
            own[i] = min(nearest[i], own[i])
