"""What the streamed solver asks of a table: blocks of rows that can be read again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.entry import Encoding

Part = TypeVar("Part")


@dataclass(frozen=True)
class Block:
    """Consecutive rows as their owner has them.

    `rows` are an array (b, p) or a pandas DataFrame; `y` (b,) and `sensitive` (b,) or (b, k) their labels,
    None if there are none; `weight` (b,) or None. `where` names the place for errors: a file and its row
    group, or the number of the block; `start` is the number of the first row there. `first` is that row's
    place in the table, None where nobody knows it ahead. A block may be empty.

    `read` holds columns, by name, as they were read: numbers, or places among distinct values, and these.
    """

    index: int  # 0, 1, … in the order of the table
    rows: Any
    y: Any = None
    sensitive: Any = None
    weight: Any = None
    where: str = ""
    start: int = 0
    first: int | None = None
    read: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


class Source(Protocol):
    """A table in blocks: the same rows in the same blocks and order at every reading."""

    @property
    def name(self) -> str:
        """What users call it, such as its path."""

    @property
    def stamp(self) -> str:
        """Tells whether it is still the same table (sizes and times of files), without reading it.

        It is compared after every reading, and kept with a checkpoint.
        """

    def reduce(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[Part, Part], Part],
        tick: Callable[[int, int], None] | None = None,
    ) -> Part:
        """Read every block once: `task` of each, merged two by two in any order.

        A merge may change its first part. Task and merge can be pickled and may run elsewhere at the same
        time, so the result must not depend on the order: sums are of whole numbers, or kept by the block's
        index. `tick(done, blocks)` tells how far it is; `blocks` is 0 while their number is unknown.

        Raises:
            InputError: a block that cannot be read or checked, by its `where`.
        """


@dataclass(frozen=True)
class Coded:
    """A block as the solver reads it: its table, the cell of every row (b,), and masses (b,) or None."""

    index: int
    first: int  # position of its first row in the whole table
    table: Table
    cell: np.ndarray
    mass: np.ndarray | None = None


class Reader(Protocol):
    """Encodes a block as the whole table is encoded; it can be pickled."""

    def __call__(self, block: Block) -> Coded:
        """The block encoded; `InputError` by its `where` for a value that the survey did not see."""


@dataclass(frozen=True)
class Survey:
    """What the first reading of a table finds.

    `cells` are those of the sample's rows (s,), but their `counts` and `sizes` are of the whole table.
    `lengths` are the rows of each block. `sample` is encoded as the whole table is; `positions` (s,)
    ascending are where its rows stand in the whole table; `raw` are the same rows as their owner has them
    (array or DataFrame), for representatives that are real rows. Where the sample is the whole table,
    nothing is left to stream. `mass` (s,) are the weights of the sample's rows, None for 1 each.
    `has_y` and `has_levels` say whether the blocks have outcomes and protected levels. Another table has
    another `fingerprint`.
    """

    reader: Reader
    encoding: Encoding
    lengths: tuple[int, ...]
    sample: Table
    cells: Cells
    positions: np.ndarray
    raw: Any
    mass: np.ndarray | None = None
    has_y: bool = True
    has_levels: bool = True
    fingerprint: str = ""

    @property
    def n(self) -> int:
        """Rows of the whole table."""
        return sum(self.lengths)
