"""Compiled steps around the pivots: the rows in doubt as pairs, and the plan of an optimal basis."""

from fwc_llm.coreset.compiling.kernel import kernel


@kernel  # type: ignore[misc]
def lay_out(  # type: ignore[no-untyped-def]
    cost, prices, margin, width, kept, noise, random, cell, excess, start, key, own, mass
):
    """Writes the rows in doubt and an anchor for each cell with `kept` mass as `Pairs`; returns their number.

    `cost` (G, D) are the rows in doubt, which may go where it costs at most `width` more than their cheapest
    cell. An anchor moves at the cost of the `margin`, see `narrowing`. Random parts of `noise` break ties.
    """
    cells, n = cost.shape
    at = 0
    for i in range(n):
        least, best = cost[0, i] - prices[0], 0
        for g in range(1, cells):
            value = cost[g, i] - prices[g]
            if value < least:
                least, best = value, g
        start[i], key[i], own[i] = at, best, 0.0
        for g in range(cells):
            more = cost[g, i] - prices[g] - least
            if more <= width:
                cell[at] = g
                excess[at] = more if g == best else more + noise * random[at % len(random)]
                at += 1
    for g in range(cells):
        if kept[g] > 0:
            start[n], key[n], own[n], mass[n] = at, g, 0.0, kept[g]
            for h in range(cells):
                cell[at], excess[at] = h, 0.0
                if h != g:
                    excess[at] = margin + noise * random[at % len(random)]
                at += 1
            n += 1
    start[n] = at
    return n


@kernel  # type: ignore[misc]
def read_plan(  # type: ignore[no-untyped-def]
    cost, mass, prices, near, key, owner, pair, cell, load, held, split_row, split_cell, split_mass, sums
):
    """Reads the plan from a basis; returns the number of splits, and of ties within `near` besides its own.

    The masses `load` (G,) on the ties become splits of the rows that own them, whose largest part takes their
    `key`. Adds the rows' masses to the cells' `held` (G,), and writes to `sums` (2,) what the plan costs and
    what the rows' cheapest cells cost at the `prices`. Returns −1 splits where an anchor is split.
    """
    cells, n = cost.shape
    count, tied = 0, 0
    for slot in range(cells):
        i = owner[slot]
        if i >= n:
            return -1, 0
        first = i >= 0
        for other in range(slot):
            first &= owner[other] != i
        tied -= i >= 0
        if not first:
            continue
        begin, rest = count, mass[i]
        for other in range(slot, cells):
            if owner[other] == i:
                split_row[count], split_cell[count] = i, cell[pair[other]]
                split_mass[count] = max(load[other], 0.0)
                rest -= split_mass[count]
                count += 1
        largest, blur = begin, 1e-9 * mass[i]  # of parts that rounding alone sets apart, the first
        for k in range(begin, count):
            if split_mass[k] > split_mass[largest] + blur:
                largest = k
        if split_mass[largest] >= rest - blur:
            split_mass[largest] = max(rest, 0.0)
            key[i], split_cell[largest] = split_cell[largest], key[i]
        end, count = count, begin
        for k in range(begin, end):
            if split_mass[k] > 0:
                split_row[count], split_cell[count] = i, split_cell[k]
                split_mass[count] = split_mass[k]
                count += 1
    sums[0], sums[1] = 0.0, 0.0
    for i in range(n):
        least = cost[0, i] - prices[0]
        for g in range(1, cells):
            least = min(least, cost[g, i] - prices[g])
        tied -= 1
        for g in range(cells):
            tied += cost[g, i] - prices[g] <= least + near
        sums[0] += mass[i] * cost[key[i], i]
        sums[1] += mass[i] * least
        held[key[i]] += mass[i]
    for k in range(count):
        i, g, h = split_row[k], split_cell[k], key[split_row[k]]
        sums[0] += split_mass[k] * (cost[g, i] - cost[h, i])
        held[g] += split_mass[k]
        held[h] -= split_mass[k]
    return count, tied
