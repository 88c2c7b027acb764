"""A task's table cleaned part by part into a Parquet file, for tables that are too large for memory."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.data.reading import table_of
from fwc_llm.data.row_filters import RowCount, Seen
from fwc_llm.data.table import build_tables, check_whole
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.taskfile import Column, TaskFile

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

_ID, _TEMPORARY = "id", "cleaned.parquet"


@dataclass(frozen=True)
class Cleaned:
    """The clean rows in a file, whose column `names[name]` is that of the task.

    `extra` are columns beside those of the task: the caller's own, such as labels. `whole` names the numeric
    columns of which all numbers are whole. `filled` counts by column missing values that became a category.
    """

    path: Path
    columns: tuple[Column, ...]
    extra: tuple[str, ...]
    rows: RowCount
    whole: frozenset[str]
    filled: Mapping[str, int]

    @property
    def names(self) -> dict[str, str]:
        """The name in the file of every column of the task."""
        return {column.name: f"c{k}" for k, column in enumerate(self.columns)}

    def fingerprint(self) -> str:
        """The table's sha256 in hex, as `Task.fingerprint` has it for a table in memory."""
        digest = hashlib.sha256()
        _update(digest, self._texts(_ID))
        for column in self.columns:
            digest.update(f"\x1d{column.name}\x1f{column.kind}\x1e".encode())
            name = self.names[column.name]
            if column.kind == "numeric":
                for part in self._parts(name):
                    digest.update(part.to_numpy().astype("<f8").tobytes())
            else:
                _update(digest, self._texts(name))
        return digest.hexdigest()

    def take(self, positions: "Sequence[int] | np.ndarray") -> "pd.DataFrame":
        """Some of the rows, in this order, as `Task.pool` has them."""
        import numpy as np
        import pandas as pd
        import pyarrow as pa
        import pyarrow.parquet as pq

        wanted, order = np.unique(np.asarray(positions, dtype=np.int64), return_inverse=True)
        found: dict[str, list[Any]] = {name: [] for name in (_ID, *self.names.values())}
        first = 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                low, high = np.searchsorted(wanted, (first, first + n))
                if low < high:
                    part = file.read_row_group(group, columns=list(found)).take(
                        pa.array(wanted[low:high] - first)
                    )
                    for name, values in found.items():
                        values.extend(part.column(name).to_pylist())
                first += n
        frame = pd.DataFrame(
            {
                name: pd.Series(found[place], dtype=self._dtype(name) if name in self._numeric else "str")
                for name, place in self.names.items()
            }
        )
        return frame.set_axis(pd.Index(found[_ID], dtype="str"), axis=0).iloc[order]

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """The rows in blocks: their ids, then these columns of the task."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            columns = [_ID, *(self.names[name] for name in names)]
            for batch in file.iter_batches(columns=columns):
                yield batch.select(columns)

    @property
    def _numeric(self) -> set[str]:
        return {column.name for column in self.columns if column.kind == "numeric"}

    def _dtype(self, name: str) -> str:
        return "int64" if name in self.whole else "float64"

    def _parts(self, name: str) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=[name]):
                yield batch.column(0)

    def _texts(self, name: str) -> Iterator[list[str]]:
        for part in self._parts(name):
            yield part.to_pylist()


class Cleaner:
    """Writes the parts of a table, in their order, as they are cleaned; that takes the columns `names`."""

    def __init__(self, task: TaskFile, folder: Path, extra: Sequence[str]) -> None:
        if any(item.use == "id" for item in task.fields):
            name = next(item.name for item in task.fields if item.use == "id")
            raise FwcError(
                f'{task.path}: column {name!r} has role = "id", whose values are compared over all rows, but '
                'this table is read in parts: write role = "drop"'
            )
        self.task = task
        self.seen = Seen()
        beside = {attribute.source for attribute in task.protected} | {rule.column for rule in task.keep}
        self.names = [item.name for item in task.fields if item.use == "column" or item.name in beside]
        self._path, self._extra = folder / _TEMPORARY, tuple(extra)
        self._writer: Any = None

    def clean(self, frame: "pd.DataFrame", path: Path, first: int) -> "pd.DataFrame":
        """The clean rows of a part whose first row is the row number `first`, from 0, of a file."""
        raw = table_of(frame, path, self.task.source, self.names, path.name, first)
        return build_tables(self.task, [raw], self.seen).pool

    def write(self, clean: "pd.DataFrame", extra: "pd.DataFrame") -> None:
        """Add rows that are clean, with the caller's own columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not len(clean):
            return
        arrays = {_ID: pa.array(clean.index.tolist(), pa.string())}
        for k, column in enumerate(self.task.columns):
            values = clean[column.name]
            if column.kind == "numeric":
                arrays[f"c{k}"] = pa.array(values.to_numpy(dtype=float))
            elif column.kind == "ordinal":
                place = {value: rank for rank, value in enumerate(column.order)}
                codes = pa.array([place[value] for value in values], pa.int32())
                arrays[f"c{k}"] = pa.DictionaryArray.from_arrays(codes, list(column.order), ordered=True)
            else:
                arrays[f"c{k}"] = pa.array(values.tolist(), pa.string())
        for name in self._extra:
            arrays[name] = pa.array(extra[name].to_numpy())
        table = pa.table(arrays)
        try:
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, table.schema)
            self._writer.write_table(table)
        except OSError as error:
            raise StorageError(
                f"the clean rows cannot be written to {self._path}: {error}; TMPDIR names another place"
            ) from error

    def done(self) -> Cleaned:
        """The whole table, checked; `FwcError` for what the task file does not allow of it."""
        if self._writer is not None:
            self._writer.close()
        rows = check_whole(self.task, self.seen)
        whole = frozenset(name for name, is_whole in self.seen.whole.items() if is_whole)
        filled = {
            item.name: self.seen.filled[item.name] for item in self.task.fields if self.seen.filled[item.name]
        }
        return Cleaned(self._path, self.task.columns, self._extra, rows, whole, filled)


def _update(digest: Any, parts: Iterator[list[str]]) -> None:
    """Texts joined as `Task.fingerprint` joins them."""
    between = ""
    for texts in parts:
        digest.update((between + "\x1f".join(texts)).encode())
        between = "\x1f"
