"""Shares as whole numbers."""

import numpy as np
import pytest

from fwc_llm.apportion import largest_remainder


@pytest.mark.parametrize(
    ("quota", "least", "most", "expected"),
    [
        ([4 / 3, 4 / 3, 4 / 3], 0, 99, [2, 1, 1]),  # a tie goes to the earlier
        ([0.5, 2.0, 1.5], 0, 99, [1, 2, 1]),
        ([3.92, 0.04, 0.04], 1, 99, [2, 1, 1]),  # what the least takes, the largest surplus gives
        ([3.9, 0.1, 0.0], 0, np.array([2, 9, 1]), [2, 1, 1]),
        ([2.9999999999999996, 1.0, 0.0], 0, 99, [3, 1, 0]),  # rounding is no remainder
    ],
)
def test_the_largest_remainders_are_rounded_up(
    quota: list[float], least: int, most: int, expected: list[int]
) -> None:
    assert largest_remainder(np.array(quota), 4, least, most).tolist() == expected


def test_they_sum_to_the_total_and_stay_within_one_of_the_quota() -> None:
    rng = np.random.default_rng(0)
    for total in range(1, 60):
        quota = rng.dirichlet(np.ones(7)) * total
        seats = largest_remainder(quota, total)
        assert seats.sum() == total
        assert (np.abs(seats - quota) < 1).all()
