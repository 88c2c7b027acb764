"""Ends, means and spreads of numbers, merged block by block (Chan, Golub and LeVeque 1983)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_TILE = 2048  # rows at once: with a few dozen columns they fit into the cache
_TINY, _HUGE = 1e-130, 1e130  # magnitudes whose squares need no care

Columns = Sequence[np.ndarray] | np.ndarray  # k columns (n,), or rows (n, k)


def tiles(columns: Columns, n: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Some rows at a time as float64 (k, t), columns first; the next ones take their place in memory."""
    k = columns.shape[1] if isinstance(columns, np.ndarray) else len(columns)
    buffer = np.empty((k, _TILE))
    for low in range(0, n, _TILE):
        high = min(low + _TILE, n)
        tile = buffer[:, : high - low]
        if isinstance(columns, np.ndarray):
            tile[:] = columns[low:high].T
        else:
            for k, column in enumerate(columns):
                tile[k] = column[low:high]
        yield low, high, tile


@dataclass(frozen=True)
class Moments:
    """Of the k columns of a block: ends (k,), mass, mean and sum of squared deviations of each.

    Mean and sum are in units of 2**`power` (k,), and of its square, so that they are finite.
    """

    low: np.ndarray
    high: np.ndarray
    mass: float
    power: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, columns: Columns, n: int, weights: np.ndarray | None = None) -> "Moments":
        """Those of n rows, at least one, which `weights` (n,) weigh; NaN and infinities show in the ends."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = cls._of(columns, n, weights, None)
            size = np.maximum(np.abs(found.low), np.abs(found.high))
            extreme = np.isfinite(size) & (size > 0) & ((size < _TINY) | (size > _HUGE))
            if extreme.any():
                found = cls._of(columns, n, weights, np.where(extreme, np.frexp(size)[1], 0))
        return found

    @classmethod
    def _of(cls, columns: Columns, n: int, weights: np.ndarray | None, power: np.ndarray | None) -> "Moments":
        shift: Any = None
        for begin, end, tile in tiles(columns, n):
            weight = None if weights is None else weights[begin:end]
            ends = tile.min(axis=1), tile.max(axis=1)
            if power is not None:
                np.ldexp(tile, -power[:, None], out=tile)
            if shift is None:
                shift = tile.mean(axis=1)
                low, high = ends
                first, second = np.zeros(len(shift)), np.zeros(len(shift))
            else:
                low, high = np.minimum(low, ends[0]), np.maximum(high, ends[1])
            tile -= shift[:, None]
            if weight is None:
                first += tile.sum(axis=1)
                second += np.square(tile, out=tile).sum(axis=1)
            else:
                first += tile @ weight
                second += np.square(tile, out=tile) @ weight
        mass = float(n) if weights is None else math.fsum(weights.tolist())
        squares = np.maximum(second - first * (first / mass), 0.0)
        return cls(
            low,
            high,
            mass,
            np.zeros(len(low), int) if power is None else power,
            shift + first / mass,
            squares,
        )


def merged(parts: Sequence[Moments]) -> Moments:
    """The moments of all blocks; sums are exact, so that the order of the blocks does not matter."""
    low = np.min([part.low for part in parts], axis=0)
    high = np.max([part.high for part in parts], axis=0)
    power = np.max([part.power for part in parts], axis=0)
    mass = math.fsum(part.mass for part in parts)
    share = np.array([part.mass / mass for part in parts])
    means = np.array([np.ldexp(part.mean, part.power - power) for part in parts])
    squares = np.array([np.ldexp(part.squares, 2 * (part.power - power)) for part in parts])
    mean = _exact(share[:, None] * means)
    between = (share * mass)[:, None] * (means - mean) ** 2
    return Moments(low, high, mass, power, mean, _exact(np.concatenate([squares, between])))


def _exact(terms: np.ndarray) -> np.ndarray:
    """The sums (k,) of the columns of `terms`, each rounded once."""
    return np.array([math.fsum(column) for column in terms.T.tolist()])
