"""Sums of what blocks have, rounded alike in whatever order the blocks come."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass
class BlockSums:
    """Floating-point numbers (or arrays) of blocks, added up along a binary tree of the blocks' numbers.

    Node (l, i) is the sum of blocks i · 2^l to (i + 1) · 2^l − 1: two halves join when both are there, so the
    order in which blocks come decides nothing, and few nodes wait at a time.
    """

    nodes: dict[tuple[int, int], Any]

    @classmethod
    def of(cls, index: int, value: Any) -> Self:
        """What one block has."""
        return cls({(0, index): value})

    def join(self, other: Self) -> Self:
        """Adds what other blocks have."""
        for (level, index), value in other.nodes.items():
            while (level, index ^ 1) in self.nodes:
                value = self.nodes.pop((level, index ^ 1)) + value
                level, index = level + 1, index >> 1
            self.nodes[level, index] = value
        return self

    def total(self) -> Any:
        """The sum of all blocks, once they are all there."""
        order = sorted(self.nodes, key=lambda node: node[1] << node[0])
        return sum((self.nodes[node] for node in order[1:]), start=self.nodes[order[0]])
