"""Read Parquet files, pyarrow datasets, memory maps and Dask as blocks of rows.

Threads work on the blocks. The blocks of a Dask collection are its partitions, and Dask runs the
work on them: on the workers of the current client, else on the scheduler that Dask is set to. No
cluster is started.
"""

import glob
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.frames import (
    Columns,
    are_paths,
    is_dask,
    is_dataset,
    take_named,
)
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError
from fwc_llm.sanitize import described, replace_invisible, truncate

Part = TypeVar("Part")
Tick: TypeAlias = Callable[[float], None]  # gets the share of the rows that are done
_VALUES = 2**22  # values per block: 32 MiB as float64
# rows per block, at least and at most
_FEWEST = 2**10
BLOCK_ROWS = 2**17
MERGED = 8  # lists of parts that are joined at once


@dataclass(frozen=True)
class Block:
    """Consecutive rows in memory, from position `first` on, or no rows; errors call the table
    `where`.
    """

    first: int
    where: str
    columns: Columns

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.columns.X)

    @property
    def place(self) -> str:
        """The block in errors that number its rows from 0."""
        return f"{self.where}, whose row 0 is row {self.first} of X"

    def frame(self) -> Any:
        """The frame X, whose index are the rows' positions in the table."""
        return self.columns.X.set_axis(np.arange(self.first, self.first + self.n))


