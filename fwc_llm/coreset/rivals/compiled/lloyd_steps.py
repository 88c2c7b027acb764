"""The steps of k-means, compiled: most rows are left out once the centres move little."""

from typing import Any

import numpy as np

from fwc_llm.coreset.compiled import read_only
from fwc_llm.coreset.rivals.compiled.lloyd_kernels import assign, come_closer, own_distances
from fwc_llm.coreset.threads import CHUNK, Threads
from fwc_llm.coreset.tile import ROWS, WIDTH


class CompiledLloyd:
    """The `fwc_llm.coreset.rivals.lloyd.Steps` of large tables, in threads."""

    def __init__(self, points: np.ndarray, k: int) -> None:
        n, q = points.shape
        self._x, self._k = read_only(np.ascontiguousarray(points, np.float32)), k
        self._threads = Threads()
        self._labels = np.full(n, -1, np.int32)
        self._upper, self._lower = np.zeros((2, n), np.float32)
        chunks = -(-n // CHUNK)
        self._sums, self._counts = np.zeros((chunks, k, q)), np.zeros((chunks, k), np.int64)
        self._centres = np.zeros((k, q), np.float32)
        blocks = np.zeros((-(-n // ROWS) * ROWS, q), np.float32)
        blocks[:n] = self._x
        self._blocks = np.ascontiguousarray(blocks.reshape(-1, ROWS, q).transpose(0, 2, 1))

    def reached(self, rows: np.ndarray, closest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`."""
        n, count = len(self._x), len(rows)
        size = len(self._blocks) * ROWS
        padded = np.zeros(size, np.float32)  # rows that fill up are at no distance
        padded[:n] = closest
        found = np.empty((count, size), np.float32)
        sums = np.zeros((-(-size // CHUNK), count, ROWS))
        tiles = _tiles(self._x[rows])

        def run(low: int) -> None:
            room = np.empty((WIDTH, ROWS), np.float32)
            high = min(low + CHUNK, size)
            come_closer(self._blocks, tiles, padded, found, sums, CHUNK, room, low, high)

        self._threads.over(run, range(0, size, CHUNK))
        return found[:, :n], sums.sum(axis=(0, 2))

    def assign(self, centres: np.ndarray) -> int:
        """See `Steps`."""
        steps = np.sqrt(((centres - self._centres) ** 2).sum(axis=1))
        steps = (steps * np.float32(1 + 1e-5)).astype(np.float32)
        self._centres = centres
        longest = np.sort(np.append(steps, np.float32(0)))[-2:]
        tiles, n, q = _tiles(centres), *self._x.shape
        slack = np.float32(1 + (q + 8) * 2.0**-23)

        def run(low: int) -> int:
            room: tuple[Any, ...] = (
                np.empty(ROWS, np.int64),
                np.empty((q, ROWS), np.float32),
                np.empty((WIDTH, ROWS), np.float32),
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.int32),
            )
            changed: int = assign(
                *(self._x, centres, tiles, steps, longest[1], longest[0]),
                *(self._labels, self._upper, self._lower, self._sums, self._counts, CHUNK, slack),
                *(*room, low, min(low + CHUNK, n)),
            )
            return changed

        return sum(self._threads.over(run, range(0, n, CHUNK)))

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`."""
        counts = self._counts.sum(axis=0)
        return self._sums.sum(axis=0) / np.maximum(counts, 1)[:, None], counts

    def labels(self) -> np.ndarray:
        """See `Steps`."""
        return self._labels.astype(np.int64)

    def distances(self) -> np.ndarray:
        """See `Steps`."""
        out = np.empty(len(self._x), np.float32)
        self._threads.over_rows(own_distances, self._x, self._centres, self._labels, out, n=len(out))
        return out


def _tiles(points: np.ndarray) -> np.ndarray:
    """(T, q, WIDTH) of the points (k, q); the last tile is filled up with the last point."""
    count = -(-len(points) // WIDTH)
    places = np.minimum(np.arange(count * WIDTH), len(points) - 1).reshape(count, WIDTH)
    return np.ascontiguousarray(points[places].transpose(0, 2, 1))
