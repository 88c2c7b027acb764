"""Tables as blocks of rows, and threads that work on the blocks."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Part = TypeVar("Part")
Columns = tuple[Any, Any, Any, Any]  # X, y, sensitive and sample_weight

_VALUES = 2**22  # of a block: 32 MiB as float64
_FEWEST, BLOCK_ROWS = 2**10, 2**17  # rows of a block, at least and at most
MERGED = 8  # parts that are merged at once


@dataclass(frozen=True)
class Block:
    """Consecutive rows: X (b, p) as an array or DataFrame, y (b,), sensitive (b,) or (b, k), weight (b,).

    What was not given is None. `first` is the position of the first row in the table; `where` names the
    table in errors. Blocks are numbered 0, 1, … by `index`. A block may be empty.
    """

    index: int
    first: int
    where: str
    X: Any
    y: Any = None
    sensitive: Any = None
    weight: Any = None


class Table(Protocol):
    """A table in blocks: the same rows in the same order at every reading."""

    @property
    def texts(self) -> frozenset[str]:
        """The columns of text, which blocks hold as categories."""

    @property
    def name(self) -> str:
        """The table in errors."""

    @property
    def n(self) -> int:
        """Number of rows."""

    def whole(self) -> Columns:
        """All rows in memory."""

    def read(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[list[Part]], Part],
        tick: Callable[[float], None],
    ) -> Part:
        """Return the merged `task` of every block.

        Task and merge can be pickled, and run in any order: sums of floating-point numbers stay apart by the
        number of the block. `tick` takes the share of the rows that are done.

        Raises:
            InputError: a block cannot be read or is refused.
        """


def is_on_disk(X: Any) -> bool:
    """Whether only `FairCoreset.fit` reads this: files, datasets, tables of Dask."""
    return is_dask(X) or is_dataset(X) or isinstance(X, str | os.PathLike) or are_paths(X)


def is_dask(X: Any, module: str = "dask") -> bool:
    """Whether it is a collection of Dask, or of this module of it; Dask is not imported for it."""
    return any(f"{base.__module__}.".startswith(f"{module}.") for base in type(X).__mro__)


def is_dataset(X: Any) -> bool:
    """Whether it is a pyarrow `Dataset`."""
    return hasattr(X, "get_fragments") and hasattr(X, "schema")


def are_paths(X: Any) -> bool:
    """Whether it is a list of paths."""
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(x, str | os.PathLike) for x in X)


def block_rows(columns: int) -> int:
    """Rows of a block of a table with so many columns."""
    return min(max(_VALUES // max(columns, 1), _FEWEST), BLOCK_ROWS)


def read_blocks(
    blocks: Iterator[Block],
    task: Callable[[Block], Part],
    merge: Callable[[list[Part]], Part],
    tick: Callable[[float], None],
    n: int,
    threads: int,
) -> Part:
    """Read blocks in this thread, and run the task of each in others: a block a thread is in memory."""
    parts: list[Part] = []
    waiting: deque[tuple[int, Future[Part]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="fwc-llm-blocks")

    def take() -> None:
        done, future = waiting.popleft()
        parts.append(future.result())
        tick(done / n)
        if len(parts) == MERGED:
            parts[:] = [merge(parts)]

    try:
        for block in blocks:
            waiting.append((block.first + len(block.X), pool.submit(task, block)))
            del block
            if len(waiting) > threads:
                take()
        while waiting:
            take()
    finally:
        pool.shutdown(cancel_futures=True)
    return merge(parts)
