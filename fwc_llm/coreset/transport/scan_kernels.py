"""Compiled scan of a cost table (numba): imported only for tables large enough to be worth the import."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.compiling.kernel import kernel
from fwc_llm.coreset.transport.tilt import GOLDEN


@kernel  # type: ignore[misc]
def scan(
    cost: NDArray[Any],
    mass: NDArray[np.float64],
    prices: NDArray[np.float64],
    slope: NDArray[np.float64],
    margin: float,
    size: int,
    key: NDArray[np.int32],
    unsure: NDArray[np.bool_],
    kept: NDArray[np.float64],
    kept_cost: NDArray[np.float64],
    faulty: NDArray[np.bool_],
    low: int,
    high: int,
) -> None:
    """Find each row's cheapest cell  argmin_g (cost_ig − prices_g)  and whether the next is within `margin`.

    Row i costs `parts_of(i) · slope[g]` more in cell g, unless there is no slope; the sums are without that.
    `mass` (n,) are the rows' masses; empty, it stands for 1 each. Rows `low` to `high` are one block of
    `size`, b = low / size: it writes key[low:], marks the doubtful rows in unsure[low:], and the mass
    (kept[b, g]) and cost (kept_cost[b]) of the others.
    """
    cells = cost.shape[1]
    block = low // size
    total = 0.0
    fault = False
    weighted, tilted = len(mass) > 0, len(slope) > 0
    counts = np.zeros(cells)  # of this thread alone: blocks share lines of the processors' caches
    for i in range(low, high):
        best, second, cell = np.inf, np.inf, 0
        part = i * GOLDEN
        part -= np.floor(part)
        for g in range(cells):
            value = np.float64(cost[i, g]) - (prices[g] - part * slope[g] if tilted else prices[g])
            less = value < best
            second = min(second, best if less else value)
            cell = g if less else cell
            best = value if less else best
            fault |= value != value
        fault |= not np.isfinite(best)
        key[i] = cell
        unsure[i] = second <= best + margin
        if not unsure[i]:
            own = mass[i] if weighted else 1.0
            counts[cell] += own
            total += own * np.float64(cost[i, cell])
    for g in range(cells):
        kept[block, g] = counts[g]
    kept_cost[block] = total
    faulty[block] = fault
