"""Whether a table is the one that was read before: a check sum of every block, a fingerprint of the whole."""

import hashlib
from typing import Any
from zlib import crc32

import numpy as np

from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.streaming.blocks import Block, Survey

_WORD, _BITS = 8, 2**64 - 1
_TILE = 512  # words that are added up without regard to their order, which is fast
_EVERY = 4  # one tile of so many is looked at, which makes it as fast again
_LOOKED_AT = 512  # values of a block's text that are checked


def block_sum(block: Block, keys: list[Any], place: np.ndarray) -> int:
    """A check sum of a block's rows, weights and labels, in their order; 64 bits.

    Every row has the label `keys[place]`. Of a large block all labels count, but only some of the values.
    """
    total = _sum(_hashes(keys)[place], 1)
    columns = _columns(block.rows)
    if block.weight is not None:
        columns.append(block.weight)
    for k, column in enumerate(columns):
        total += (2 * k + 1) * _sum_of_values(column)
    return total & _BITS


def _columns(rows: Any) -> list[Any]:
    """What holds the values of rows: arrays, or columns that are none."""
    if not is_frame(rows):
        return [rows]
    columns = [_plain(column) for _, column in rows.items()]
    if len(columns) > 1 and all(isinstance(column, np.ndarray) for column in columns):
        base = columns[0].base
        if getattr(base, "ndim", 0) == 2 and all(column.base is base for column in columns):
            return [rows.to_numpy()]  # a view of what the columns share
    return columns


def _plain(values: Any) -> Any:
    """The array of a column of numbers; another column as it is."""
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "biufmM":
        return values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    return values


def _sum_of_values(values: Any) -> int:
    kind = getattr(values, "dtype", None)
    if hasattr(kind, "categories"):
        codes = values.cat.codes.to_numpy() if hasattr(values, "cat") else np.asarray(values.codes)
        hashes = _hashes([*values.cat.categories.tolist(), None])
        return _sum(hashes[codes], _TILE)
    values = _plain(values)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return _sum_of_bits(values)
    found = values.to_numpy(object) if hasattr(values, "to_numpy") else np.asarray(values, object)
    some = np.linspace(0, len(found) - 1, min(len(found), _LOOKED_AT)).astype(np.int64)
    return crc32(repr(found[some].tolist()).encode("utf-8", "backslashreplace"))


def _sum_of_bits(array: np.ndarray) -> int:
    """Of what lies in memory, as whole numbers."""
    if array.ndim == 2 and not array.flags.c_contiguous and array[:, 0].flags.c_contiguous:
        return sum((2 * k + 1) * _sum_of_bits(column) for k, column in enumerate(array.T))
    if array.itemsize > _WORD:  # longer numbers have bytes that mean nothing
        array = array.astype(np.float64)
    ordered = np.ascontiguousarray(array)
    data = ordered.reshape(-1).view(np.uint8)
    whole = len(data) // _WORD * _WORD
    return _sum(data[:whole].view(np.uint64), _TILE) + int(data[whole:].sum(dtype=np.uint64))


def _sum(words: np.ndarray, tile: int) -> int:
    """The sum of the words (uint64), each times the odd number of its tile, past the end of 64 bits."""
    whole = len(words) // tile * tile
    sums = words[:whole].reshape(-1, tile)[::_EVERY].sum(axis=1) if tile > 1 else words
    weights = np.arange(1, 2 * len(sums), 2, dtype=np.uint64)
    rest = int(words[whole:].sum(dtype=np.uint64)) * (2 * len(sums) + 1)
    return int((sums * weights).sum(dtype=np.uint64)) + rest


def _hashes(values: list[Any]) -> np.ndarray:
    """Numbers for values, the same in every process."""
    said = (repr(value).encode("utf-8", "backslashreplace") for value in values)
    return np.fromiter((crc32(one) for one in said), np.uint64, len(values))


def fingerprint(survey: Survey, sums: np.ndarray) -> str:
    """A hash of what a survey found; `sums` (blocks,) are the blocks' check sums."""
    cells, columns = survey.cells, survey.encoding.columns if survey.encoding is not None else ()
    coding = [
        (column.name, column.kind, float(column.mean), float(column.scale), column.values.tolist())
        for column in columns
    ]
    labels = [None if part is None else np.asarray(part).tolist() for part in (cells.levels, cells.outcomes)]
    said = survey.lengths, survey.has_y, survey.has_levels, coding, labels, survey.sample.n_numeric
    digest = hashlib.sha256(repr(said).encode("utf-8", "backslashreplace"))
    mass = np.zeros(0) if survey.mass is None else survey.mass
    for array in (cells.counts, cells.sizes, sums, survey.sample.numbers, survey.sample.codes, mass):
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
