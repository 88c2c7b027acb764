"""Loads a task's files as clean tables; large Parquet is cleaned on disk."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from fwc_llm.cell_rules import bases_of
from fwc_llm.data import clean_table
from fwc_llm.data.clean_table import CleanedCounts, CleanTables
from fwc_llm.data.disk_table import ID, LABEL, LEVEL, POSITION, DiskTable
from fwc_llm.data.locate import locate_or_download
from fwc_llm.data.raw_table import arrow_table, open_parquet, open_table
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import failing_as
from fwc_llm.taskfile import TaskFile


def load_tables(task: TaskFile, folders: Sequence[Path]) -> CleanTables:
    """Locate or download the files of `task`, read and clean them."""
    tables_files = locate_or_download(task, folders)
    if len(tables_files) == 1 and is_large(task, tables_files[0]):
        return load_large(task, tables_files[0])
    notes: list[str] = []
    raws: list[pd.DataFrame] = []
    names = _needed(task)
    label_of = _labels([path for paths in tables_files for path in paths])
    for file, paths in zip(task.source.files, tables_files, strict=True):
        parts = []
        for path in paths:
            with failing_as(FwcError, f"cannot read {path}: "):
                content = path.read_bytes()
            expected = task.source.sha256.get(file)
            if expected and hashlib.sha256(content).hexdigest() != expected:
                notes.append(f"{path} differs from the published file (its sha256 differs)")
            table = open_table(path, content, task.source, [item.name for item in task.fields])
            parts.append(table.frame(names, label_of[path], task.notations))
        raws.append(pd.concat(parts))
        if not len(raws[-1]):
            raise FwcError(f"{paths[0]}: the table has no rows")
    tables = clean_table.clean_tables(task, raws)
    return replace(tables, notes=(*tables.notes, *notes))


def _needed(task: TaskFile) -> list[str]:
    """The columns to read: all except those of the role "drop" that have no other use."""
    used_elsewhere = {attribute.source for attribute in task.protected} | {rule.column for rule in task.keep}
    return [item.name for item in task.fields if item.use != "drop" or item.name in used_elsewhere]


def _labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Prefixes of row ids: file names, with folders if names repeat."""
    if len({path.name for path in paths}) == len(paths):
        return {path: path.name for path in paths}
    above = Path(os.path.commonpath([path.parent for path in paths]))
    return {path: path.relative_to(above).as_posix() for path in paths}


LARGE = 400_000  # a table with more rows stays on disk; also the size of its sample in memory
BLOCK = 65_536  # rows that are cleaned at once
_LEAST = 64  # least rows of a cell in the sample, or all rows of a smaller cell


def is_large(task: TaskFile, paths: Sequence[Path]) -> bool:
    """Whether these files are Parquet with more than `LARGE` rows in total."""
    if task.source.format != "parquet" or any(item.use == "id" for item in task.fields):
        return False  # all ids must be compared
    rows = 0
    for path in paths:
        with open_parquet(path) as file:
            rows += file.metadata.num_rows
    return rows > LARGE


def load_large(task: TaskFile, paths: Sequence[Path]) -> CleanTables:
    """Clean the files block by block into a temporary file; load a sample."""
    import pyarrow.parquet as pq

    folder = TemporaryDirectory(prefix="fwc-llm-")
    path, counts = Path(folder.name) / "clean.parquet", CleanedCounts()
    names = _needed(task)
    for file in paths:
        with open_parquet(file) as opened:
            arrow_table(file, opened, task.source, ()).require(names)
    _write(task, path, (clean_table.clean(task, raw, counts) for raw in _blocks(task, paths, names)))
    rows = clean_table.check_whole(task, counts)
    answered = pq.read_table(path, columns=[LEVEL, LABEL], read_dictionary=[LEVEL]).to_pandas()
    groups = pd.Categorical(answered[LEVEL], sorted(answered[LEVEL].cat.categories))
    levels, cells = tuple(groups.categories), 2 * groups.codes.astype(np.int64) + answered[LABEL].to_numpy()
    table = DiskTable(path, task.columns, counts.dtypes(task.columns), levels, cells, folder)
    sample = _sample(cells)
    frame = table.take(sample)
    name = task.source.files[0].rpartition("/")[2]
    notes = [f"{name}: {rows.kept:,} of {rows.read:,} rows kept", *clean_table.loss_notes(rows, counts)]
    if len(sample) == len(table):
        return CleanTables(frame, frame, tuple(notes), rows)
    notes.append(f"the table stays on disk: examples are chosen among {len(frame):,} of its rows")
    return CleanTables(frame, frame, tuple(notes), rows, table)


def _blocks(task: TaskFile, paths: Sequence[Path], names: Sequence[str]) -> Iterator[pd.DataFrame]:
    import pyarrow as pa

    label_of = _labels(paths)
    for path in paths:
        first = 0
        with open_parquet(path) as file:
            listed = [title for title in file.schema_arrow.names if title.strip() in bases_of(names)]
            try:
                for batch in file.iter_batches(BLOCK, columns=listed):
                    rows = range(first + 1, first + len(batch) + 1)
                    block = arrow_table(path, pa.Table.from_batches([batch]), task.source, rows)
                    yield block.frame(names, label_of[path], task.notations)
                    first += len(batch)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise FwcError(f"{path} cannot be read after row {first:,}: {error}") from error


def _write(task: TaskFile, path: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Write clean rows in the format of `DiskTable`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, first = None, 0
    for frame in frames:
        arrays = {ID: pa.array(frame.index.tolist(), pa.string())}
        for k, column in enumerate(task.columns):
            values = frame[column.name]
            if column.kind == "numeric":
                arrays[f"c{k}"] = pa.array(values.to_numpy(dtype=float))
            elif column.kind == "ordinal":
                arrays[f"c{k}"] = pa.array(pd.Categorical(values, list(column.order), ordered=True))
            else:
                arrays[f"c{k}"] = pa.array(values.tolist(), pa.string())
        level = clean_table.crossed(frame, [attribute.name for attribute in task.protected])
        arrays |= {
            LABEL: pa.array((frame[task.outcome.source] == "yes").to_numpy(np.int8)),
            LEVEL: pa.array(level.tolist(), pa.string()),
            POSITION: pa.array(np.arange(first, first + len(frame))),
        }
        first += len(frame)
        table = pa.table(arrays)
        prefix = f"the clean rows cannot be written to {path}: "
        with failing_as(StorageError, prefix, "; set TMPDIR to another folder"):
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()


def _sample(cells: np.ndarray) -> np.ndarray:
    """Ascending positions of a random sample, with at least `_LEAST` rows of a cell."""
    if len(cells) <= LARGE:
        return np.arange(len(cells))
    rng, counts = np.random.default_rng(0), np.bincount(cells)
    sizes = np.minimum(counts, np.maximum(counts * LARGE // len(cells), _LEAST))
    chosen = [
        np.flatnonzero(cells == cell)[np.sort(rng.choice(counts[cell], size, replace=False))]
        for cell, size in enumerate(sizes.tolist())
    ]
    return np.sort(np.concatenate(chosen))
