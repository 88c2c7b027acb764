"""What the answers that could not be parsed could hide: every metric under each way of reading them.

Dropping refusals moves demographic parity (docs/protocol.md, "Refusals are not random"). So they are also
read as no, as yes, and in the worst and the best possible way.
"""

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import METRICS, NO, UNPARSED, YES, Floats, Measures, overall

TREATMENTS = ("drop", "as-no", "as-yes")


def treated(counts: Floats, treatment: str) -> Measures:
    """Return the metrics of counts (R, G, 2, 3) with unparsed answers dropped, or read as no or as yes."""
    filled = counts.copy()
    if treatment != "drop":
        filled[..., NO if treatment == "as-no" else YES] += counts[..., UNPARSED]
        filled[..., UNPARSED] = 0.0
    return overall(filled)


def bounds(counts: Floats) -> dict[str, tuple[float, float]]:
    """Return (lowest, highest) of each metric over all readings of the unparsed answers.

    Counts (R, G, 2, 3). The worst value is one that some reading attains; the best is a bound that whole
    answers may miss by less than one row. NaN for a group without rows.
    """
    right = counts[..., 0, NO] + counts[..., 1, YES]
    unparsed = counts[..., UNPARSED]
    no, yes = treated(counts, "as-no"), treated(counts, "as-yes")
    total = counts.sum((-1, -2, -3))
    accuracy = right.sum(-1) / total, (right.sum(-1) + unparsed.sum((-1, -2))) / total
    odds = [
        _gap_bounds(getattr(no, kind)[0], getattr(yes, kind)[0])
        for kind in ("true_positive_rates", "false_positive_rates")
    ]
    found = (
        (float(accuracy[0].mean()), float(accuracy[1].mean())),
        _gap_bounds(no.rates[0], yes.rates[0]),
        _ratio_bounds(no.rates[0], yes.rates[0]),
        (max(odds[0][0], odds[1][0]), max(odds[0][1], odds[1][1])),
    )
    return dict(zip(METRICS, found, strict=True))


def _gap_bounds(low: Floats, high: Floats) -> tuple[float, float]:
    """Smallest and largest max − min of rates that each lie between low and high (G,)."""
    if len(low) < 2:
        return np.nan, np.nan
    top, bottom = _ordered_pairs(len(low))
    return float(np.maximum(0.0, low.max() - high.min())), float((high[top] - low[bottom]).max())


def _ratio_bounds(low: Floats, high: Floats) -> tuple[float, float]:
    """Smallest and largest min / max of rates that each lie between low and high (G,)."""
    if len(low) < 2 or not high.max() > 0:
        return np.nan, np.nan
    bottom, top = _ordered_pairs(len(low))
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = np.where(high[top] > 0, low[bottom] / high[top], np.inf)
        # A group that surely has no yes makes the ratio 0 whenever it is defined at all.
        largest = min(1.0, float(high.min() / low.max())) if high.min() > 0 else 0.0
    return min(1.0, float(quotients.min())), largest


def _ordered_pairs(groups: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All ordered pairs of different groups, as two index arrays."""
    first, second = np.nonzero(~np.eye(groups, dtype=bool))
    return first, second
