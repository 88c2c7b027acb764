"""Where the rows may lie: Parquet files, pyarrow's datasets, memory maps; Dask has a file of its own."""

import glob
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fwc_llm.coreset.out_of_core.blocks import (
    Block,
    Columns,
    Part,
    Table,
    are_paths,
    block_rows,
    is_dask,
    is_dataset,
    read_blocks,
)
from fwc_llm.coreset.out_of_core.dask_blocks import DaskTable
from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible


def open_table(X: Any, y: Any, sensitive: Any, sample_weight: Any, n_jobs: int | None = None) -> Table | None:
    """Return the table in blocks, or None for an ordinary table in memory.

    Args:
        X: a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files; a pyarrow
            `Dataset`; a memory map; a dask.array or a dask.dataframe.
        y: the name of a column of X; for a memory map the labels (n,), for a dask.array another one.
        sensitive: the name of a column of X, or several, whose levels are crossed; else as y.
        sample_weight: as y.
        n_jobs: number of threads; None for all processors.

    Raises:
        InputError: files that cannot be read or do not fit together, or a column that is not there.
    """
    threads = n_jobs or count_threads()
    if is_dask(X):
        return DaskTable.open(X, y, sensitive, sample_weight)
    if isinstance(X, np.memmap) and X.ndim == 2:
        return MappedTable(X, _labels(y, "y", X), _labels(sensitive, "sensitive", X),
                           _labels(sample_weight, "sample_weight", X), threads)  # fmt: skip
    if is_dataset(X):
        return DatasetTable(X, "the dataset", y, sensitive, sample_weight, threads)
    if isinstance(X, str | os.PathLike) or are_paths(X):
        return DatasetTable(*_open_files(X), y, sensitive, sample_weight, threads)
    return None


@dataclass(frozen=True)
class MappedTable:
    """A memory map (n, p), with labels and weights that are memory maps too or in memory."""

    texts: ClassVar[frozenset[str]] = frozenset()
    X: np.memmap
    y: Any
    sensitive: Any
    weight: Any
    threads: int

    @property
    def name(self) -> str:
        """The file."""
        return str(getattr(self.X, "filename", None) or "X")

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def whole(self) -> Columns:
        """See `Table`."""
        columns = self.X, self.y, self.sensitive, self.weight
        return tuple(part if part is None else _rows(part, 0, self.n) for part in columns)  # type: ignore[return-value]

    def read(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[list[Part]], Part],
        tick: Callable[[float], None],
    ) -> Part:
        """See `Table`."""
        return read_blocks(self._blocks(), task, merge, tick, self.n, self.threads)

    def _blocks(self) -> Iterator[Block]:
        step, columns = block_rows(self.X.shape[1]), (self.X, self.y, self.sensitive, self.weight)
        for index, low in enumerate(range(0, self.n, step)):
            parts = [part if part is None else _rows(part, low, low + step) for part in columns]
            yield Block(index, low, self.name, *parts)
            del parts
            for part in columns:
                # Pages that were read would stay in memory. Those of mode "c" may hold changes.
                if isinstance(part, np.memmap) and part.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
                    part._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]


def _rows(part: Any, low: int, high: int) -> Any:
    """Some rows, in memory."""
    return part.iloc[low:high] if hasattr(part, "iloc") else np.array(part[low:high])


def _labels(values: Any, what: str, X: np.memmap) -> Any:
    """Labels or weights of the rows of a memory map."""
    if values is None:
        return None
    if isinstance(values, str):
        raise InputError(f"{what}={values!r}: the columns of X have no names; pass the values")
    values = values if hasattr(values, "iloc") or isinstance(values, np.ndarray) else np.asarray(values)
    if np.ndim(values) == 0 or len(values) != len(X):
        raise InputError(f"{what} has shape {np.shape(values)} but X has {len(X)} rows: pass one value a row")
    return values


class DatasetTable:
    """The rows of a pyarrow `Dataset`, such as Parquet files."""

    def __init__(self, dataset: Any, name: str, y: Any, sensitive: Any, weight: Any, threads: int) -> None:
        import pandas as pd

        self.name = name
        self._dataset, self._roles, self._threads = dataset, (y, sensitive, weight), threads
        index = (dataset.schema.pandas_metadata or {}).get("index_columns", ())
        self._columns = [column for column in dataset.schema.names if column not in index]
        rest = self._named(pd.DataFrame(columns=self._columns))[0]
        if not rest.shape[1]:
            raise InputError(f"{name} has no columns besides y, sensitive and weights: it needs a feature")
        self.texts = frozenset(
            field.name for field in dataset.schema if field.name in self._columns and _is_text(field.type)
        )
        with _Reading(name):
            self.n = int(dataset.count_rows())
        if not self.n:
            raise InputError(f"{name} has no rows: pass at least one")

    def whole(self) -> Columns:
        """See `Table`."""
        with _Reading(self.name):
            table = self._dataset.to_table(columns=self._columns)
        return self._named(table.to_pandas(ignore_metadata=True))

    def read(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[list[Part]], Part],
        tick: Callable[[float], None],
    ) -> Part:
        """See `Table`."""
        return read_blocks(self._blocks(), task, merge, tick, self.n, self._threads)

    def _named(self, frame: Any) -> Columns:
        return take_named(frame, *self._roles, self.name, only_names=True)

    def _blocks(self) -> Iterator[Block]:
        """Blocks of equal length, however files and row groups cut the rows."""
        import pyarrow as pa

        step = block_rows(len(self._columns))
        batches = self._dataset.to_batches(
            columns=self._columns, batch_size=step, batch_readahead=2, fragment_readahead=1
        )
        waiting: list[Any] = []
        buffered = first = index = 0
        while True:
            with _Reading(self.name):
                batch = next(batches, None)
            if batch is not None:
                waiting.append(batch)
                buffered += batch.num_rows
            while buffered >= step or (batch is None and buffered):
                table = pa.Table.from_batches(waiting)
                waiting, buffered = table.slice(step).to_batches(), max(buffered - step, 0)
                table = table.slice(0, step)
                for name in self.texts:
                    k = self._columns.index(name)
                    table = table.set_column(k, name, table.column(k).dictionary_encode())
                frame = table.unify_dictionaries().to_pandas(split_blocks=True, ignore_metadata=True)
                yield Block(index, first, self.name, *self._named(frame))
                index, first = index + 1, first + len(frame)
                del table, frame
            if batch is None:
                return


class _Reading:
    """Turns errors of pyarrow into an `InputError` that names the table."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Nothing is opened."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowException | OSError | ValueError):
            lines = str(error).splitlines() or [type(error).__name__]
            raise InputError(f"{self._name} cannot be read: {visible(shortened(lines[0], 300))}") from error


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


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
    paths: str | Sequence[str] = [file for path in expanded for file in _files(path)]
    if len(expanded) == 1 and os.path.isdir(expanded[0]):
        paths = expanded[0]  # its folders may be partitions
    options: Any = {"format": "parquet", "partitioning": "hive", "exclude_invalid_files": False}
    with _Reading(name):
        dataset = ds.dataset(paths, **options)
        schemas = [fragment.physical_schema for fragment in dataset.get_fragments()]
        schema = pa.unify_schemas([*schemas, dataset.schema], promote_options="permissive")
        return ds.dataset(paths, schema=schema, **options), name


def _files(path: str) -> list[str]:
    """The Parquet files that a path, a pattern or a folder names."""
    if "\0" in path:
        raise InputError(f"X={path!r} is no path")
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
