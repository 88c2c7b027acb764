"""Shares as whole numbers."""

import numpy as np


def largest_remainder(
    quota: np.ndarray, total: int, least: "int | np.ndarray" = 0, most: "float | np.ndarray" = np.inf
) -> np.ndarray:
    """Whole numbers (k,) that sum to `total`, each the `quota` (k,) rounded down or up.

    Those with the largest remainders are rounded up, ties to the earlier. All stay within `least` and `most`;
    the others make up the difference.
    """
    seats = np.clip(np.floor(quota + 1e-9), least, most).astype(np.int64)
    while seats.sum() < total:
        seats[int(np.argmax(np.where(seats < most, quota - seats, -np.inf)))] += 1
    while seats.sum() > total:
        surplus = np.where(seats > least, seats - quota, -np.inf)
        seats[len(seats) - 1 - int(np.argmax(surplus[::-1]))] -= 1
    return seats
