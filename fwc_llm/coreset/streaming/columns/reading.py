"""Blocks as the solver reads them: features as numbers and codes, every row's cell and mass."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.encoding import ColumnCode, Encoder, Table
from fwc_llm.coreset.problem.entry import ArrayScaler, Encoding
from fwc_llm.coreset.problem.frames import is_frame, plain_array
from fwc_llm.coreset.streaming.blocks import Block, Coded
from fwc_llm.coreset.streaming.collecting.identity import block_sum
from fwc_llm.coreset.streaming.columns.factors import factorize
from fwc_llm.coreset.streaming.columns.features import numbers_of
from fwc_llm.coreset.streaming.columns.groups import BlockGroups, Key
from fwc_llm.coreset.streaming.columns.moments import tiles
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class BlockReader:
    """Encodes blocks as the survey found that the whole table is encoded; it can be pickled.

    `powers` (k,) are those of `Moments`; `width` the columns of an array, of which numbers have the type
    `dtype`; `firsts` (blocks + 1,) where the blocks begin in the table; `unit` is what a weight of 1 counts,
    None where all rows count the same; `sums` (blocks,) are their check sums.
    """

    encoding: Encoding
    width: int
    dtype: Any
    powers: np.ndarray
    firsts: np.ndarray
    cells: dict[Key, int]
    unit: float | None
    sums: np.ndarray

    def __call__(self, block: Block) -> Coded:
        """The block encoded; `InputError` by its `where` for a value that the survey did not see."""
        n = len(block.rows)
        if block.index + 1 >= len(self.firsts) or n != np.diff(self.firsts)[block.index]:
            raise InputError(f"{block.where} has {n} rows, not those of the first reading: it has changed")
        mass = None if self.unit is None else read_masses(block, n, self.unit)
        if not n:
            return Coded(
                block.index, int(self.firsts[block.index]), self.empty(), np.empty(0, np.int64), mass
            )
        groups = BlockGroups.of(block, n, mass)
        cell = np.array([self.cells.get(key, -1) for key in groups.keys], np.int64)
        unknown = (cell < 0) & (groups.counts > 0)
        if unknown.any():
            key = groups.keys[int(unknown.argmax())]
            raise InputError(
                f"{block.where} holds the labels {key}, which the first reading did not see: it has changed"
            )
        table = self.encode(block)
        if block_sum(block, groups.keys, groups.place) != int(self.sums[block.index]):
            raise InputError(
                f"{block.where} holds other rows than at the first reading: it has changed while it was "
                "read; fit it while nobody writes to it"
            )
        # A row without mass may have a label that no other has: it counts nothing, wherever it is.
        return Coded(
            block.index,
            int(self.firsts[block.index]),
            table,
            np.maximum(cell, 0)[groups.place],
            mass,
        )

    @cached_property
    def lookups(self) -> dict[Any, dict[Any, int]]:
        """By ordinal or categorical column the place of each of its values."""
        if not isinstance(self.encoding, Encoder):
            return {}
        return {
            column.name: {value: k for k, value in enumerate(column.values.tolist())}
            for column in self.encoding.columns
            if column.kind != "numeric"
        }

    def check_costs(self, low: np.ndarray, high: np.ndarray, cost: str) -> None:
        """Refuse numbers between these ends (k,), in the units of X, whose costs are beyond float64."""
        ends = np.array([low, high])
        numbers = ends
        if self.encoding is not None:
            numbers = np.empty(ends.shape)
            self._scale(self.encoding, ends, numbers)
        Table(numbers, np.empty((2, 0), np.int32)).check_costs(cost)

    def empty(self) -> Table:
        """A table of no rows."""
        columns = self.encoding.columns if isinstance(self.encoding, Encoder) else ()
        coded = sum(column.kind == "categorical" for column in columns)
        k = len(columns) - coded if isinstance(self.encoding, Encoder) else self.width
        dtype = np.float64 if isinstance(self.encoding, Encoder) else self.dtype
        return Table(np.empty((0, k), dtype), np.empty((0, coded), np.int32))

    def encode(self, block: Block) -> Table:
        """The features of a block with rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._encode(block)

    def _encode(self, block: Block) -> Table:
        if isinstance(self.encoding, Encoder):
            return self._encode_frame(self.encoding, block)
        array = plain_array(block.rows) if not is_frame(block.rows) else None
        if array is None or array.ndim != 2 or array.shape[1] != self.width:
            raise InputError(f"X in {block.where} has no longer {self.width} columns: it has changed")
        if self.encoding is None:
            numbers = array.astype(self.dtype, copy=False)
        else:
            numbers = np.empty(array.shape, self.dtype)
            self._scale(self.encoding, array, numbers)
        _check(numbers, numbers.sum(dtype=np.float64), block)
        return Table(numbers, np.empty((len(array), 0), np.int32))

    def _encode_frame(self, encoder: Encoder, block: Block) -> Table:
        frame, n = block.rows, len(block.rows)
        numeric: list[np.ndarray] = []
        codes = np.empty((n, sum(column.kind == "categorical" for column in encoder.columns)), np.int32)
        coded = 0
        for column in encoder.columns:
            if not is_frame(frame) or column.name not in frame.columns:
                raise InputError(f"{block.where} has no longer the column {column.name!r}: it has changed")
            series = frame[column.name]
            if column.kind == "numeric":
                try:
                    numeric.append(numbers_of(series))
                    block.read[column.name] = numeric[-1]
                except (TypeError, ValueError):
                    raise InputError(
                        f"column {column.name!r} of {block.where} is no longer numeric"
                    ) from None
                continue
            codes_found = block.read[column.name] = factorize(series)
            places = _places(column, self.lookups[column.name], *codes_found, block)
            if column.kind == "categorical":
                codes[:, coded] = places
                coded += 1
            else:
                numeric.append(places)
        numbers = np.empty((n, len(numeric)))
        if numeric:
            _check(numbers, self._scale(encoder, numeric, numbers), block)
        return Table(numbers, codes)

    def _scale(self, encoding: Encoder | ArrayScaler, columns: Any, numbers: np.ndarray) -> float:
        """Write the z-scores of k columns (n,) or of rows (n, k) into `numbers` (n, k); return their sum."""
        known = [column for column in encoding.columns if column.kind != "categorical"]
        scale = np.array([column.scale for column in known])
        mean = np.array([column.mean for column in known])
        moved = np.isfinite(scale) & (self.powers != 0)
        power = np.where(moved, self.powers, 0)[:, None]
        mean, scale = (np.ldexp(part, -power[:, 0])[:, None] for part in (mean, scale))
        plain = not ((mean != 0).any() or (scale != 1).any())
        total = 0.0
        for low, high, tile in tiles(columns, len(numbers)):
            if moved.any():
                np.ldexp(tile, -power, out=tile)
            if not plain:
                tile -= mean
                tile /= scale
            total += float(tile.sum())
            numbers[low:high] = tile.T
        return total


