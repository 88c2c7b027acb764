"""Clean rows in a file, where a table is too large for memory; a sample of them is in memory."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.taskfile import Column

if TYPE_CHECKING:
    import pandas as pd

ID, POSITION = "id", "position"  # columns of the file beside those of the task
LABEL, LEVEL = "label", "level"  # 1 for yes, and the crossed levels


@dataclass(frozen=True, eq=False)
class DiskTable:
    """The clean rows of a table, in a Parquet file that lasts as long as its temporary `folder`.

    `columns` are those of the task, of which `integers` hold whole numbers alone; `levels` are the groups in
    alphabetical order. `cells` (n,) is the group and answer of every row: twice the place of its level, and
    one more for yes. `sample` are the ascending positions of the rows in memory.
    """

    path: Path
    columns: tuple[Column, ...]
    integers: frozenset[str]
    levels: tuple[str, ...]
    cells: np.ndarray
    sample: np.ndarray
    folder: "TemporaryDirectory[str]" = field(repr=False)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def names(self) -> dict[str, str]:
        """The name in the file of every column of the task."""
        return {column.name: f"c{k}" for k, column in enumerate(self.columns)}

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows per level (k, 2): those with the answer no, and with yes."""
        return np.bincount(self.cells, minlength=2 * len(self.levels)).reshape(-1, 2)

    @cached_property
    def fingerprint(self) -> str:
        """The table's sha256 in hex, as `Task.fingerprint` has it for a table in memory."""
        digest = hashlib.sha256()
        _update(digest, self._cells_of(ID))
        for column in self.columns:
            digest.update(f"\x1d{column.name}\x1f{column.kind}\x1e".encode())
            parts = self._cells_of(self.names[column.name])
            if column.kind == "numeric":
                for part in parts:
                    digest.update(part.to_numpy().astype("<f8").tobytes())
            else:
                _update(digest, parts)
        return digest.hexdigest()

    def dataset(self, names: Sequence[str]) -> Any:
        """A pyarrow dataset of these columns of the task, and of `LABEL` and `LEVEL`."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        chosen = [*(self.names[name] for name in names), LABEL, LEVEL]
        schema = ds.dataset(self.path).schema
        return ds.dataset(self.path, schema=pa.schema([schema.field(name) for name in chosen]))

    def take(self, positions: "Sequence[int] | np.ndarray") -> "pd.DataFrame":
        """These rows, in this order, as `Task.pool` has them."""
        import pandas as pd
        import pyarrow as pa
        import pyarrow.dataset as ds

        wanted, order = np.unique(np.asarray(positions, dtype=np.int64), return_inverse=True)
        found = ds.dataset(self.path).take(pa.array(wanted), columns=[ID, *self.names.values()]).to_pandas()
        frame: pd.DataFrame = found.rename(columns={place: name for name, place in self.names.items()})
        texts = {column.name: "str" for column in self.columns if column.kind != "numeric"}
        frame = frame.astype(texts | dict.fromkeys(self.integers, "int64"))
        return frame.set_axis(pd.Index(frame.pop(ID).to_list(), dtype="str"), axis=0).iloc[order]

    def find(self, ids: Collection[str]) -> np.ndarray:
        """The positions of the rows with these ids, ascending."""
        return np.asarray(self._where({ID: _values(ids, numeric=False)})[POSITION])

    def equal(self, names: Sequence[str], rows: Collection[tuple[Any, ...]]) -> np.ndarray:
        """The positions of the rows whose columns `names` equal one of these `rows`, ascending."""
        numeric = {column.name for column in self.columns if column.kind == "numeric"}
        wanted = {
            self.names[name]: _values(cells, name in numeric)
            for name, cells in zip(names, zip(*rows, strict=True), strict=True)
        }
        found, known = self._where(wanted), set(rows)
        columns = [found[place].to_pylist() for place in wanted]
        same = [row in known for row in zip(*columns, strict=True)]
        positions = np.asarray(found[POSITION])
        return np.asarray(positions[np.array(same, dtype=bool)])

    def _where(self, wanted: dict[str, Any]) -> Any:
        """Positions and columns of the rows that hold one of the wanted values in every column."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        condition = None
        for name, values in wanted.items():
            column = ds.field(name)
            matches = (column.cast(pa.string()) if values.type == pa.string() else column).isin(values)
            condition = matches if condition is None else condition & matches
        return ds.dataset(self.path).to_table(columns=[POSITION, *wanted], filter=condition)

    def _cells_of(self, name: str) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=[name]):
                yield batch.column(0)


def _update(digest: Any, parts: Iterator[Any]) -> None:
    """Texts joined as `Task.fingerprint` joins them."""
    between = ""
    for part in parts:
        digest.update((between + "\x1f".join(part.to_pylist())).encode())
        between = "\x1f"


def _values(values: Collection[Any], numeric: bool) -> Any:
    """Those of the values that a column can hold, numbers or texts: anybody may have written them."""
    import pyarrow as pa

    found: set[float | str] = set()
    for value in values:
        with suppress(TypeError, ValueError, OverflowError):
            if numeric and isinstance(value, int | float):
                found.add(float(value))
            elif not numeric and isinstance(value, str):
                value.encode()
                found.add(value)
    return pa.array(list(found), pa.float64() if numeric else pa.string())
