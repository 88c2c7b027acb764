"""What the answers that could not be parsed could hide: every metric under each way of reading them.

Dropping refusals moves demographic parity (docs/protocol.md, "Refusals are not random"). So they are also
read as no, as yes, and in the worst and the best possible way.
"""

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import NO, UNPARSED, YES, Floats, Measures, measure

TREATMENTS = ("drop", "as-no", "as-yes")


def treated(counts: Floats, treatment: str) -> Measures:
    """Return the metrics of counts (R, G, 2, 3) with unparsed answers dropped, or read as no or as yes."""
    filled = counts.copy()
    if treatment != "drop":
        filled[..., NO if treatment == "as-no" else YES] += counts[..., UNPARSED]
        filled[..., UNPARSED] = 0.0
    return measure(filled)


def bounds(counts: Floats) -> dict[str, tuple[float, float]]:
    """Return (lowest, highest) of each metric over all readings of the unparsed answers, repeats averaged.

    Counts (R, G, 2, 3). The worst value is one that some reading attains; the best is a bound that whole
    answers may miss by less than one row. NaN for a group without rows.
    """
    size = counts.sum(-1)
    right = counts[..., 0, NO] + counts[..., 1, YES]
    unparsed = counts[..., UNPARSED]
    with np.errstate(divide="ignore", invalid="ignore"):
        low_rate = counts[..., YES].sum(-1) / size.sum(-1)
        high_rate = (counts[..., YES] + unparsed).sum(-1) / size.sum(-1)
        low_cell, high_cell = counts[..., YES] / size, (counts[..., YES] + unparsed) / size
        total = size.sum((-1, -2))
        accuracy = right.sum(-1) / total, (right.sum(-1) + unparsed.sum((-1, -2))) / total
    parity = _gap_bounds(low_rate, high_rate)
    odds_by_label = [_gap_bounds(low_cell[..., label], high_cell[..., label]) for label in (0, 1)]
    odds = tuple(np.maximum(odds_by_label[0][side], odds_by_label[1][side]) for side in (0, 1))
    named = {
        "accuracy": accuracy,
        "demographic_parity_difference": parity,
        "demographic_parity_ratio": _ratio_bounds(low_rate, high_rate),
        "equalized_odds_difference": odds,
    }
    return {name: (float(low.mean()), float(high.mean())) for name, (low, high) in named.items()}


def _gap_bounds(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest max − min of rates that each lie between low and high (R, G)."""
    if low.shape[-1] < 2:
        return np.full(low.shape[:-1], np.nan), np.full(low.shape[:-1], np.nan)
    top, bottom = _ordered_pairs(low.shape[-1])
    return np.maximum(0.0, low.max(-1) - high.min(-1)), np.asarray(
        (high[..., top] - low[..., bottom]).max(-1)
    )


def _ratio_bounds(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest min / max of rates that each lie between low and high (R, G)."""
    if low.shape[-1] < 2:
        return np.full(low.shape[:-1], np.nan), np.full(low.shape[:-1], np.nan)
    bottom, top = _ordered_pairs(low.shape[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = np.where(high[..., top] > 0, low[..., bottom] / high[..., top], np.inf)
        smallest = np.minimum(1.0, quotients.min(-1))
        # A group that surely has no yes makes the ratio 0 whenever it is defined at all.
        largest = np.where(high.min(-1) > 0, np.minimum(1.0, high.min(-1) / low.max(-1)), 0.0)
    undefined = ~(high.max(-1) > 0)
    return np.where(undefined, np.nan, smallest), np.where(undefined, np.nan, largest)


def _ordered_pairs(groups: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All ordered pairs of different groups, as two index arrays."""
    first, second = np.nonzero(~np.eye(groups, dtype=bool))
    return first, second
