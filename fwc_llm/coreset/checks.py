"""Checks of what a caller may give, one wording for each."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from fwc_llm.errors import InputError


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise InputError(f"{name}={value!r} is unknown: use one of {', '.join(choices)}")


def check_epsilon(epsilon: Any) -> None:
    """Refuse a parity limit that is neither a number from 0 to below 1 nor None."""
    if epsilon is not None and not (isinstance(epsilon, Real) and 0 <= float(epsilon) < 1):
        raise InputError(f"epsilon is {epsilon!r}: give a number from 0 to below 1, or None for no limit")


def check_not_negative(name: str, value: Any) -> None:
    """Refuse anything but a finite number of at least 0."""
    if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise InputError(f"{name}={value!r}: give a number of at least 0")


def candidate_mask(candidates: Any, n: int) -> np.ndarray:
    """Which of n rows may be chosen, (n,) bool; None stands for all of them."""
    if candidates is None:
        return np.ones(n, bool)
    mask = np.asarray(candidates)
    if mask.dtype != bool or mask.shape != (n,):
        raise InputError(
            f"candidates must be a boolean mask, one bool a row, ({n},): got {mask.dtype} {mask.shape}"
        )
    return mask
