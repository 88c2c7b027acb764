"""Arms against each other on the same rows, with Holm's correction over everything that is asked."""

from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answered, Answers, pairs
from fwc_llm.metrics.paired import holm, mcnemar, parity_permutation

LEVEL = 0.05
_DRAWS, _FINE_DRAWS = 5_000, 50_000


def comparisons(run: Answered) -> list[dict[str, Any]]:
    """Return every pair of arms: differences (second − first), p-values, and whether they are told apart.

    Accuracy by McNemar's exact test, demographic parity by a permutation test, both on the rows that both
    arms answered; Holm's correction runs over all p-values of the run together.
    """
    found = [
        compare_answers(run.answers[a], run.answers[b]) | {"first": a, "second": b}
        for a, b in pairs(run.arms)
    ]
    adjust(found)
    return found


def compare_answers(first: Answers, second: Answers) -> dict[str, Any]:
    """Return the paired comparison of two sets of answers on the rows that both have and both parsed."""
    first, second = paired(first, second)
    both = ~np.isnan(first.answer) & ~np.isnan(second.answer)
    first, second = first.where(both), second.where(both)
    if not len(first):
        return {
            "n": 0,
            "accuracy": {"difference": np.nan, "better": 0, "worse": 0, "p_value": np.nan},
            "demographic_parity_difference": {"difference": np.nan, "p_value": np.nan},
        }
    right, other_right = first.answer == first.label, second.answer == second.label
    test = mcnemar(other_right, right, first.row)
    arguments = (second.answer, first.answer, first.group, first.repeat, first.row)
    gap, p_value = parity_permutation(*arguments, _DRAWS)
    if p_value < 10 / _DRAWS:  # small, and Holm will multiply it: draw again, finely enough to tell how small
        gap, p_value = parity_permutation(*arguments, _FINE_DRAWS, seed=1)
    return {
        "n": len(first),
        "accuracy": {
            "difference": float(other_right.mean() - right.mean()),
            "better": test.better,
            "worse": test.worse,
            "p_value": test.p_value,
        },
        "demographic_parity_difference": {"difference": gap, "p_value": p_value},
    }


def paired(first: Answers, second: Answers) -> tuple[Answers, Answers]:
    """Return both sets of answers restricted to the questions they share, in the same order."""
    _, place, other = np.intersect1d(first.key, second.key, assume_unique=True, return_indices=True)
    return first.where(place), second.where(other)


def adjust(found: list[dict[str, Any]]) -> None:
    """Add Holm's adjusted p-value and the verdict to every test of the comparisons."""
    tests = [one[metric] for one in found for metric in ("accuracy", "demographic_parity_difference")]
    for test, adjusted in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
        test["p_adjusted"] = float(adjusted)
        test["distinguishable"] = None if np.isnan(adjusted) else bool(adjusted < LEVEL)
