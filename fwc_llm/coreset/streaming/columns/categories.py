"""The values of ordinal and categorical columns in the order of the whole table."""

from typing import Any

import numpy as np

from fwc_llm.errors import InputError

MOST_CATEGORIES = 2**20  # of a column: their texts stay in memory


class Appeared:
    """The values of a categorical column with the block and place where each appears first."""

    def __init__(self) -> None:
        self._first: dict[Any, tuple[int, int]] = {}

    @classmethod
    def of(cls, index: int, values: np.ndarray) -> "Appeared":
        """The distinct values of a block in the order in which they appear."""
        found = cls()
        found._first = {value: (index, k) for k, value in enumerate(values.tolist())}
        return found

    def add(self, other: "Appeared", name: Any) -> None:
        """Those of other blocks, too."""
        for value, place in other._first.items():
            mine = self._first.get(value)
            if mine is None or place < mine:
                self._first[value] = place
        if len(self._first) > MOST_CATEGORIES:
            raise InputError(
                f"column {name!r} holds more than {MOST_CATEGORIES:,} different values: leave it out, or "
                "turn it into a few categories or a number"
            )

    @property
    def values(self) -> np.ndarray:
        """All values in the order in which they appear in the table."""
        found = np.empty(len(self._first), object)
        found[:] = sorted(self._first, key=self._first.__getitem__)
        return found


class Ranked:
    """The categories of an ordinal column in their order, and how many rows, of which mass, have each."""

    def __init__(self, values: list[Any], counts: dict[int, np.ndarray], where: str) -> None:
        self.values = values
        self.where = where
        self._counts = counts  # by block, so that sums of masses do not depend on the order

    @classmethod
    def of(
        cls, index: int, values: Any, codes: np.ndarray, weights: np.ndarray | None, where: str
    ) -> "Ranked":
        """Those of a block, whose rows have these `codes` among the categories `values`."""
        counts = np.bincount(codes, weights, minlength=len(values)).astype(float)
        return cls(list(values), {index: counts}, where)

    def add(self, other: "Ranked", name: Any) -> None:
        """Those of other blocks: the same categories, or one side has all of the other in the same order."""
        if self.values == other.values:
            self._counts |= other._counts
            return
        longer, shorter = (self, other) if len(self.values) >= len(other.values) else (other, self)
        place = {value: k for k, value in enumerate(longer.values)}
        places = [place.get(value, -1) for value in shorter.values]
        if -1 in places or places != sorted(places):
            raise InputError(
                f"the ordered categories of column {name!r} differ: {self.values[:20]} in {self.where}, "
                f"{other.values[:20]} in {other.where}; give them one order"
            )
        moved = {}
        for index, counts in shorter._counts.items():
            moved[index] = np.zeros(len(longer.values))
            moved[index][places] = counts
        self._counts = longer._counts | moved
        self.values, self.where = longer.values, longer.where

    def moments(self) -> tuple[float, float, float, float]:
        """Lowest and highest rank with mass, mean and standard deviation of the ranks."""
        counts = np.sum([self._counts[index] for index in sorted(self._counts)], axis=0)
        ranks = np.arange(len(counts), dtype=float)
        used = ranks[counts > 0]
        mean = float(ranks @ counts / counts.sum())
        return used[0], used[-1], mean, float(np.sqrt(counts @ (ranks - mean) ** 2 / counts.sum()))
