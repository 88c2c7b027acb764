"""Row weights (docs/method.md, "Weighted rows")."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.errors import InputError

_DUST = 5e-10  # share of all mass, below the certificate's tolerance
_MOST_UNITS = 61  # bits of the sum of all units: twice this sum fits into int64


@dataclass(frozen=True)
class Masses:
    """The masses of n rows: 1 each, or weights scaled by a power of two to a mean near 1.

    A power of two changes no digit, so sums of whole weights stay exact.
    """

    values: Array  # (n,) float64, finite and not negative

    @cached_property
    def equal(self) -> bool:
        """Whether all masses are equal."""
        return bool((self.values == self.values[:1]).all())

    @cached_property
    def total(self) -> float:
        """Sum of all masses."""
        return float(self.values.sum())

    @cached_property
    def positive(self) -> Array:
        """Rows with a positive mass (n',), by position."""
        return np.flatnonzero(self.values)

    @cached_property
    def unit(self) -> float:
        """The mass of one of `units`, a power of two."""
        spare = _MOST_UNITS - int(np.frexp(self.total)[1])
        return float(np.ldexp(1.0, -min(spare, 60)))

    @cached_property
    def units(self) -> Array:
        """(n,) int64 masses in whole multiples of `unit`, for sums that do not depend on the order.

        A weight below about 2⁻⁶¹ of all weight becomes 0.
        """
        return np.asarray(np.rint(self.values / self.unit), dtype=np.int64)

    def heavy(self) -> Array:
        """Rows (n',), by position, without the lightest ones that together have at most 5e-10 of
        all mass.
        """
        order = np.argsort(self.values, kind="stable")
        light = int(np.cumsum(self.values[order]).searchsorted(_DUST * self.total))
        return np.sort(order[light:])

    def sampled(self, rows: Array, priority: Array) -> "Masses":
        """Masses of `rows`, those of highest `priority` (n,), with which weighted sums are
        unbiased.
        """
        left = len(self.values) - len(rows)
        least = 0.0
        if left > 0:
            least = np.partition(priority, left - 1)[left - 1]
        return Masses(np.maximum(self.values[rows], least))

    def take(self, rows: Array | slice) -> "Masses":
        """Masses of some rows."""
        return Masses(self.values[rows])


def random_order(weights: Array, rng: Rng) -> Array:
    """Draw all positions (n,) one by one, in proportion to the weights (Efraimidis and Spirakis
    2006).
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.argsort(rng.exponential(size=len(weights)) / weights, kind="stable")


def read_weights(
    given: Any, n: int, role: str = "sample_weight", of: str = "row"
) -> Masses:
    """Check the weights (n,) of rows, or of other things; None: 1 each."""
    if isinstance(given, Masses):
        return given
    if given is None:
        return Masses(np.ones(n))
    if np.ma.is_masked(given):
        raise InputError(f"{role} is an array with masked values: drop such {of}s")
    weights = read_numbers(given, role).astype(np.float64)
    if weights.shape != (n,):
        raise InputError(
            f"{role} has shape {weights.shape}: give one weight for each {of}, ({n},)"
        )
    wrong = ~((weights >= 0) & (weights < np.inf))  # NaN too
    if wrong.any():
        place = int(wrong.argmax())
        raise InputError(
            f"{role} of {of} {place} is {weights[place]:g}: weights are finite numbers of at "
            f"least 0"
        )
    largest = weights.max(initial=0.0)
    if largest == 0:
        raise InputError(
            f"{role} is zero for every {of}: give at least one {of} a positive weight"
        )
    if weights.min() == largest:
        return Masses(np.ones(n))
    # In two steps, because the sum of unscaled weights may overflow float64.
    scaled = np.ldexp(weights, -int(np.frexp(largest)[1]))
    mean = scaled.sum() / np.count_nonzero(scaled)
    return Masses(np.ldexp(scaled, -int(np.frexp(mean)[1])))


def read_numbers(values: Any, name: str) -> Array:
    """Return the caller's numbers as an array: float32 stays float32, all else becomes float64."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"{array.dtype} found")
        if array.dtype == np.float32:
            return array
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers ({error})") from None
