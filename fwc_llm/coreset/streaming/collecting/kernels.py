"""Compiled reading of blocks: histograms about the medians, the values in a bin, costs of candidates."""

import numpy as np

from fwc_llm.coreset.compiled import column_cost, kernel


@kernel
def count_steps(values, label, units, low, high, scale, step, count):  # type: ignore[no-untyped-def]
    """Counts where the rows `values` (b, q) lie about the place [low, high] (m, q) of their label and column.

    The `units` (b,) of values in it are added to their step in `count` (m, q, bins + 2), of which `scale`
    (m, q) make a unit: steps 1 to bins; those before it to the first, those behind it to the last. A label
    of −1 counts nothing; `step` (q,) int32 is room.
    """
    last = count.shape[2] - 1
    for i in range(len(values)):
        if label[i] < 0:
            continue
        j, own = np.uintp(label[i]), units[i]
        for k in range(values.shape[1]):  # without a branch: many columns at once
            within = min(max((values[i, k] - low[j, k]) * scale[j, k], 0.0), last - 2.0)
            at = np.int32(within) + 1 if values[i, k] >= low[j, k] else 0
            step[k] = np.int32(last) if values[i, k] > high[j, k] else at
        for k in range(values.shape[1]):
            count[j, k, np.uintp(step[k])] += own


@kernel
def find_values(values, label, units, low, high, below, common, held, place, value, mass):  # type: ignore[no-untyped-def]
    """The values of the rows (b, q) that lie in the place [low, high] (m, q) of their label and column.

    They are written to `value` and `mass`, `place` being j · q + k; returns how many there are. The `units`
    of those before it are added to `below` (m, q). The first value of a place becomes its `common` one
    (m, q), whose mass is added to `held` (m, q): there may be many.
    """
    size, q = 0, values.shape[1]
    for i in range(len(values)):
        if label[i] < 0:
            continue
        j, within = np.uintp(label[i]), 0
        for k in range(q):  # without a branch: many columns at once
            below[j, k] += units[i] if values[i, k] < low[j, k] else 0
        for k in range(q):
            within += (values[i, k] >= low[j, k]) & (values[i, k] <= high[j, k])
        for k in range(q if within else 0):
            if values[i, k] >= low[j, k] and values[i, k] <= high[j, k]:
                if held[j, k] == 0:
                    common[j, k] = values[i, k]
                if common[j, k] == values[i, k]:
                    held[j, k] += units[i]
                else:
                    place[size], value[size], mass[size] = j * q + k, values[i, k], units[i]
                    size += 1
    return size


@kernel
def cost_candidates(values, label, mass, candidates, n_numeric, squared, total):  # type: ignore[no-untyped-def]
    """Adds to `total` (m, c) what the rows (b, p) cost at the `candidates` (m, c, p) of their label."""
    for i in range(len(values)):
        j = label[i]
        if j < 0:
            continue
        for c in range(candidates.shape[1]):
            own = 0.0
            for k in range(values.shape[1]):
                own += column_cost(values[i, k] - candidates[j, c, k], k < n_numeric, squared)
            total[j, c] += mass[i] * own
