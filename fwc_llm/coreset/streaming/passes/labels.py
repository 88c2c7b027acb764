"""Labels of the last reading, one or two bytes a row, for the reading that follows at the same points.

They stay in the process that found them. Where they are not at hand (another worker has the block now, or
there was no room), they are found again.
"""

from threading import Lock

import numpy as np

_ROOM = 2**29  # bytes


class Labels:
    """The labels of blocks by reading; the oldest readings are forgotten first."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._held: dict[str, dict[int, np.ndarray]] = {}
        self._bytes = 0
        self._lock = Lock()

    def keep(self, reading: str, block: int, label: np.ndarray, m: int) -> None:
        """Keeps the labels (b,) of a block, from −1 to m − 1, if there is room."""
        packed = (label + 1).astype(np.uint8 if m < 255 else np.uint16 if m < 65535 else np.uint32)
        with self._lock:
            while self._bytes + packed.nbytes > self._room and next(iter(self._held), reading) != reading:
                self._drop(next(iter(self._held)))
            if self._bytes + packed.nbytes <= self._room:
                blocks = self._held.setdefault(reading, {})
                self._bytes += packed.nbytes - (blocks[block].nbytes if block in blocks else 0)
                blocks[block] = packed

    def find(self, reading: str, block: int) -> np.ndarray | None:
        """The labels of a block, None if they are not there."""
        packed = self._held.get(reading, {}).get(block)
        return None if packed is None else packed.astype(np.int64) - 1

    def forget(self, reading: str) -> None:
        """Makes room."""
        with self._lock:
            if reading in self._held:
                self._drop(reading)

    def _drop(self, reading: str) -> None:
        self._bytes -= sum(label.nbytes for label in self._held.pop(reading).values())


LABELS = Labels()  # of this process
