"""What was possible on this very test set: the best accuracy at a disparity, and answers without a model.

On a test set with different base rates a perfect classifier is unfair and a fair one imperfect
(docs/protocol.md, "A perfect classifier is unfair here").
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Floats, levels_of


def best_accuracy(base_rates: npt.ArrayLike, sizes: npt.ArrayLike, gap: float) -> float:
    """Return the highest accuracy of any answers whose demographic parity difference is `gap`.

    `base_rates` (G,) are the shares of label yes, `sizes` (G,) the rows of each group. With rates of yes `r`
    nothing beats giving the yeses to rows with label yes first, which errs on `Σ_g n_g |r_g − b_g|` rows. So
    this is the linear program

        max 1 − Σ_g (n_g / n) |r_g − b_g|   s.t.  max r − min r = gap,  0 ≤ r ≤ 1

    (for two equal groups `1 − |gap − b| / 2`; docs/protocol.md, "A perfect classifier is unfair here").
    Its optimum has one group at the top, one at the bottom, and sits at a breakpoint of the objective: all of
    them are tried. Rates are taken as continuous, so the value is a bound that whole rows may miss by less
    than one row a group. NaN with fewer than two groups or a gap outside [0, 1].
    """
    base, size = np.asarray(base_rates, float), np.asarray(sizes, float)
    if len(base) < 2 or not 0 <= gap <= 1 or np.isnan(base).any():
        return np.nan
    rates, kind = np.unique(base, return_inverse=True)
    bottom = np.unique(np.clip(np.r_[rates, rates - gap, 0.0, 1.0 - gap], 0.0, 1.0 - gap))[:, None]
    # Of groups with one base rate the two smallest are the cheapest to move; the others only add errors.
    order = np.lexsort((size, kind))
    cheap = order[np.arange(len(order)) - np.searchsorted(kind[order], kind[order]) < 2]
    own = np.abs(np.clip(rates, bottom, bottom + gap) - rates)
    least = own @ np.bincount(kind, size)
    to_low, to_high = (
        size[cheap] * (np.abs(end - base[cheap]) - own[:, kind[cheap]]) for end in (bottom, bottom + gap)
    )
    # The cheapest group at the bottom and the cheapest at the top, or, where that is one group, the second.
    low, high = np.argsort(to_low, axis=1)[:, :2], np.argsort(to_high, axis=1)[:, :2]
    costs = [
        np.take_along_axis(to_low, lowest, 1)
        + np.take_along_axis(to_high, highest, 1)
        + np.where(lowest == highest, np.inf, 0)
        for lowest in np.split(low, 2, 1)
        for highest in np.split(high, 2, 1)
    ]
    return max(0.0, 1.0 - float((least[:, None] + np.min(costs, axis=0)).min()) / float(size.sum()))


def constant_answers(labels: npt.ArrayLike, groups: Any) -> dict[str, Floats]:
    """Return the answers (n,) of models that need no model, by name.

    `oracle` knows every label; `always yes` and `always no` look at nothing; `majority` gives every row the
    commoner label (no when they are equal); `group alone` gives every row its group's commoner label.
    """
    truth, (_, level) = np.asarray(labels, float), levels_of(groups)
    by_group = (np.bincount(level, truth) / np.maximum(np.bincount(level), 1) > 0.5)[level].astype(float)
    return {
        "oracle": truth,
        "always yes": np.ones_like(truth),
        "always no": np.zeros_like(truth),
        "majority": np.full_like(truth, float(truth.mean() > 0.5)),
        "group alone": by_group,
    }
