"""Arrays in files: read by their place in the file, so that none of their pages stay in memory."""

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.encoding import encode_array
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.streaming.blocks import Block, Part
from fwc_llm.coreset.streaming.sources.pool import Stream, block_rows, reduce_streams
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class Mapped:
    """Rows of an array that a file holds."""

    path: str
    offset: int
    dtype: Any
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: np.memmap) -> "Mapped | None":
        """Where a memory map lies; None if its rows do not follow each other in its file, or are changed.

        Changes of a map that is copied on writing (mode "c") are in memory alone.
        """
        root: Any = array
        while isinstance(root.base, np.memmap):
            root = root.base
        path = getattr(root, "filename", None)
        if path is None or root.mode == "c" or not array.flags.c_contiguous:
            return None
        offset = root.offset + array.ctypes.data - root.ctypes.data
        return cls(str(path), int(offset), array.dtype, array.shape)

    def read(self, low: int, high: int) -> np.ndarray:
        """Some of the rows."""
        found = np.empty((high - low, *self.shape[1:]), self.dtype)
        start = self.offset + low * (found.nbytes // max(high - low, 1))
        view = memoryview(found.reshape(-1).view(np.uint8).data)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(start)
            while len(view):
                read = file.readinto(view)
                if not read:
                    raise InputError(
                        f"{self.path} ends before row {high}: it has changed since it was opened"
                    )
                view = view[read:]
        return found

    @property
    def stamp(self) -> str:
        """The file's size and time."""
        try:
            state = os.stat(self.path)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error}") from None
        return f"{self.path} {state.st_size} {state.st_mtime_ns} {self.offset} {self.shape}"


Values = Mapped | Any  # in a file or in memory


def rows_of(values: Values, low: int, high: int) -> Any:
    """Some of the rows, in memory."""
    if isinstance(values, Mapped):
        return values.read(low, high)
    if hasattr(values, "iloc"):
        return values.iloc[low:high]
    return np.array(values[low:high]) if isinstance(values, np.memmap) else values[low:high]


@dataclass(frozen=True)
class MappedSource:
    """Arrays in files, or beside them in memory: features (n, p), labels, protected levels and weights."""

    name: str
    rows: Values
    n: int
    step: int  # rows of a block
    y: Values = None
    sensitive: Values = None
    weight: Values = None
    threads: int | None = None

    @classmethod
    def open(
        cls, array: np.memmap, y: Any, sensitive: Any, sample_weight: Any, threads: int | None
    ) -> "MappedSource":
        """The source of a memory map and what belongs to it, of which each may be a memory map, too."""
        encode_array(array[:1])  # what is wrong with it as a table is said before the work
        labels = {"y": y, "sensitive": sensitive, "weight": sample_weight}
        found = {what: _beside(values, what, len(array)) for what, values in labels.items()}
        name = str(getattr(array, "filename", None) or "X")
        place = Mapped.of(array)
        rows = array if place is None else place
        return cls(name, rows, len(array), block_rows(array.shape[1]), **found, threads=threads)

    @property
    def stamp(self) -> str:
        """Tells whether it is still the same table."""
        parts = (self.rows, self.y, self.sensitive, self.weight)
        files = [part.stamp for part in parts if isinstance(part, Mapped)]
        return "; ".join([*files, self._sums_in_memory])

    @cached_property
    def _sums_in_memory(self) -> str:
        """Of what lies in memory: made once, as the blocks' own sums are compared at every reading."""
        parts = (self.rows, self.y, self.sensitive, self.weight)
        return "; ".join(_sum(part) for part in parts if not isinstance(part, Mapped))

    def reduce(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None = None,
    ) -> Part:
        """`task` of every block, merged (`Source.reduce`)."""
        starts = range(0, self.n, self.step)
        streams: list[Stream] = [partial(self._read, k, low) for k, low in enumerate(starts)]
        return reduce_streams(streams, self.name, task, merge, tick, len(streams), self.threads)

    def _read(self, index: int, low: int) -> Iterator[Block]:
        high = min(low + self.step, self.n)
        block = Block(index, np.empty((0, 0)), where=self.name, start=low, first=low)
        try:
            parts = {
                part: rows_of(values, low, high)
                for part in ("rows", "y", "sensitive", "weight")
                if (values := getattr(self, part)) is not None
            }
        except OSError as error:
            raise InputError(f"{self.name} cannot be read from row {low} on: {error}") from error
        yield replace(block, **parts)


def _beside(values: Any, what: str, n: int) -> Values:
    """Labels or weights of n rows, where they lie."""
    if values is None:
        return None
    if isinstance(values, str | os.PathLike):
        values = open_array(values, what)
    if not (is_frame(values) or hasattr(values, "iloc") or isinstance(values, np.ndarray)):
        values = np.asarray(values)
    if np.ndim(values) == 0:
        raise InputError(f"{what} is {values!r}: pass one value per row, or the path of a .npy file")
    if len(values) != n:
        raise InputError(f"{what} has {len(values)} rows but X has {n}: pass one value per row")
    place = Mapped.of(values) if isinstance(values, np.memmap) else None
    return values if place is None else place


def open_array(path: Any, what: str) -> np.memmap:
    """The array of a .npy file as a memory map."""
    if not str(path).endswith(".npy"):
        raise InputError(
            f"{what}={str(path)!r}: an array's columns have no names; give the path of a .npy file, or values"
        )
    try:
        found = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as a .npy file ({error})") from None
    if not isinstance(found, np.memmap):
        raise InputError(f"{path} holds no plain array: save one by numpy.save")
    return found


def _sum(values: Any) -> str:
    """A check sum of what lies in memory."""
    if values is None:
        return "none"
    array = np.ascontiguousarray(values)
    data = repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
    return f"{array.dtype} {array.shape} {zlib.crc32(data)}"
