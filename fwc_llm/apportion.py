"""Apportionment: rounds quotas to whole numbers with a given sum."""

import numpy as np


def largest_remainder(
    quota: np.ndarray,
    total: int,
    least: "int | np.ndarray" = 0,
    most: "float | np.ndarray" = np.inf,
) -> np.ndarray:
    """Round the `quota` (k,) to whole numbers (k,) that sum to `total`.

    Quotas with the largest remainders are rounded up; of equal remainders, the earlier one. Every
    number stays within `least` and `most`. Where these bounds move a number, other numbers make up
    the difference.
    """
    seats = np.clip(np.floor(quota + 1e-9), least, most).astype(np.int64)
    while seats.sum() < total:
        seats[int(np.argmax(np.where(seats < most, quota - seats, -np.inf)))] += 1
    while seats.sum() > total:
        surplus = np.where(seats > least, seats - quota, -np.inf)
        seats[len(seats) - 1 - int(np.argmax(surplus[::-1]))] -= 1
    return seats
