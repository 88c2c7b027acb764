"""Checks of arguments; each raises `InputError` for a bad value."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.threads import count_threads
from fwc_llm.coreset.weights import read_numbers
from fwc_llm.errors import InputError


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of `choices`."""
    if value not in choices:
        raise InputError(
            f"{name}={value!r} is unknown: use one of {', '.join(choices)}"
        )


def check_epsilon(epsilon: Any) -> None:
    """Refuse a parity limit unless it is None, a number in [0, 1), or {level: such a number}."""
    if isinstance(epsilon, Mapping) and epsilon and None not in epsilon.values():
        for limit in epsilon.values():
            check_epsilon(limit)
    elif epsilon is not None and not (
        isinstance(epsilon, Real) and 0 <= float(epsilon) < 1
    ):
        raise InputError(
            f"epsilon is {epsilon!r}: give a number from 0 to below 1, {{level: number}}, or None"
        )


def check_penalty(penalty: Any, epsilon: Any) -> None:
    """Refuse a penalty that is not a finite number of at least 0, or that comes with a parity
    limit.
    """
    if penalty is not None:
        check_not_negative("penalty", penalty)
        if epsilon is not None:
            raise InputError(
                "penalty replaces the limit: pass --epsilon none with it, or leave penalty out"
            )


def check_target(target: Any, n_outcomes: int) -> Array:
    """Return the target distribution p_T (|Y|,), outcomes in sorted order, scaled to sum exactly
    to 1.
    """
    share = read_numbers(target, "target").astype(np.float64)
    if share.shape != (n_outcomes,):
        raise InputError(
            f"target has shape {share.shape}: give one share for each of {n_outcomes} outcomes"
        )
    if not (
        np.isfinite(share).all() and (share > 0).all() and abs(share.sum() - 1) <= 1e-8
    ):
        raise InputError(
            f"target is {share.tolist()}: it must be positive shares that sum to 1"
        )
    return np.asarray(share / share.sum())


def check_not_negative(name: str, value: Any) -> None:
    """Refuse a value that is not a finite number of at least 0."""
    if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        raise InputError(f"{name}={value!r}: give a number of at least 0")


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse a value that is not a whole number of at least `least`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and value >= least):
        raise InputError(f"{name}={value!r}: give a whole number of at least {least}")


def generator(random_state: Any) -> Rng:
    """Return the Generator for a `RandomState` or for any seed that `numpy.random.default_rng`
    takes.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state={random_state!r} is not a seed ({error}): give an integer"
        ) from None


def check_jobs(n_jobs: Any) -> int | None:
    """Return the number of threads (None: all processors) for an `n_jobs` as in joblib: −2 is
    all but one.
    """
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InputError(
            f"n_jobs={n_jobs!r}: give a number of threads of at least 1, None or -1 for all "
            f"processors, "
            "-2 for all but one"
        )
    count = int(n_jobs)
    if count > 0:
        return count
    return max(1, count_threads() + 1 + count)


def candidate_mask(candidates: Any, n: int, name: str = "candidates") -> Array:
    """Return the mask (n,) of rows that may be chosen, from a mask, positions, or None for all
    rows; `name` in errors.
    """
    if candidates is None:
        return np.ones(n, bool)
    rows = np.asarray(candidates)
    mask = np.zeros(n, bool)
    if not rows.size:
        rows = rows.astype(int)
    try:
        mask[rows] = True
        once = rows.min(initial=0) >= 0 and mask.sum() == len(rows)
        valid = rows.ndim == 1 and (rows.dtype == bool or once)
    except (IndexError, TypeError):
        valid = False
    if not valid:
        raise InputError(
            f"{name} must be a boolean mask ({n},), or positions of rows from 0 to {n - 1}, "
            f"each of them "
            f"once: got {rows.dtype} {rows.shape}"
        )
    return mask