@dataclass
class BlockTable:
    """A table in blocks: the same rows in the same order in every pass."""

    name: str  # in errors
    n: int  # number of rows
    threads: int  # that work on the blocks
    parts: Callable[[], Iterator[Columns]]  # the rows block by block
    whole: Callable[[], Columns]  # all rows in memory

    def read(
        self,
        task: Callable[[Block], Part],
        shrink: Callable[[list[Part]], list[Part]],
        tick: Tick,
    ) -> list[Part]:
        """Return `task(block)` for every block, in order.

        This thread reads, the others run the tasks. `shrink` now and then replaces the results of
        consecutive blocks by smaller results. `task` and `shrink` can be pickled.
        """
        parts: list[Part] = []
        waiting: deque[tuple[int, Future[Part]]] = deque()
        first = 0
        with ThreadPoolExecutor(
            self.threads, thread_name_prefix="fwc-llm-blocks"
        ) as pool:
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
    """Rows per block of a table with this number of columns."""
    return min(max(_VALUES // max(columns, 1), _FEWEST), BLOCK_ROWS)


def open_table(columns: Columns, n_jobs: int | None = None) -> BlockTable | None:
    """Open a table as blocks; return None for an ordinary table in memory.

    X is a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files; a
    pyarrow `Dataset`; a memory map; or a dask.dataframe. Labels and weights are column names; for a
    memory map, arrays (n,).
    """
    X = columns.X
    threads = n_jobs or count_threads()
    if is_dask(X):
        return DaskTable(columns)
    if isinstance(X, np.memmap) and X.ndim == 2:
        return _map_table(columns, threads)
    if is_dataset(X):
        return _dataset_table(X, "the dataset", columns, threads)
    if are_paths(X):
        return _dataset_table(*_open_files(X), columns, threads)
    return None


def _map_table(columns: Columns, threads: int) -> BlockTable:
    """Open a memory map (n, p), with labels and weights that are memory maps or arrays."""
    n, p = columns.X.shape
    for role, values in columns.labels().items():
        if isinstance(values, str):
            raise InputError(
                f"{role}={values!r}: the columns of X have no names; pass the values"
            )
        if np.ndim(values) == 0 or len(values) != n:
            raise InputError(f"{role} has shape {np.shape(values)} but X has {n} rows")
    columns = columns.each(
        lambda part: part if hasattr(part, "iloc") else np.asanyarray(part)
    )

    def some(low: int, high: int) -> Columns:
        return columns.each(lambda part: copied(part, slice(low, high)))

    def parts() -> Iterator[Columns]:
        step = block_rows(p)
        for low in range(0, n, step):
            yield some(low, low + step)
            for part in columns:
                # Pages that were read would stay in memory. Pages of mode "c" may hold changes:
                # keep these.
                if (
                    isinstance(part, np.memmap)
                    and part.mode != "c"
                    and hasattr(mmap, "MADV_DONTNEED")
                ):
                    part._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]

    name = str(getattr(columns.X, "filename", None) or "X")
    return BlockTable(name, n, threads, parts, lambda: some(0, n))


def copied(part: Any, rows: Array | slice) -> Any:
    """Copy some rows of a column or table."""
    if hasattr(part, "iloc"):
        return part.iloc[rows]
    return np.array(part[rows])


def _dataset_table(dataset: Any, name: str, roles: Columns, threads: int) -> BlockTable:
    import pyarrow as pa

    named = partial(_named, names=roles[1:], where=name)

    def whole() -> Columns:
        with _reading(name):
            table = dataset.to_table(columns=columns)
        return named(table.to_pandas(ignore_metadata=True))

    def parts() -> Iterator[Columns]:
        """Yield blocks of equal length, whatever the files and row groups."""
        step = block_rows(len(columns))
        batches = dataset.to_batches(
            columns=columns, batch_size=step, batch_readahead=2, fragment_readahead=1
        )
        waiting: list[Any] = []
        buffered = 0
        batch: Any = True
        while batch is not None:
            with _reading(name):
                batch = next(batches, None)
            if batch is not None:
                waiting.append(batch)
                buffered += batch.num_rows
            while buffered >= step or (batch is None and buffered):
                table = pa.Table.from_batches(waiting)
                waiting = table.slice(step).to_batches()
                buffered = max(buffered - step, 0)
                table = table.slice(0, step).unify_dictionaries()
                yield named(table.to_pandas(split_blocks=True, ignore_metadata=True))
                del table

    index = (dataset.schema.pandas_metadata or {}).get("index_columns", ())
    columns = [column for column in dataset.schema.names if column not in index]
    if not named(pd.DataFrame(columns=columns)).X.shape[1]:
        raise InputError(
            f"{name} has no columns besides y, sensitive and weights: it needs a feature"
        )
    with _reading(name):
        n = int(dataset.count_rows())
    if not n:
        raise InputError(f"{name} has no rows: pass at least one")
    return BlockTable(name, n, threads, parts, whole)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turn errors of pyarrow into an `InputError` that names the table."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = replace_invisible(truncate(lines[0], 300))
        raise InputError(
            f"{name} cannot be read: {reason}; only Parquet files are read by path, others as a "
            f"pyarrow Dataset"
        ) from error


def _open_files(X: Any) -> tuple[Any, str]:
    """Open Parquet files as a dataset, with one common type per column; return it and its name."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise InputError(
            "to read files takes pyarrow: pip install 'fwc-llm[parquet]'"
        ) from None
    expanded = [
        os.path.expanduser(os.fspath(path))
        for path in (X if isinstance(X, list | tuple) else [X])
    ]
    name = truncate(", ".join(expanded), 300)
    paths: Any = [file for path in expanded for file in _files(path)]
    if len(expanded) == 1 and os.path.isdir(expanded[0]):
        paths = expanded[0]  # subfolders may be partitions
    options: Any = {
        "format": "parquet",
        "partitioning": "hive",
        "exclude_invalid_files": False,
    }
    with _reading(name):
        dataset = ds.dataset(paths, **options)
        schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
        schema = pa.unify_schemas(
            [*schemas, dataset.schema], promote_options="permissive"
        )
        return ds.dataset(paths, schema=schema, **options), name


def _files(path: str) -> list[str]:
    """List the Parquet files of a path, a pattern or a folder."""
    if os.path.exists(path):
        names = [path]
    else:
        names = sorted(glob.glob(path, recursive=True))
    if not names:
        raise InputError(
            f"{path}: there is no such file, and no file matches it as a pattern; pass files in "
            f"other "
            "places as a pyarrow Dataset"
        )
    files: list[str] = []
    for name in names:
        if os.path.isdir(name):
            inside = sorted(Path(name).rglob("*.parquet"))
        else:
            inside = [Path(name)]
        files += [str(file) for file in inside if file.is_file()]
    return files


class DaskTable(BlockTable):
    """A dask.dataframe; labels and weights are the names of its columns."""

    def __init__(self, columns: Columns) -> None:
        X = columns.X
        if not (is_dask(X, "dask.dataframe") and X.ndim == 2):
            raise InputError(
                f"X is a dask {type(X).__name__}: pass a dask.dataframe, such as "
                f"dask.dataframe.from_dask_array(X), with y, sensitive and weights as columns"
            )
        name = "the dask DataFrame"
        self._read = partial(_named, names=columns[1:], where=name)
        if not self._read(pd.DataFrame(columns=list(X.columns))).X.shape[1]:
            raise InputError(
                "every column of X is named as a label or weight: no feature is left"
            )
        self.name = name
        self._partitions = X.to_delayed()
        import dask

        count = dask.delayed(len)
        narrow = X[list(X.columns[:1])].to_delayed()
        self.lengths = self._compute([count(part) for part in narrow])
        super().__init__(
            name,
            sum(self.lengths),
            1,
            lambda: iter(()),
            lambda: self._read(self._compute([X])[0]),
        )

    def read(
        self,
        task: Callable[[Block], Part],
        shrink: Callable[[list[Part]], list[Part]],
        tick: Tick,
    ) -> list[Part]:
        """See `BlockTable`; results are joined as a tree, so that few are transferred."""
        import dask

        if not self.n:
            raise InputError(f"{self.name} has no rows: pass at least one")
        shared = dask.delayed(
            partial(_run, task, self._read, self.name), traverse=False
        )
        join = dask.delayed(_join, pure=False)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        pairs = zip(self._partitions, firsts, strict=False)
        parts = [shared(partition, first) for partition, first in pairs]
        while len(parts) > 1:
            parts = [
                join(shrink, parts[low : low + MERGED])
                for low in range(0, len(parts), MERGED)
            ]
        joined: list[Part] = self._compute(parts)[0]
        tick(1.0)
        return joined

    def _compute(self, values: list[Any]) -> Any:
        import dask

        try:
            return dask.compute(*values)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.name} cannot be computed ({described(error)})"
            ) from error


def _run(
    task: Callable[[Block], Part],
    read: Callable[[Any], Columns],
    name: str,
    frame: Any,
    first: int,
) -> list[Part]:
    """Run the task on one partition, on a worker."""
    return [task(Block(first, name, read(frame)))]


def _join(
    shrink: Callable[[list[Part]], list[Part]], lists: list[list[Part]]
) -> list[Part]:
    return shrink([part for some in lists for part in some])


def _named(frame: Any, names: tuple[Any, Any, Any], where: str) -> Columns:
    """The columns of a frame, of which `names` are the labels and weights."""
    return take_named(frame, *names, where, only_names=True)
