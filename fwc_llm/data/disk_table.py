"""Tables larger than memory: clean rows in a file, a sample in memory."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.cell_rules import Domain, as_number
from fwc_llm.sanitize import parse_finite, utf8_safe
from fwc_llm.taskfile import Column

ID, POSITION = "id", "position"  # columns of the file in addition to those of the task
LABEL, LEVEL = "label", "level"  # 1 for yes; the group, with crossed levels
_OPEN = 0.5  # a column is free text if a larger share of rows has a text that occurs only once


@dataclass(frozen=True, eq=False)
class DiskTable:
    """The n clean rows of a table, in the Parquet file `path` in a temporary `folder`.

    `cells` (n,) encodes each row's group and outcome: 2 · index of the group in `levels`, plus 1 for yes.
    """

    path: Path
    columns: tuple[Column, ...]
    dtypes: Mapping[str, str]
    levels: tuple[str, ...]
    cells: np.ndarray
    folder: "TemporaryDirectory[str]" = field(repr=False)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def names(self) -> dict[str, str]:
        """Map each column of the task to its name in the file."""
        return {column.name: f"c{k}" for k, column in enumerate(self.columns)}

    @cached_property
    def counts(self) -> np.ndarray:
        """Numbers of rows (k, 2) by group and outcome, "no" first."""
        return np.bincount(self.cells, minlength=2 * len(self.levels)).reshape(-1, 2)

    @cached_property
    def fingerprint(self) -> str:
        """The table's SHA-256 (hex), equal to `Task.fingerprint` in memory."""
        return fingerprint(self.columns, self._cells_of(ID), lambda name: self._cells_of(self.names[name]))

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """Each column's domain, equal to `Task.domains` of the same table in memory."""
        return domains(self.columns, lambda name: self._cells_of(self.names[name]))

    def dataset(self, names: Sequence[str]) -> Any:
        """A pyarrow dataset with these columns of the task, and `LABEL` and `LEVEL`."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        chosen = [*(self.names[name] for name in names), LABEL, LEVEL]
        schema = ds.dataset(self.path).schema
        return ds.dataset(self.path, schema=pa.schema([schema.field(name) for name in chosen]))

    def take(self, positions: "Sequence[int] | np.ndarray") -> "pd.DataFrame":
        """The rows at these positions in this order, as in `Task.pool`."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        wanted, order = np.unique(np.asarray(positions, dtype=np.int64), return_inverse=True)
        rows = ds.dataset(self.path).take(pa.array(wanted), columns=[ID, *self.names.values()]).to_pandas()
        ids = pd.Index(rows.pop(ID).to_list(), dtype="str")
        frame: pd.DataFrame = rows.set_axis([*self.names], axis=1).astype(dict(self.dtypes))
        return frame.set_axis(ids, axis=0).iloc[order]

    def find(self, ids: Collection[str]) -> np.ndarray:
        """Ascending positions of the rows with these ids."""
        return np.asarray(self._where({ID: _values(ids, numeric=False)})[POSITION])

    def equal(self, names: Sequence[str], rows: Collection[tuple[Any, ...]]) -> np.ndarray:
        """Ascending positions of rows that equal one of `rows` in the columns `names`."""
        numeric = {column.name for column in self.columns if column.kind == "numeric"}
        wanted = {
            self.names[name]: _values(cells, name in numeric)
            for name, cells in zip(names, zip(*rows, strict=True), strict=True)
        }
        candidates, wanted_rows = self._where(wanted), set(rows)
        columns = [candidates[field_name].to_pylist() for field_name in wanted]
        same = np.array([row in wanted_rows for row in zip(*columns, strict=True)], dtype=bool)
        positions: np.ndarray = np.asarray(candidates[POSITION])[same]
        return positions

    def _where(self, wanted: dict[str, Any]) -> Any:
        """The rows that have one of the wanted values in every column of `wanted`."""
        import pyarrow.dataset as ds

        matches = [ds.field(name).cast(values.type).isin(values) for name, values in wanted.items()]
        return ds.dataset(self.path).to_table(columns=[POSITION, *wanted], filter=reduce(and_, matches))

    def _cells_of(self, name: str) -> "Iterator[pd.Series]":
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=[name]):
                yield batch.column(0).to_pandas()


def fingerprint(
    columns: Sequence[Column],
    ids: "Iterable[pd.Index | pd.Series]",
    parts_of: "Callable[[str], Iterable[pd.Series]]",
) -> str:
    """SHA-256 (hex) of row ids, columns and values of a clean table, given in parts."""
    digest = hashlib.sha256()

    def add(parts: "Iterable[pd.Index | pd.Series]") -> None:
        for field_name, part in enumerate(parts):
            digest.update(("\x1f" * (field_name > 0) + "\x1f".join(part.tolist())).encode())

    add(ids)
    for column in columns:
        digest.update(f"\x1d{column.name}\x1f{column.kind}\x1e".encode())
        if column.kind != "numeric":
            add(parts_of(column.name))
            continue
        for part in parts_of(column.name):
            digest.update(part.to_numpy(dtype="<f8").tobytes())
    return digest.hexdigest()


def domains(columns: Sequence[Column], parts_of: "Callable[[str], Iterable[pd.Series]]") -> dict[str, Domain]:
    """The domain of every column of a clean table, given in parts."""
    found = {}
    for column in columns:
        if column.kind == "numeric" and not column.values:
            ends = [end for part in parts_of(column.name) for end in (part.min(), part.max())]
            found[column.name] = Domain(least=min(ends), most=max(ends))
            continue
        counts: Counter[Any] = Counter()
        for part in parts_of(column.name):
            counts.update({cell: n for cell, n in part.value_counts().items() if n})
        if column.kind == "numeric":
            words = {as_number(text) for text in column.values}
            known = frozenset(map(float, counts)) if words.issuperset(counts) else None
            found[column.name] = Domain(least=min(counts), most=max(counts), values=known)
        else:
            is_open = sum(n == 1 for n in counts.values()) > _OPEN * counts.total()
            found[column.name] = Domain(values=None if is_open else frozenset(counts))
    return found


def _values(values: Collection[Any], numeric: bool) -> Any:
    """A pyarrow array of those (untrusted) `values` that the column's type can hold."""
    import pyarrow as pa

    if numeric:
        return pa.array(
            {number for value in values if (number := parse_finite(value)) is not None}, pa.float64()
        )
    return pa.array({utf8_safe(value) for value in values if isinstance(value, str)}, pa.string())
