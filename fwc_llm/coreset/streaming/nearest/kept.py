"""What the last reading found of every row, three or four bytes each, for the readings that follow.

It stays in the process that found it. Where it is not at hand (another worker has the block now, or there was
no room), all distances are computed again.
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np

_ROOM = 2**29  # bytes


@dataclass(frozen=True)
class Known:
    """What a reading found of a block at some points (m, p) and prices (G,).

    A row's representative is cheaper, by its gap at least, than any other one at these prices.
    """

    reading: str
    points: np.ndarray
    prices: np.ndarray
    packed: np.ndarray  # (b,) representatives, from 1 on; 0: none that is sure
    gaps: np.ndarray  # (b,) uint16: the first bits of float32 numbers

    @classmethod
    def of(
        cls, reading: str, points: np.ndarray, prices: np.ndarray, label: np.ndarray, gap: np.ndarray
    ) -> "Known":
        """Of labels (b,) from −1 to m − 1 and gaps (b,) float32, which are not negative."""
        m = len(points)
        packed = (label + 1).astype(np.uint8 if m < 255 else np.uint16 if m < 65535 else np.uint32)
        return cls(reading, points, prices, packed, (gap.view(np.uint32) >> 16).astype(np.uint16))

    @property
    def label(self) -> np.ndarray:
        """(b,) representatives, −1 for none that is sure."""
        return self.packed.astype(np.int64) - 1

    @property
    def gap(self) -> np.ndarray:
        """(b,) float32, rounded down."""
        return (self.gaps.astype(np.uint32) << 16).view(np.float32)

    @property
    def nbytes(self) -> int:
        """What counts of it in memory."""
        return self.packed.nbytes + self.gaps.nbytes


class Kept:
    """What is known of blocks by fit; the oldest fits are forgotten first."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._held: dict[str, dict[int, Known]] = {}
        self._bytes = 0
        self._lock = Lock()

    def keep(self, fit: str, block: int, known: Known) -> None:
        """Keeps what is known of a block, instead of what was, if there is room."""
        with self._lock:
            before = self._held.get(fit, {}).pop(block, None)
            self._bytes -= 0 if before is None else before.nbytes
            while self._bytes + known.nbytes > self._room and next(iter(self._held), fit) != fit:
                self._drop(next(iter(self._held)))
            if self._bytes + known.nbytes <= self._room:
                self._held.setdefault(fit, {})[block] = known
                self._bytes += known.nbytes

    def find(self, fit: str, block: int) -> Known | None:
        """What is known of a block, None if that is not there."""
        return self._held.get(fit, {}).get(block)

    def forget(self, fit: str) -> None:
        """Makes room."""
        with self._lock:
            if fit in self._held:
                self._drop(fit)

    def _drop(self, fit: str) -> None:
        self._bytes -= sum(known.nbytes for known in self._held.pop(fit).values())


KEPT = Kept()  # of this process
