"""Weights of the rows: what each of them stands for (docs/method.md, "Weighted rows")."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.errors import InputError

_DUST = 5e-10  # of all mass: below the certificate's tolerance
_MOST_UNITS = 61  # bits of the sum of all units: their sums, twice over, stay within int64


@dataclass(frozen=True)
class Masses:
    """The weights of n rows, not all equal, scaled by a power of two so that their mean is near 1.

    The power of two changes no digit: sums of whole weights stay exact. `values` (n,) are float64 and finite,
    and not negative.
    """

    values: np.ndarray

    @cached_property
    def total(self) -> float:
        """Their sum."""
        return float(self.values.sum())

    @cached_property
    def positive(self) -> np.ndarray | None:
        """The rows with a positive weight, (n',); None if all have one."""
        return None if self.values.all() else np.flatnonzero(self.values)

    @cached_property
    def unit(self) -> float:
        """The mass of a unit, a power of two."""
        spare = _MOST_UNITS - int(np.frexp(self.total)[1])
        return float(np.ldexp(1.0, -min(spare, 60)))

    @cached_property
    def units(self) -> np.ndarray:
        """(n,) int64 the masses as whole numbers of units, for sums that must not depend on their order.

        A weight below 2⁻⁶¹ of all weight has none.
        """
        return np.asarray(np.rint(self.values / self.unit), dtype=np.int64)

    def heavy(self) -> np.ndarray:
        """The rows, (n',), without the lightest ones, which together have less than 5e-10 of all mass."""
        order = np.argsort(self.values, kind="stable")
        light = int(np.cumsum(self.values[order]).searchsorted(_DUST * self.total))
        return np.sort(order[light:])

    def priorities(self, rng: np.random.Generator) -> np.ndarray:
        """(n,) how soon each row is sampled, the highest first (Duffield, Lund and Thorup 2007)."""
        return np.asarray(self.values / (1.0 - rng.random(len(self.values))))

    def sampled(self, rows: np.ndarray, priority: np.ndarray) -> "Masses | None":
        """The masses of some `rows`, of the highest priorities: with them, every sum is unbiased."""
        left = len(self.values) - len(rows)
        least = np.partition(priority, left - 1)[left - 1] if left > 0 else 0.0
        return Masses(np.maximum(self.values[rows], least)).take(slice(None))

    def take(self, rows: np.ndarray | slice) -> "Masses | None":
        """The masses of some rows; None if they are equal."""
        values = self.values[rows]
        return None if values.min() == values.max() else Masses(values)


def random_order(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All places (n,) in random order: each next one is drawn from those left, in proportion to its weight.

    The least of exponential times whose rates are the weights comes first (Efraimidis and Spirakis 2006).
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.argsort(rng.exponential(size=len(weights)) / weights, kind="stable")


def read_weights(sample_weight: Any, n: int) -> Masses | None:
    """The weights (n,) that a caller gave; None if none were given or all are equal, which is the same.

    Raises `InputError` unless the weights are one number per row (n,), finite, not negative and not all 0.
    """
    if sample_weight is None or isinstance(sample_weight, Masses):
        return sample_weight
    if np.ma.is_masked(sample_weight):
        raise InputError("sample_weight is an array with masked values: drop such rows")
    weights = read_numbers(sample_weight, "sample_weight").astype(np.float64)
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}: give one weight for each row, ({n},)")
    wrong = ~((weights >= 0) & (weights < np.inf))  # NaN too
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"sample_weight of row {row} is {weights[row]:g}: weights are finite numbers of at least 0"
        )
    largest = weights.max(initial=0.0)
    if largest == 0:
        raise InputError("sample_weight is zero for every row: give at least one row a positive weight")
    if weights.min() == largest:
        return None
    # In two steps: the sum of the largest weights may be beyond float64.
    scaled = np.ldexp(weights, -int(np.frexp(largest)[1]))
    mean = scaled.sum() / np.count_nonzero(scaled)
    return Masses(np.ldexp(scaled, -int(np.frexp(mean)[1])))


def read_numbers(values: Any, name: str) -> np.ndarray:
    """Numbers that a caller gave: float32 stays float32, all else becomes float64."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"{array.dtype} found")
        return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error})") from None
