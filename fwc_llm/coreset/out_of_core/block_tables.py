"""Read Parquet files, pyarrow datasets and Dask as blocks of rows: pandas DataFrames.

Threads work on the blocks. The blocks of a Dask collection are its partitions, and Dask runs the
work on them: on the workers of the current client, else on the scheduler that Dask is set to. No
cluster is started.
"""

import glob
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd

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
Names: TypeAlias = tuple[Any, Any, Any]  # of the outcomes, protected levels and weights
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
    frame: pd.DataFrame
    names: Names

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @property
    def place(self) -> str:
        """The block in errors that number its rows from 0."""
        return f"{self.where}, whose row 0 is row {self.first} of X"

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows, whose index are their positions in the table."""
        return self.frame.set_axis(pd.RangeIndex(self.first, self.first + self.n))

    @cached_property
    def columns(self) -> Columns:
        """The features, labels and weights of the rows."""
        return take_named(self.rows, *self.names, self.where, only_names=True)


@dataclass
class BlockTable:
    """A table in blocks: the same rows in the same order in every pass."""

    name: str  # in errors
    names: Names
    n: int  # number of rows
    threads: int  # that work on the blocks
    parts: Callable[[], Iterator[pd.DataFrame]]  # the rows block by block
    frame: Callable[[], pd.DataFrame]  # all rows in memory

    def whole(self) -> Columns:
        """The table in memory."""
        return take_named(self.frame(), *self.names, self.name, only_names=True)

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
            for frame in chain(self.parts(), [None]):
                if frame is not None:
                    block = Block(first, self.name, frame, self.names)
                    first += block.n
                    waiting.append((first, pool.submit(task, block)))
                    del block
                while len(waiting) > (0 if frame is None else self.threads):
                    done, future = waiting.popleft()
                    parts.append(future.result())
                    tick(done / self.n)
                    if len(parts) % MERGED == 0:
                        parts = shrink(parts)
        return parts


def open_table(columns: Columns, n_jobs: int | None = None) -> BlockTable | None:
    """Open a table as blocks; return None for an ordinary table in memory.

    X is a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files; a
    pyarrow `Dataset`; or a dask.dataframe. Labels and weights are column names.
    """
    X = columns.X
    threads = n_jobs or count_threads()
    if is_dask(X):
        return DaskTable(columns)
    if is_dataset(X):
        return _dataset_table(X, "the dataset", columns, threads)
    if are_paths(X):
        return _dataset_table(*_open_files(X), columns, threads)
    return None


def _dataset_table(dataset: Any, name: str, roles: Columns, threads: int) -> BlockTable:
    import pyarrow as pa

    def whole() -> pd.DataFrame:
        with _reading(name):
            table = dataset.to_table(columns=columns)
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
        return frame

    def parts() -> Iterator[pd.DataFrame]:
        """Yield blocks of equal length, whatever the files and row groups."""
        step = min(max(_VALUES // len(columns), _FEWEST), BLOCK_ROWS)
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
                yield table.to_pandas(split_blocks=True, ignore_metadata=True)
                del table

    index = (dataset.schema.pandas_metadata or {}).get("index_columns", ())
    columns = [column for column in dataset.schema.names if column not in index]
    _check_names(columns, roles[1:], name)
    with _reading(name):
        n = int(dataset.count_rows())
    if not n:
        raise InputError(f"{name} has no rows: pass at least one")
    return BlockTable(name, roles[1:], n, threads, parts, whole)


def _check_names(columns: Sequence[Any], names: Names, where: str) -> None:
    """Refuse names of labels that no column has, and a table without features."""
    none = pd.DataFrame(columns=list(columns))
    if not take_named(none, *names, where, only_names=True).X.shape[1]:
        raise InputError(
            f"every column of {where} is named as a label or weight: no feature is left"
        )


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
        _check_names(X.columns, columns[1:], name)
        self.name = name
        self._partitions = X.to_delayed()
        import dask

        count = dask.delayed(len)
        narrow = X[list(X.columns[:1])].to_delayed()
        self.lengths = self._compute([count(part) for part in narrow])
        super().__init__(
            name,
            columns[1:],
            sum(self.lengths),
            1,
            lambda: iter(()),
            lambda: self._compute([X])[0],
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
        run = partial(_run, task, self.name, self.names)
        shared = dask.delayed(run, traverse=False)
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
    name: str,
    names: Names,
    frame: pd.DataFrame,
    first: int,
) -> list[Part]:
    """Run the task on one partition, on a worker."""
    return [task(Block(first, name, frame, names))]


def _join(
    shrink: Callable[[list[Part]], list[Part]], lists: list[list[Part]]
) -> list[Part]:
    return shrink([part for some in lists for part in some])
