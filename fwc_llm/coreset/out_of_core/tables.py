"""Where the rows may lie: Parquet files, pyarrow's datasets, memory maps; Dask has a file of its own."""

import glob
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.coreset.out_of_core.blocks import Table, block_rows
from fwc_llm.coreset.out_of_core.dask_table import DaskTable
from fwc_llm.coreset.problem.frames import Columns, are_paths, is_dask, is_dataset, take_named
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible


def open_table(columns: Columns, n_jobs: int | None = None) -> Table | None:
    """Return the table in blocks, or None for an ordinary table in memory.

    Args:
        columns: X is a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files; a
            pyarrow `Dataset`; a memory map; a dask.array or a dask.dataframe. Labels and weights are names of
            its columns; for a memory map values (n,), for a dask.array others.
        n_jobs: number of threads; None for all processors.

    Raises:
        InputError: files that cannot be read or do not fit together, or a column that is not there.
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


def _map_table(columns: Columns, threads: int) -> Table:
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
    return Table(name, n, threads, parts, lambda: some(0, n))


def _dataset_table(dataset: Any, name: str, roles: Columns, threads: int) -> Table:
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
    return Table(name, n, threads, parts, whole)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turns errors of pyarrow into an `InputError` that names the table."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{name} cannot be read: {visible(shortened(lines[0], 300))}") from error


def _open_files(X: Any) -> tuple[Any, str]:
    """The dataset of a path, a pattern, a folder or a list of paths of Parquet files, and its name.

    The columns of all files become those of one table: numbers of several types one type that holds them.
    """
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise InputError("to read files takes pyarrow: pip install 'fwc-llm[parquet]'") from None
    expanded = [os.path.expanduser(os.fspath(path)) for path in (X if isinstance(X, list | tuple) else [X])]
    name = shortened(", ".join(expanded), 300)
    if any("://" in path for path in expanded):
        raise InputError(f"{name} is no path: pass a pyarrow Dataset (pyarrow.dataset.dataset opens such)")
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
        raise InputError(f"{path}: there is no such file, and none that this pattern names")
    files: list[str] = []
    for name in names:
        inside = sorted(map(str, Path(name).rglob("*.parquet"))) if os.path.isdir(name) else [name]
        files += [file for file in inside if os.path.isfile(file)]
    for file in files or names:
        if Path(file).suffix.lower() not in (".parquet", ".pq"):
            raise InputError(
                f"{file}: only Parquet files are read by path; pass others as "
                "pyarrow.dataset.dataset(path, format=…), a .npy file as numpy.load(path, mmap_mode='r')"
            )
    return files
