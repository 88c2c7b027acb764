"""Whether a table is the one that was read before: a check sum of every block, a fingerprint of the whole."""

import hashlib
from typing import Any
from zlib import crc32

import numpy as np

from fwc_llm.coreset.problem.frames import is_frame, plain_array
from fwc_llm.coreset.streaming.blocks import Block, Survey

_WORD, _BITS = 8, 2**64 - 1
_TILE = 512  # words that are added up without regard to their order, which is fast


def block_sum(block: Block, keys: list[Any], place: np.ndarray) -> int:
    """A check sum of all values of a block that has been read, its weights and labels, in 64 bits.

    Every row has the label `keys[place]`. A single value that changes, changes the sum: texts, categories and
    labels up to a chance of 2⁻³² (their hashes may be equal), all others surely.
    """
    total = _sum_of_places(_hashes(keys), place)
    columns = _columns(block)
    if block.weight is not None:
        columns.append(np.asarray(block.weight, np.float64))
    for k, column in enumerate(columns):
        total += (2 * k + 1) * _sum_of_values(column)
    return total & _BITS


def _columns(block: Block) -> list[Any]:
    """What holds the values of rows: arrays, categories, or texts by their place among the distinct ones."""
    rows = block.rows
    if not is_frame(rows):
        return [plain_array(rows)]
    columns = [_plain(column, block.read.get(name)) for name, column in rows.items()]
    if len(columns) > 1 and all(isinstance(column, np.ndarray) for column in columns):
        base = columns[0].base
        if getattr(base, "ndim", 0) == 2 and all(column.base is base for column in columns):
            return [rows.to_numpy()]  # a view of what the columns share
    return columns


def _plain(column: Any, read: Any) -> Any:
    """The array of a column of numbers; categories as they are; another column as it was `read`."""
    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biufmM":
        return column.to_numpy()
    if read is None and not hasattr(kind, "categories"):
        return _hashes([column.name])  # a column that was not there before
    return column if read is None else read


def _sum_of_values(values: Any) -> int:
    if isinstance(values, np.ndarray):
        return _sum_of_bits(values)
    if isinstance(values, tuple):
        codes, distinct = values
    else:
        codes, distinct = values.cat.codes.to_numpy(), values.cat.categories
    return _sum(_hashes([*distinct.tolist(), None])[codes])


def _sum_of_bits(array: np.ndarray) -> int:
    """Of what lies in memory, as whole numbers."""
    if array.ndim == 2 and not array.flags.c_contiguous and array[:, 0].flags.c_contiguous:
        return sum((2 * k + 1) * _sum_of_bits(column) for k, column in enumerate(array.T))
    if array.itemsize > _WORD:  # longer numbers have bytes that mean nothing
        array = array.astype(np.float64)
    ordered = np.ascontiguousarray(array)
    data = ordered.reshape(-1).view(np.uint8)
    whole = len(data) // _WORD * _WORD
    return _sum(data[:whole].view(np.uint64)) + int(data[whole:].sum(dtype=np.uint64))


def _sum_of_places(hashes: np.ndarray, place: np.ndarray) -> int:
    """The sum of the hashes at few places, each times the odd number of its row, past the end of 64 bits."""
    rows = np.bincount(place, np.arange(1, 2 * len(place), 2, dtype=float), len(hashes))
    return int((rows.astype(np.uint64) * hashes).sum(dtype=np.uint64))


def _sum(words: np.ndarray) -> int:
    """The sum of the words (uint64), each times the odd number of its tile, past the end of 64 bits."""
    whole = len(words) // _TILE * _TILE
    sums = words[:whole].reshape(-1, _TILE).sum(axis=1)
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
