"""Compiled reading of blocks: histograms about the medians, the values in a bin, costs of candidates."""

import numpy as np

from fwc_llm.coreset.compiling.compiled_cost import column_cost
from fwc_llm.coreset.compiling.kernel import kernel, part


@part(forceinline=True)
def _bin(value, low, scale, bins):  # type: ignore[no-untyped-def]
    """0 below `low`, `bins` + 1 above the last of `bins` steps; with a negative scale `low` alone is a bin."""
    if value < low:
        return 0
    if scale < 0:
        return 1 if value == low else bins + 1
    place = (value - low) * scale
    return int(place) + 1 if place < bins else bins + 1


@kernel
def count_steps(values, label, units, low, scale, count):  # type: ignore[no-untyped-def]
    """Adds the `units` (b,) of the rows `values` (b, q) to their bins in `count` (m, q, bins + 2).

    The bins of each label j and column k are steps from `low[j, k]` on, `scale[j, k]` to a unit. A label of
    −1 counts nothing.
    """
    bins = count.shape[2] - 2
    for i in range(len(values)):
        j = label[i]
        if j >= 0:
            for k in range(values.shape[1]):
                count[j, k, _bin(values[i, k], low[j, k], scale[j, k], bins)] += units[i]


@kernel
def find_values(values, label, units, low, scale, bins, band, common, held, place, value, mass):  # type: ignore[no-untyped-def]
    """The values of the rows `values` (b, q) that lie in the two bins `band` (2, m, q) of their label.

    They are written to `value` and `mass`, `place` being j · q + k; returns how many there are. The first
    value of a place becomes its `common` one (m, q), whose mass is added to `held` (m, q): there may be many.
    """
    size, q = 0, values.shape[1]
    for i in range(len(values)):
        j = label[i]
        if j < 0:
            continue
        for k in range(q):
            b = _bin(values[i, k], low[j, k], scale[j, k], bins)
            if b != band[0, j, k] and b != band[1, j, k]:
                continue
            if held[j, k] == 0:
                common[j, k] = values[i, k]
            if common[j, k] == values[i, k]:
                held[j, k] += units[i]
                continue
            place[size], value[size], mass[size] = j * q + k, values[i, k], units[i]
            size += 1
    return size


@kernel
def cost_candidates(values, label, mass, candidates, n_numeric, squared, total):  # type: ignore[no-untyped-def]
    """Adds what each row `values` (b, p) costs at the `candidates` (m, c, p) of its label to `total` (m, c)."""
    for i in range(len(values)):
        j = label[i]
        if j < 0:
            continue
        for c in range(candidates.shape[1]):
            own = 0.0
            for k in range(values.shape[1]):
                own += column_cost(values[i, k] - candidates[j, c, k], k < n_numeric, squared)
            total[j, c] += mass[i] * own
