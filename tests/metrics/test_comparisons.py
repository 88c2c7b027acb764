"""Holm's correction, and what a comparison counts."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.metrics.comparisons import compare_estimates, holm
from fwc_llm.metrics.estimates import estimate
from fwc_llm.metrics.sample import Sample


def closed_testing(p_values: list[float]) -> list[float]:
    """Holm's procedure as the closure of Bonferroni's: the worst set of hypotheses that each belongs to."""
    sets = [s for size in range(1, len(p_values) + 1) for s in combinations(range(len(p_values)), size)]
    bonferroni = {s: min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets}
    return [max(bonferroni[s] for s in sets if i in s) for i in range(len(p_values))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_agrees_with_closed_testing(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


def test_holm_leaves_undefined_values_out() -> None:
    assert holm([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)


def test_a_row_asked_in_three_repeats_is_better_or_worse_once() -> None:
    """Row 0 is better in all three, row 1 worse in one, row 2 lost once by the second arm."""
    row, repeat = np.tile(np.arange(3), 3), np.repeat(np.arange(3), 3)
    nothing = np.zeros(9, dtype=int)
    first = np.array([1.0, 0, 0, 1, 0, 0, 1, 0, 0])
    second = np.array([0.0, 0, np.nan, 0, 1, 0, 0, 0, 0])
    one, other = (estimate(Sample(a, nothing, nothing, repeat, row, 1)) for a in (first, second))
    found = compare_estimates(one, other)
    assert (found["n"], found["accuracy"]["better"], found["accuracy"]["worse"]) == (8, 1, 1)
    assert (
        found["demographic_parity_difference"]["p_value"] != found["demographic_parity_difference"]["p_value"]
    )
