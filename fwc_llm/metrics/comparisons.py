"""Arms against each other, with Holm's correction over everything that is asked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import Answered, pairs
from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.contrasts import Difference, contrast
from fwc_llm.metrics.estimates import Estimates
from fwc_llm.metrics.sample import Sample

LEVEL = 0.05
COMPARED = ("accuracy", "demographic_parity_difference")


def comparisons(run: Answered, found: dict[str, Estimates]) -> list[dict[str, Any]]:
    """Return every pair of arms: differences (second − first), p-values, and whether they are significant.

    Each is as `compare_estimates` describes it. Holm's correction runs over all p-values of the run together.
    """
    tests = [
        compare_estimates(found[first], found[second]) | {"first": first, "second": second}
        for first, second in pairs(run.arms)
    ]
    adjust(tests)
    return tests


def compare_estimates(first: Estimates, second: Estimates, aligned: bool = True) -> dict[str, Any]:
    """Return the comparison of two arms; `aligned` where both were asked the same questions in one order.

    `of` says what the limits and p-values speak of, `reason` why there are none; `these_examples` has those
    of the very prompts that were sent. `n` counts questions that both answered, `better` and `worse` the
    rows on which the second arm was right more often, and less often.
    """
    tested = contrast(first, second, aligned)
    n, better, worse = _changed(first.sample, second.sample)
    return {
        "n": n,
        "of": tested.of,
        "reason": tested.reason,
        "accuracy": _described(tested.accuracy) | {"better": better, "worse": worse},
        "demographic_parity_difference": _described(tested.demographic_parity_difference),
        "these_examples": {
            "accuracy": _described(tested.accuracy_of_these),
            "demographic_parity_difference": _described(tested.parity_of_these),
        },
    }


def _described(test: Difference) -> dict[str, Any]:
    return dict(vars(test))


def _changed(one: Sample, other: Sample) -> tuple[int, int, int]:
    """Questions that both answered, and rows on which the second arm is right more and less often."""
    many = 1 + max(int(sample.row.max()) for sample in (one, other))
    keys = one.repeat * many + one.row, other.repeat * many + other.row
    _, here, there = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    both = one.parsed[here] & other.parsed[there]
    here, there = here[both], there[both]
    gained = (other.yes == other.label)[there].astype(float) - (one.yes == one.label)[here]
    net = np.bincount(one.row[here], gained)
    return len(here), int((net > 0).sum()), int((net < 0).sum())


def holm(p_values: npt.ArrayLike) -> Floats:
    """Return Holm's step-down adjusted p-values (Holm 1979), in the order given; NaN stays NaN."""
    values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(values))
    ascending = known[np.argsort(values[known], kind="stable")]
    factors = len(known) - np.arange(len(known))
    adjusted[ascending] = np.minimum(1.0, np.maximum.accumulate(values[ascending] * factors))
    return adjusted


def adjust(found: Sequence[dict[str, Any]]) -> None:
    """Add Holm's adjusted p-value and the verdict to every test of the comparisons."""
    tests = [one[metric] for one in found for metric in COMPARED]
    for test, adjusted in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
        test["p_adjusted"] = float(adjusted)
        test["distinguishable"] = None if np.isnan(adjusted) else bool(adjusted < LEVEL)
