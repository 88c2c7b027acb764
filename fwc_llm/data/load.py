"""The files of a task as its clean tables; Parquet too large for memory is cleaned block by block on disk."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.data.disk_table import ID, LABEL, LEVEL, POSITION, DiskTable
from fwc_llm.data.locate import Places, locate_or_download
from fwc_llm.data.reading import check_titles, open_parquet, read_table, table_of
from fwc_llm.data.table import Seen, Tables, build_tables, check_whole, crossed, filled_note
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import failing_as
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    import pandas as pd


def load_tables(task: TaskFile, places: Places) -> "Tables":
    """Find (or download) the files of `task`, read and clean them; `FwcError` for missing or faulty data."""
    import pandas as pd

    tables_files = locate_or_download(task, places)
    for paths in tables_files:
        for name, times in Counter(path.name for path in paths).items():
            if times > 1:
                raise FwcError(
                    f"{task.path}: {times} of its files are called {name!r}, and row ids begin with the "
                    "file's name: rename them"
                )
    if len(tables_files) == 1 and is_large(task, tables_files[0]):
        return load_large(task, tables_files[0])
    notes: list[str] = []
    raws: list[pd.DataFrame] = []
    last = {file.rpartition("/")[2] for file in task.source.files}
    for file, paths in zip(task.source.files, tables_files, strict=True):
        parts = []
        for path in paths:
            with failing_as(FwcError, f"cannot read {path}: "):
                content = path.read_bytes()
            expected = task.source.sha256.get(file)
            if expected and hashlib.sha256(content).hexdigest() != expected:
                notes.append(f"{path} differs from the published file (its sha256 is another)")
            # Row ids begin with the file's name: two files of one name need their folders too.
            label = path.name if len(paths) > 1 or len(last) == len(task.source.files) else file
            names = [item.name for item in task.fields]
            parts.append(read_table(path, content, task.source, names, label))
        raws.append(parts[0] if len(parts) == 1 else pd.concat(parts))
    tables = build_tables(task, raws)
    return replace(tables, notes=(*tables.notes, *notes))


LARGE = 400_000  # rows; a larger table stays on disk, and so many of its rows are the sample
BLOCK = 65_536  # rows that are cleaned at once
_LEAST = 64  # rows of a cell of group and answer in the sample, where the table has so many


def is_large(task: TaskFile, paths: Sequence[Path]) -> bool:
    """Whether these files of one table are Parquet and have too many rows for memory.

    A column with `role = "id"` compares all rows: such a table is read into memory. `FwcError` for a file
    that is no Parquet table.
    """
    if task.source.format != "parquet" or any(item.use == "id" for item in task.fields):
        return False
    rows = 0
    for path in paths:
        with open_parquet(path) as file:
            rows += file.metadata.num_rows
    return rows > LARGE


def load_large(task: TaskFile, paths: Sequence[Path]) -> Tables:
    """Clean the rows of the files block by block into a temporary file, and read a sample of them.

    A table of which no more than `LARGE` clean rows are left is all in memory. `FwcError`, before any row is
    read, for a file that lacks a column of the task.
    """
    folder = TemporaryDirectory(prefix="fwc-llm-")
    path, seen = Path(folder.name) / "clean.parquet", Seen()
    beside = {attribute.source for attribute in task.protected} | {rule.column for rule in task.keep}
    names = [item.name for item in task.fields if item.use == "column" or item.name in beside]
    for file in paths:
        with open_parquet(file) as opened:
            titles = [str(title).strip() for title in opened.schema_arrow.names]
        check_titles(file, titles, names)
    numbers: dict[str, int] = {}
    parts = list(_write(task, path, _clean_blocks(task, paths, names, seen), numbers))
    rows = check_whole(task, seen)
    levels = tuple(sorted(numbers))
    rank = np.argsort([numbers[level] for level in levels])  # of the level with each number
    kind = np.min_scalar_type(2 * len(levels))
    cells = np.concatenate([(2 * rank[part // 2] + part % 2).astype(kind) for part in parts])
    integers = frozenset(name for name, is_whole in seen.whole.items() if is_whole)
    table = DiskTable(path, task.columns, integers, levels, cells, _sample(cells), folder)
    frame = table.take(table.sample)
    filled = {item.name: seen.filled[item.name] for item in task.fields if seen.filled[item.name]}
    notes = [
        f"{task.source.files[0].rpartition('/')[2]}: {rows.kept:,} of {rows.read:,} rows kept",
        *(f"{count:,} rows left out: {reason}" for reason, count in rows.reasons.items()),
        *([filled_note(filled)] if filled else []),
    ]
    stays = len(frame) < len(table)
    if stays:
        notes.append(f"the table stays on disk: examples are chosen among {len(frame):,} of its rows")
    return Tables(frame, frame, tuple(notes), rows, table if stays else None)


def _clean_blocks(
    task: TaskFile, paths: Sequence[Path], names: Sequence[str], seen: Seen
) -> "Iterator[pd.DataFrame]":
    import pyarrow as pa

    for path in paths:
        with open_parquet(path) as file:
            listed = [title for title in file.schema_arrow.names if title.strip() in names]
            first = 0
            try:
                for batch in file.iter_batches(BLOCK, columns=listed):
                    block = pa.Table.from_batches([batch]).to_pandas()
                    raw = table_of(block, path, task.source, names, path.name, first)
                    first += len(block)
                    yield build_tables(task, [raw], seen).pool
            except (pa.ArrowException, OSError, ValueError) as error:
                raise FwcError(f"{path} cannot be read after row {first:,}: {error}") from error


def _write(
    task: TaskFile, path: Path, blocks: "Iterator[pd.DataFrame]", numbers: dict[str, int]
) -> Iterator[np.ndarray]:
    """Write clean rows, and return their cells, by levels in the order in which they get their `numbers`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer, first = None, 0
    protected = [attribute.name for attribute in task.protected]
    for frame in blocks:
        level, yes = crossed(frame, protected), (frame[task.outcome.source] == "yes").to_numpy(np.int8)
        distinct, place = np.unique(level, return_inverse=True)
        of_level = np.array(
            [numbers.setdefault(str(name), len(numbers)) for name in distinct], dtype=np.int64
        )
        yield (2 * of_level[place] + yes).astype(np.min_scalar_type(2 * max(len(numbers), 1)))
        arrays = {ID: pa.array(frame.index.tolist(), pa.string())}
        for k, column in enumerate(task.columns):
            values = frame[column.name]
            if column.kind == "numeric":
                arrays[f"c{k}"] = pa.array(values.to_numpy(dtype=float))
            elif column.kind == "ordinal":
                rank = {value: place for place, value in enumerate(column.order)}
                codes = pa.array([rank[value] for value in values], pa.int32())
                arrays[f"c{k}"] = pa.DictionaryArray.from_arrays(codes, list(column.order), ordered=True)
            else:
                arrays[f"c{k}"] = pa.array(values.tolist(), pa.string())
        arrays |= {
            LABEL: pa.array(yes),
            LEVEL: pa.array(level.tolist(), pa.string()),
            POSITION: pa.array(np.arange(first, first + len(frame))),
        }
        first += len(frame)
        table = pa.table(arrays)
        what = f"the clean rows cannot be written to {path}: "
        with failing_as(StorageError, what, "; TMPDIR names another place"):
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()


def _sample(cells: np.ndarray) -> np.ndarray:
    """The positions, ascending, of random rows, always the same: of every cell its share, at least a few."""
    if len(cells) <= LARGE:
        return np.arange(len(cells))
    rng, counts = np.random.default_rng(0), np.bincount(cells)
    sizes = np.minimum(counts, np.maximum(counts * LARGE // len(cells), _LEAST))
    chosen = [
        np.flatnonzero(cells == cell)[np.sort(rng.choice(counts[cell], size, replace=False))]
        for cell, size in enumerate(sizes.tolist())
    ]
    return np.sort(np.concatenate(chosen))
