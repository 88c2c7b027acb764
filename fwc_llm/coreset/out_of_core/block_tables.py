"""Tables as blocks of rows: Parquet files, pyarrow's datasets, memory maps, frames of Dask.

Threads work on the blocks; those of Dask are its partitions, and work on them runs where Dask runs it: on the
workers of the current client, else the scheduler that Dask is set to. No cluster is started.
"""

import glob
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fwc_llm.coreset.problem.frames import Columns, are_paths, is_dask, is_dataset, take_named
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError
from fwc_llm.sanitize import replace_invisible, truncate

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
class BlockTable:
    """A table in blocks: the same rows in the same order in every pass.

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

        Raises `InputError`: a block cannot be read or is refused.
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
    """Rows per block of a table with this number of columns."""
    return min(max(_VALUES // max(columns, 1), _FEWEST), BLOCK_ROWS)


def open_table(columns: Columns, n_jobs: int | None = None) -> BlockTable | None:
    """Return the table in blocks, or None for an ordinary table in memory.

    X is a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files; a pyarrow
    `Dataset`; a memory map; a dask.dataframe. Labels and weights are names of its columns; of a memory map
    values (n,).

    Raises `InputError`: files that cannot be read or do not fit together, or a column that is not there.
    """
    X, threads = columns.X, n_jobs or count_threads()
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
    """A memory map (n, p), with labels and weights that are memory maps too or in memory."""
    n, p = columns.X.shape
    for role, values in columns.labels().items():
        if isinstance(values, str):
            raise InputError(f"{role}={values!r}: the columns of X have no names; pass the values")
        if np.ndim(values) == 0 or len(values) != n:
            raise InputError(f"{role} has shape {np.shape(values)} but X has {n} rows")
    columns = columns.each(lambda part: part if hasattr(part, "iloc") else np.asanyarray(part))

    def some(low: int, high: int) -> Columns:
        return columns.each(
            lambda part: part.iloc[low:high] if hasattr(part, "iloc") else np.array(part[low:high])
        )

    def parts() -> Iterator[Columns]:
        step = block_rows(p)
        for low in range(0, n, step):
            yield some(low, low + step)
            for part in columns:
                # Pages that were read would stay in memory. Those of mode "c" may hold changes.
                if isinstance(part, np.memmap) and part.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
                    part._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]

    name = str(getattr(columns.X, "filename", None) or "X")
    return BlockTable(name, n, threads, parts, lambda: some(0, n))


def _dataset_table(dataset: Any, name: str, roles: Columns, threads: int) -> BlockTable:
    """The rows of a pyarrow `Dataset`, such as Parquet files."""
    import pyarrow as pa

    def named(frame: Any) -> Columns:
        return take_named(frame, *roles[1:], name, only_names=True)

    def whole() -> Columns:
        with _reading(name):
            table = dataset.to_table(columns=columns)
        return named(table.to_pandas(ignore_metadata=True))

    def parts() -> Iterator[Columns]:
        """Blocks of equal length, however files and row groups cut the rows."""
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
                waiting, buffered = table.slice(step).to_batches(), max(buffered - step, 0)
                table = table.slice(0, step).unify_dictionaries()
                yield named(table.to_pandas(split_blocks=True, ignore_metadata=True))
                del table

    index = (dataset.schema.pandas_metadata or {}).get("index_columns", ())
    columns = [column for column in dataset.schema.names if column not in index]
    if not named(pd.DataFrame(columns=columns)).X.shape[1]:
        raise InputError(f"{name} has no columns besides y, sensitive and weights: it needs a feature")
    with _reading(name):
        n = int(dataset.count_rows())
    if not n:
        raise InputError(f"{name} has no rows: pass at least one")
    return BlockTable(name, n, threads, parts, whole)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turns errors of pyarrow into an `InputError` that names the table."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        told = replace_invisible(truncate(lines[0], 300))
        raise InputError(
            f"{name} cannot be read: {told}; only Parquet files are read by path, others as a pyarrow Dataset"
        ) from error


def _open_files(X: Any) -> tuple[Any, str]:
    """The dataset of paths of Parquet files, whose columns get a type that holds all, and its name."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise InputError("to read files takes pyarrow: pip install 'fwc-llm[parquet]'") from None
    expanded = [os.path.expanduser(os.fspath(path)) for path in (X if isinstance(X, list | tuple) else [X])]
    name = truncate(", ".join(expanded), 300)
    paths: Any = [file for path in expanded for file in _files(path)]
    if len(expanded) == 1 and os.path.isdir(expanded[0]):
        paths = expanded[0]  # its folders may be partitions
    options: Any = {"format": "parquet", "partitioning": "hive", "exclude_invalid_files": False}
    with _reading(name):
        dataset = ds.dataset(paths, **options)
        schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
        schema = pa.unify_schemas([*schemas, dataset.schema], promote_options="permissive")
        return ds.dataset(paths, schema=schema, **options), name


