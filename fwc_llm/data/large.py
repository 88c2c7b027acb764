"""A table of Parquet files that is too large for memory: cleaned block by block, a sample of it in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fwc_llm.data.reading import NEEDS_PYARROW, find_columns
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import TaskFile

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.data.table import Tables

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
        with _open(path) as file:
            rows += file.metadata.num_rows
    return rows > LARGE


def load_large(task: TaskFile, paths: Sequence[Path], notes: Sequence[str] = ()) -> "Tables":
    """Clean the rows of the files, one block after the other, into a temporary file; read a sample of them.

    A table of which no more than `LARGE` clean rows are left is all in memory. `FwcError`, before any row is
    read, for a file that lacks a column of the task.
    """
    import numpy as np

    from fwc_llm.data.cleaned import Cleaner
    from fwc_llm.data.row_filters import filled_note
    from fwc_llm.data.table import Tables, crossed
    from fwc_llm.data.whole import Whole

    folder = TemporaryDirectory(prefix="fwc-llm-")
    cleaner = Cleaner(task, Path(folder.name), ())
    protected, outcome = [attribute.name for attribute in task.protected], task.outcome.source
    known: dict[str, int] = {}
    parts: list[np.ndarray] = []
    for path in paths:
        with _open(path) as file:
            titles = [str(title).strip() for title in file.schema_arrow.names]
        find_columns(path, titles, cleaner.names, lambda place: [])
    for path in paths:
        for first, block in _blocks(path, cleaner.names):
            clean = cleaner.clean(block, path, first)
            cleaner.write(clean, clean)
            found, place = np.unique(crossed(clean, protected), return_inverse=True)
            numbers = np.array([known.setdefault(str(level), len(known)) for level in found], dtype=np.int64)
            cells = 2 * numbers[place] + (clean[outcome] == "yes").to_numpy(dtype=np.int64)
            parts.append(cells.astype(np.min_scalar_type(2 * len(known))))
    done = cleaner.done()
    levels = tuple(sorted(known))
    rank = np.argsort([known[level] for level in levels])  # of the level with each number
    kind = np.min_scalar_type(2 * len(levels))
    cells = np.concatenate([(2 * rank[part // 2] + part % 2).astype(kind) for part in parts])
    sample = _sample(cells)
    frame = done.take(sample)
    said = [
        f"{task.source.files[0].rpartition('/')[2]}: {done.rows.kept:,} of {done.rows.read:,} rows kept",
        *(f"{count:,} rows left out: {reason}" for reason, count in done.rows.reasons.items()),
        *([filled_note(done.filled)] if done.filled else []),
        *notes,
    ]
    if len(sample) == len(cells):
        return Tables(frame, frame, tuple(said), done.rows)
    said.append(f"the table stays on disk: examples are chosen among {len(sample):,} of its rows")
    return Tables(frame, frame, tuple(said), done.rows, Whole(done, levels, cells, sample, folder))


def _sample(cells: "np.ndarray") -> "np.ndarray":
    """The positions, ascending, of random rows, always the same: of every cell its share, at least a few."""
    import numpy as np

    if len(cells) <= LARGE:
        return np.arange(len(cells))
    rng, counts = np.random.default_rng(0), np.bincount(cells)
    sizes = np.minimum(counts, np.maximum(counts * LARGE // len(cells), _LEAST))
    chosen = [
        np.flatnonzero(cells == cell)[np.sort(rng.choice(counts[cell], size, replace=False))]
        for cell, size in enumerate(sizes.tolist())
    ]
    return np.sort(np.concatenate(chosen))


def _open(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FwcError(NEEDS_PYARROW.format(path)) from error
    try:
        return pq.ParquetFile(path)
    except Exception as error:  # pyarrow raises many kinds, all of which mean that this is no such table
        raise FwcError(f"{path} is no Parquet table: {error}") from error


def _blocks(path: Path, names: Sequence[str]) -> Iterator[tuple[int, "pd.DataFrame"]]:
    """The rows of a file, some at a time, each with the number of the first."""
    import pyarrow as pa

    with _open(path) as file:
        listed = [title for title in file.schema_arrow.names if title.strip() in names]
        first = 0
        try:
            for batch in file.iter_batches(BLOCK, columns=listed):
                yield first, pa.Table.from_batches([batch]).to_pandas()
                first += batch.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FwcError(f"{path} cannot be read after row {first:,}: {error}") from error
