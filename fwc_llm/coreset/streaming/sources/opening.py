"""What a caller gave as a table, as a source of blocks."""

import glob
import os
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np

from fwc_llm.coreset.streaming.blocks import Source
from fwc_llm.coreset.streaming.cluster.given import is_dask
from fwc_llm.coreset.streaming.cluster.source import DaskSource
from fwc_llm.coreset.streaming.sources.csv_files import check_csv, check_types, csv_format
from fwc_llm.coreset.streaming.sources.given_blocks import GivenBlocks
from fwc_llm.coreset.streaming.sources.mapped import MappedSource, open_array
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".feather": "feather",
    ".arrow": "feather",
}


def open_source(
    X: Any,
    y: Any = None,
    sensitive: Any = None,
    sample_weight: Any = None,
    threads: int | None = None,
    columns: Collection[str] | None = None,
) -> Source | None:
    """The table as a source of blocks; None for an ordinary one in memory.

    Args:
        X: a path, a pattern (`rows-*.parquet`), a folder or a list of paths of Parquet files (CSV and Feather
            too); a pyarrow `Dataset`; a memory map, or the path of a .npy file; a dask.array or a
            dask.dataframe; or an object whose `iter()` gives the same blocks at every call: DataFrames, or
            tuples (X, y, sensitive).
        y: the name of a column of X, or, for a memory map, the labels (n,), also the path of a .npy file.
        sensitive: the name of a column of X, or several, whose levels are crossed; for a memory map as y.
        sample_weight: as y.
        threads: how many read and work; None for all processors.
        columns: those of files that are read; None for all.

    Raises:
        InputError: files that cannot be read or differ in columns or types; a column that is not there; a
            generator, which can be read once only.
    """
    if is_dask(X):
        return DaskSource.open(X, y, sensitive, sample_weight)
    if isinstance(X, np.memmap):
        return MappedSource.open(X, y, sensitive, sample_weight, threads)
    if isinstance(X, str | os.PathLike) or _are_paths(X):
        if isinstance(X, str | os.PathLike) and str(X).endswith(".npy") and not Path(X).is_dir():
            array = open_array(X, "X")
            return MappedSource.open(array, y, sensitive, sample_weight, threads)
        return _open_files(X, y, sensitive, sample_weight, threads, columns)
    if hasattr(X, "get_fragments") and hasattr(X, "schema"):
        from fwc_llm.coreset.streaming.sources.arrow import open_dataset

        return open_dataset(X, "the dataset", y, sensitive, sample_weight, threads)
    if _is_of_blocks(X):
        return GivenBlocks(X, y, sensitive, sample_weight, threads)
    return None


def is_in_blocks(X: Any) -> bool:
    """Whether `open_source` would read this in blocks, though it is no array."""
    if isinstance(X, np.memmap):
        return False
    if is_dask(X) or isinstance(X, str | os.PathLike | Iterator) or _are_paths(X):
        return True
    return (hasattr(X, "get_fragments") and hasattr(X, "schema")) or _is_of_blocks(X)


def _are_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(x, str | os.PathLike) for x in X)


def _is_of_blocks(X: Any) -> bool:
    """Whether this gives blocks; `InputError` for what gives them once."""
    if isinstance(X, Iterator):
        raise InputError(
            f"X is a {type(X).__name__}, which can be read once only, but every pass reads the rows again: "
            "pass an object whose iter() begins anew, such as a class with __iter__"
        )
    if isinstance(X, list | tuple):
        first = X[0] if len(X) else None
        parts = first[0] if isinstance(first, tuple) and first else first
        if isinstance(X, list) and isinstance(first, np.ndarray) and first.ndim == 2:
            raise InputError("X is a list of tables without labels: give tuples (X, y, sensitive)")
        return _is_table(parts) and (isinstance(first, tuple) or hasattr(first, "columns"))
    if not hasattr(X, "__iter__") or isinstance(X, Mapping | Set | bytes | bytearray | memoryview):
        return False
    plain = (
        "shape",
        "columns",
        "__array__",
        "__array_interface__",
        "__arrow_c_stream__",
        "collect",
        "toarray",
    )
    return not any(hasattr(X, name) for name in plain)


def _is_table(values: Any) -> bool:
    return hasattr(values, "columns") or len(getattr(values, "shape", ())) == 2


def _open_files(
    X: Any,
    y: Any,
    sensitive: Any,
    sample_weight: Any,
    threads: int | None,
    columns: Collection[str] | None,
) -> Source:
    """The source of a path, a pattern, a folder or a list of paths."""
    try:
        import pyarrow as pa
        import pyarrow.dataset as ds
    except ImportError:
        raise InputError("to read files takes pyarrow: pip install 'fwc-llm[parquet]'") from None

    from fwc_llm.coreset.streaming.sources.arrow import first_words, named_in, open_dataset

    name = shortened(", ".join(map(os.fspath, X)) if isinstance(X, list | tuple) else os.fspath(X), 300)
    paths, form = _find(X, name)
    if form == "csv":
        for path in _files_in(paths) if isinstance(paths, str) else paths:
            check_csv(path)
    try:
        dataset = ds.dataset(paths, format=csv_format() if form == "csv" else form, partitioning="hive")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{named_in(error, name)} cannot be read: {first_words(error)}") from error
    source = open_dataset(dataset, name, y, sensitive, sample_weight, threads, columns)
    if form == "csv":
        check_types(source.schema, name)
    return source


def _find(X: Any, name: str) -> tuple[Any, str]:
    """The files and their format."""
    if "://" in name:
        raise InputError(
            f"{name} is no path: pass a pyarrow Dataset (pyarrow.dataset.dataset opens such addresses)"
        )
    if isinstance(X, list | tuple):
        paths = [os.path.expanduser(os.fspath(path)) for path in X]
    else:
        given = os.path.expanduser(os.fspath(X))
        if "\0" in given:
            raise InputError(f"X={given!r} is no path")
        if os.path.isdir(given):
            return given, _folder_format(given)
        paths = [given] if os.path.exists(given) else sorted(glob.glob(given, recursive=True))
        if not paths:
            raise InputError(f"{name}: there is no such file, and none that this pattern names")
    paths = [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [path])]
    for path in paths:
        if not os.path.isfile(path):
            raise InputError(f"{path}: there is no such file")
    forms = {_FORMATS.get(Path(path).suffix.lower(), "") for path in paths}
    if len(forms) > 1 or "" in forms:
        wrong = next((p for p in paths if Path(p).suffix.lower() not in _FORMATS), paths[-1])
        raise InputError(
            f"{wrong}: files of one format are read, by their ending: {', '.join(_FORMATS)}; arrays as .npy"
        )
    return paths, forms.pop()


def _files_in(folder: str) -> list[str]:
    """The files in one of several folders, such as those that Spark writes for a table."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        found += [os.path.join(place, name) for name in sorted(names) if not name.startswith(("_", "."))]
    return [name for name in found if Path(name).suffix.lower() in _FORMATS]


def _folder_format(folder: str) -> str:
    """The format of the files in a folder and the folders in it."""
    found = {
        _FORMATS[suffix]
        for _, _, names in os.walk(folder)
        for name in names
        if not name.startswith(("_", ".")) and (suffix := Path(name).suffix.lower()) in _FORMATS
    }
    if len(found) != 1:
        what = "no file" if not found else "files of several formats"
        raise InputError(f"the folder {folder} has {what} that can be read ({', '.join(_FORMATS)})")
    return found.pop()