def _files(path: str) -> list[str]:
    """The Parquet files that a path, a pattern or a folder names."""
    names = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
    if not names:
        raise InputError(
            f"{path}: there is no such file, and none that this pattern names; pass what lies elsewhere as a "
            "pyarrow Dataset"
        )
    files: list[str] = []
    for name in names:
        inside = sorted(Path(name).rglob("*.parquet")) if os.path.isdir(name) else [Path(name)]
        files += [str(file) for file in inside if file.is_file()]
    return files


class DaskTable(BlockTable):
    """A dask.dataframe, whose labels and weights are columns of it.

    Raises `InputError`: no such table, or no feature in it.
    """

    def __init__(self, columns: Columns) -> None:
        import dask

        X, self._roles = columns.X, columns[1:]
        if not is_dask(X, "dask.dataframe") or X.ndim != 2:
            raise InputError(
                f"X is a dask {type(X).__name__}: pass a dask.dataframe, such as "
                "dask.dataframe.from_dask_array(X), with y and sensitive as columns"
            )
        self.name = "the dask DataFrame"
        if not take_named(pd.DataFrame(columns=list(X.columns)), *self._roles, only_names=True).X.shape[1]:
            raise InputError("every column of X is named as a label or weight: no feature is left")
        self._partitions = X.to_delayed()
        narrow = X[list(X.columns[:1])].to_delayed()
        self.lengths = self._compute([dask.delayed(len)(part) for part in narrow])
        super().__init__(
            self.name,
            sum(self.lengths),
            1,
            lambda: iter(()),
            lambda: take_named(self._compute([X])[0], *self._roles),
        )

    def read(
        self,
        task: Callable[[Block], Part],
        shrink: Callable[[list[Part]], list[Part]],
        tick: Callable[[float], None],
    ) -> list[Part]:
        """See `BlockTable`: parts are joined as a tree, so that few travel."""
        import dask

        if not self.n:
            raise InputError(f"{self.name} has no rows: pass at least one")
        shared = dask.delayed(task, traverse=False)
        run, join = dask.delayed(_run, pure=False), dask.delayed(_join, pure=False)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        rows = zip(firsts, self._partitions, strict=False)
        parts = [run(shared, self.name, first, self._roles, part) for first, part in rows]
        while len(parts) > 1:
            parts = [join(shrink, parts[low : low + MERGED]) for low in range(0, len(parts), MERGED)]
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
            cause = replace_invisible(truncate(f"{type(error).__name__}: {error}", 300))
            raise InputError(f"{self.name} cannot be computed ({cause})") from error


def _run(
    task: Callable[[Block], Part], name: str, first: int, roles: tuple[Any, ...], frame: Any
) -> list[Part]:
    """The task of one partition; runs on a worker."""
    return [task(Block(first, name, take_named(frame, *roles)))]


def _join(shrink: Callable[[list[Part]], list[Part]], lists: list[list[Part]]) -> list[Part]:
    return shrink([part for some in lists for part in some])
