"""Compiled scan of a cost table (numba): imported only for tables large enough to be worth the import."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.compiling.kernel import kernel


@kernel  # type: ignore[misc]
def scan(
    cost: NDArray[Any],
    prices: NDArray[np.float64],
    slope: NDArray[np.float64],
    parts: NDArray[np.float64],
    margin: float,
    size: int,
    key: NDArray[np.int32],
    doubt: NDArray[np.integer],
    n_doubt: NDArray[np.intp],
    kept: NDArray[np.float64],
    kept_cost: NDArray[np.float64],
    faulty: NDArray[np.bool_],
    low: int,
    high: int,
) -> None:
    """Find each row's cheapest cell  argmin_g (cost_ig − prices_g)  and whether the next is within `margin`.

    Row i costs `parts[i] · slope[g]` more in cell g, unless there are no parts; the sums are without that.
    Rows `low` to `high` are one block of `size`, b = low / size: it writes key[low:], the doubtful rows to
    doubt[low:][:n_doubt[b]], and the count (kept[b, g]) and cost (kept_cost[b]) of the others.
    """
    cells = cost.shape[1]
    block = low // size
    place = low
    total = 0.0
    fault = False
    counts = np.zeros(cells)  # of this thread alone: blocks share lines of the processors' caches
    for i in range(low, high):
        best, second, cell = np.inf, np.inf, 0
        tilt = parts[i] if len(parts) else 0.0
        for g in range(cells):
            value = np.float64(cost[i, g]) - (prices[g] - tilt * slope[g])
            less = value < best
            second = min(second, best if less else value)
            cell = g if less else cell
            best = value if less else best
            fault |= value != value
        fault |= not np.isfinite(best)
        key[i] = cell
        doubt[place] = i
        if second <= best + margin:
            place += 1
        else:
            counts[cell] += 1.0
            total += np.float64(cost[i, cell])
    for g in range(cells):
        kept[block, g] = counts[g]
    n_doubt[block] = place - low
    kept_cost[block] = total
    faulty[block] = fault