def read_masses(block: Block, n: int, unit: float) -> np.ndarray:
    """The masses (n,) of a block's rows."""
    return np.asarray(block_weights(block, n) * unit)


def block_weights(block: Block, n: int) -> np.ndarray:
    """The weights (n,) of a block, which may all be 0; `InputError` by its `where` for what is no weight."""
    if block.weight is None:
        raise InputError(f"{block.where} has no sample_weight, but other blocks do: give every block its own")
    try:
        # One more, so that weights that are all zero or all the same are read as they are.
        padded = np.append(np.asarray(block.weight), 1.0) if n else np.ones(1)
        read_weights(padded, n + 1)
        return np.asarray(padded[:-1], dtype=np.float64)
    except InputError as error:
        raise InputError(f"{error} ({block.where}, from row {block.start} on)") from None
    except (TypeError, ValueError) as error:
        raise InputError(
            f"sample_weight must be numbers, one for each row ({error}; {block.where})"
        ) from None


def _places(
    column: ColumnCode, lookup: dict[Any, int], codes: np.ndarray, distinct: np.ndarray, block: Block
) -> np.ndarray:
    """The code of every value of a column."""
    place = np.array([lookup.get(value, -1) for value in distinct.tolist()] or [-1], np.int32)
    found: np.ndarray = place[codes]
    if codes.min() < 0 or found.min() < 0:
        row = int(((codes < 0) | (found < 0)).argmax())
        raise InputError(
            f"column {column.name!r} holds in row {block.start + row} of {block.where} what the first "
            "reading did not see: it has changed"
        )
    return found


def _check(numbers: np.ndarray, total: float, block: Block) -> None:
    """Refuse what the survey did not see; `total` is the sum of the numbers (n, k)."""
    if not np.isfinite(total) and not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers).all(axis=1)).argmax())
        raise InputError(
            f"row {block.start + row} of {block.where} holds a number that is missing or infinite, which the "
            "first reading did not see: it has changed"
        )
