"""Answers by a threshold on P(yes): ties, contradictions between wordings, probabilities that do not move."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from fwc_llm.metrics.answers import LEAST_PROBABILITIES, Answered, Answers

THRESHOLD = 0.5  # from which on P(yes) is a yes
OPPOSITE = "negation"  # how the names of questions begin to which a yes is a no to the main one
_STILL = 0.01  # of P(yes): one step where a service rounds to two decimals
_STILL_ODDS = 0.1  # of log-odds: what is always unlikely may well depend on the row
_ROUNDING = 1e-9


def ties(p: npt.ArrayLike) -> int:
    """Return how many of the probabilities (n,), NaN where there is none, lie exactly on the threshold."""
    return int((np.asarray(p, float) == THRESHOLD).sum())


def contradictions(p: npt.ArrayLike, other: npt.ArrayLike, opposite: bool) -> dict[str, Any]:
    """Return how often the answers to two questions about the same rows cannot both be right.

    `p` and `other` (n,) are P(yes) of each, NaN where there is none. `opposite`: the other question asks
    whether the answer is no. Keys: `n` rows with both, `contradictions`, `yes_to_both`, `no_to_both`, and
    `mean_distance` between `p` and what the other question implies for it (None without rows).
    """
    first, second = np.asarray(p, float), np.asarray(other, float)
    both = ~np.isnan(first) & ~np.isnan(second)
    first, second = first[both], second[both]
    yes, other_yes = first >= THRESHOLD, second >= THRESHOLD
    implied = 1.0 - second if opposite else second
    return {
        "n": len(first),
        "contradictions": int(((yes == other_yes) if opposite else (yes != other_yes)).sum()),
        "yes_to_both": int((yes & other_yes).sum()),
        "no_to_both": int((~yes & ~other_yes).sum()),
        "mean_distance": float(np.abs(first - implied).mean()) if len(first) else None,
    }


def decision_notes(run: Answered) -> Iterator[str]:
    """Yield what to know about the arms' P(yes): ties, and arms for which it hardly depends on the row."""
    for arm, a in run.answers.items():
        known = a.where(~np.isnan(a.p_yes))
        if tied := ties(known.p_yes):
            count = f"{tied:,} of {len(known):,} P(yes)"
            counted = " and count as yes" if (known.answer[known.p_yes == THRESHOLD] == 1.0).all() else ""
            lie = "lies" if tied == 1 else "lie"
            yield f"{arm}: {count} {lie} exactly on the threshold {THRESHOLD:g}{counted}."
        if 0 < len(known) < LEAST_PROBABILITIES:
            few = f"{len(known)} of {len(a)} answers {'has' if len(known) == 1 else 'have'} P(yes)"
            yield f"{arm}: {few}: too few for an AUC, a Brier score or calibration."
        if _is_still(known):
            lowest, highest = f"{known.p_yes.min():.3g}", f"{known.p_yes.max():.3g}"
            values = f"is {lowest}" if lowest == highest else f"lies from {lowest} to {highest}"
            yield (
                f"{arm}: P(yes) {values} whatever the row ({len(known):,} answers): it hardly depends on the "
                "row, as when a service cuts its input off (try fewer examples or a shorter template)."
            )


def _is_still(known: Answers) -> bool:
    """Whether within every repeat all P(yes), which are enough, lie close together."""
    for repeat in np.unique(known.repeat):
        p = known.p_yes[known.repeat == repeat]
        odds = logit(np.clip(p, _ROUNDING, 1.0 - _ROUNDING))
        if len(p) < LEAST_PROBABILITIES or np.ptp(p) > _STILL + _ROUNDING or np.ptp(odds) > _STILL_ODDS:
            return False
    return len(known) > 0
