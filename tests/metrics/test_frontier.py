"""The frontier against scipy's linear programs, and the protocol's formula."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fwc_llm.metrics import group_metrics
from fwc_llm.metrics.frontier import best_accuracy, constant_answers, frontier


def by_linear_program(base: np.ndarray, sizes: np.ndarray, gap: float) -> float:
    """Variables (r, e): minimise n·e with e ≥ |r − b|, for every choice of top and bottom group."""
    groups = len(base)
    eye, share = np.eye(groups), sizes / sizes.sum()
    best = -np.inf
    for high, low in permutations(range(groups), 2):
        A = [np.hstack([eye, -eye]), np.hstack([-eye, -eye])]
        b = [base, -base]
        for g in range(groups):  # low ≤ every rate ≤ high
            A.append(np.concatenate([eye[low] - eye[g], np.zeros(groups)])[None])
            A.append(np.concatenate([eye[g] - eye[high], np.zeros(groups)])[None])
            b += [[0.0], [0.0]]
        equal = np.concatenate([eye[high] - eye[low], np.zeros(groups)])[None]
        cost = np.concatenate([np.zeros(groups), share])
        bounds = [(0, 1)] * groups + [(0, None)] * groups
        found = linprog(cost, np.vstack(A), np.concatenate(b), equal, [gap], bounds)
        if found.success:
            best = max(best, 1 - found.fun)
    return best


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 200)), min_size=2, max_size=4),
    st.floats(0, 1),
)
def test_agrees_with_the_linear_program(groups: list[tuple[float, int]], gap: float) -> None:
    base, sizes = (np.array(values, float) for values in zip(*groups, strict=True))
    assert best_accuracy(base, sizes, gap) == pytest.approx(by_linear_program(base, sizes, gap), abs=1e-7)


@given(st.floats(0, 1), st.floats(0, 1))
def test_two_equal_groups_follow_the_protocols_formula(parity: float, gap: float) -> None:
    base = [0.5 - parity / 2, 0.5 + parity / 2]
    assert best_accuracy(base, [100, 100], gap) == pytest.approx(1 - abs(gap - parity) / 2)


def test_no_answers_beat_the_bound_and_some_reach_it() -> None:
    """Every count of yeses per group in a small table, given to the right rows first."""
    groups = np.repeat(["F", "M"], [4, 6])
    labels = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 1])
    for women in range(5):
        for men in range(7):
            predicted = np.zeros(10)
            predicted[[3, 0, 1, 2][:women]] = 1
            predicted[[6, 7, 8, 9, 4, 5][:men]] = 1
            found = group_metrics(predicted, labels, groups)
            bound = best_accuracy([1 / 4, 4 / 6], [4, 6], found.demographic_parity_difference)
            assert found.accuracy <= bound + 1e-12
    assert best_accuracy([1 / 4, 4 / 6], [4, 6], 4 / 6 - 1 / 4) == pytest.approx(1.0)


def test_the_frontier_peaks_at_the_base_parity() -> None:
    gaps, accuracy = frontier([0.25, 0.75], [100, 100])
    assert gaps[accuracy.argmax()] == pytest.approx(0.5)
    assert accuracy.max() == 1.0
    assert accuracy[0] == pytest.approx(0.75)


def test_undefined_for_one_group() -> None:
    assert np.isnan(best_accuracy([0.5], [10], 0.0))


def test_answers_that_need_no_model() -> None:
    labels, groups = np.repeat([0, 1, 0, 1], [75, 25, 25, 75]), np.repeat(["F", "M"], 100)
    found = {
        name: group_metrics(answers, labels, groups)
        for name, answers in constant_answers(labels, groups).items()
    }
    shown = {name: (m.accuracy, m.demographic_parity_difference) for name, m in found.items()}
    assert shown == {
        "oracle": (1.0, 0.5),
        "always yes": (0.5, 0.0),
        "always no": (0.5, 0.0),
        "majority": (0.5, 0.0),
        "group alone": (0.75, 1.0),
    }
