"""Tables as blocks of rows, and threads that work on the blocks."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from fwc_llm.coreset.problem.frames import Columns

Part = TypeVar("Part")
_VALUES = 2**22  # of a block: 32 MiB as float64
_FEWEST, BLOCK_ROWS = 2**10, 2**17  # rows of a block, at least and at most
MERGED = 8  # lists of parts that are joined at once


@dataclass(frozen=True)
class Block:
    """Consecutive rows in memory, perhaps none, from position `first` on; `where` is the table in errors."""

    first: int
    where: str
    columns: Columns

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.columns.X)


@dataclass
class Table:
    """A table in blocks: the same rows in the same order at every reading.

    `name` is what errors call it. `parts` gives the columns of `n` rows a block at a time, `whole` all of
    them in memory. `threads` work on blocks.
    """

    name: str
    n: int
    threads: int
    parts: Callable[[], Iterator[Columns]]
    whole: Callable[[], Columns]

    def read(
        self,
        task: Callable[[Block], Part],
        shrink: Callable[[list[Part]], list[Part]],
        tick: Callable[[float], None],
    ) -> list[Part]:
        """Return the `task` of every block, in order; this thread reads, and others work: a block a thread.

        `shrink` may make the parts of consecutive blocks smaller at any time; it and the task can be pickled.
        `tick` takes the share of the rows that are done.

        Raises:
            InputError: a block cannot be read or is refused.
        """
        parts: list[Part] = []
        waiting: deque[tuple[int, Future[Part]]] = deque()
        first = 0
        with ThreadPoolExecutor(self.threads, thread_name_prefix="fwc-llm-blocks") as pool:
            for columns in chain(self.parts(), [None]):
                if columns is not None:
                    block = Block(first, self.name, columns)
                    first += block.n
                    waiting.append((first, pool.submit(task, block)))
                    del block
                while len(waiting) > (0 if columns is None else self.threads):
                    done, future = waiting.popleft()
                    parts.append(future.result())
                    tick(done / self.n)
                    if len(parts) % MERGED == 0:
                        parts = shrink(parts)
        return parts


def block_rows(columns: int) -> int:
    """Rows of a block of a table with so many columns."""
    return min(max(_VALUES // max(columns, 1), _FEWEST), BLOCK_ROWS)
