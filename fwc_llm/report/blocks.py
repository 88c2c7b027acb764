"""A file of predictions, read block by block: of every column its different texts, and numbers for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fwc_llm.data.reading import NEEDS_PYARROW, as_text, is_null, read_frame
from fwc_llm.errors import FwcError
from fwc_llm.files import open_binary, reason
from fwc_llm.metrics.answers import names_of
from fwc_llm.taskfile import ENDINGS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow

    from fwc_llm.metrics.answers import Names

ROWS = 65_536  # of a block

Cells = tuple[npt.NDArray[np.int64], Sequence[str]]  # a column: numbers (n,) of the texts


@dataclass(frozen=True)
class File:
    """A file's columns, what its rows are called, and a way to read some of the columns in blocks."""

    columns: Sequence[str]
    kind: str
    blocks: Callable[[Sequence[str]], Iterator[list[Cells]]]

    def read(self, names: Sequence[str]) -> list["Names"]:
        """Return whole columns, their texts in the order in which they first come; a missing one is empty."""
        known: list[dict[str, int]] = [{} for _ in names]
        codes: list[list[npt.NDArray[Any]]] = [[] for _ in names]
        for block in self.blocks(names):
            for own, parts, (code, texts) in zip(known, codes, block, strict=True):
                place = np.array([own.setdefault(text, len(own)) for text in texts], dtype=np.int32)
                parts.append(place[code])
        whole = [np.concatenate([np.zeros(0, dtype=np.int32), *parts]) for parts in codes]
        return [names_of(code, list(own)) for code, own in zip(whole, known, strict=True)]


def open_file(path: Path) -> File:
    """Open a CSV file, or Parquet, Excel or JSON lines by its ending; the last two are held whole.

    Raises `FwcError` for a file that cannot be read, here or while its blocks are read.
    """
    format = ENDINGS.get(path.suffix.lower())
    if format == "parquet":
        return _parquet(path)
    if format is None:
        return _csv(path)
    try:
        typed = read_frame(path, path.read_bytes(), format)
    except OSError as error:
        raise _unreadable(path, error) from None
    place = {str(name): place for place, name in enumerate(typed)}
    return File(
        list(place),
        "row",
        lambda names: iter([[_coded(typed.iloc[:, place[name]].tolist()) for name in names]]),
    )


def _csv(path: Path) -> File:
    blocks = _blocks_of_csv(path)
    first = next(blocks)

    def cells(block: "pd.DataFrame", name: str) -> Cells:
        import pandas as pd

        code, texts = pd.factorize(block[name])
        return code, texts.tolist()

    return File(
        list(map(str, first.columns)),
        "line",
        lambda names: ([cells(block, name) for name in names] for block in chain([first], blocks)),
    )


def _blocks_of_csv(path: Path) -> Iterator["pd.DataFrame"]:
    import pandas as pd

    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        with pd.read_csv(path, chunksize=ROWS, **options) as reader:
            yield from reader
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        raise FwcError(f"{path} is no UTF-8 text ({error}): save it as CSV (UTF-8), or as Parquet") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise FwcError(f"{path} is not a CSV file: {error}") from None


def _parquet(path: Path) -> File:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise FwcError(NEEDS_PYARROW.format(path)) from error
    try:
        open_binary(path).close()  # a pipe would be waited for
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
    except Exception as error:  # pyarrow raises many kinds, all of which mean that this is no such table
        raise FwcError(f"{path} is no Parquet table: {error}") from error

    def blocks(names: Sequence[str]) -> Iterator[list[Cells]]:
        try:
            for batch in file.iter_batches(ROWS, columns=list(dict.fromkeys(names))):
                yield [_of_arrow(batch.column(name), schema.field(name), schema.metadata) for name in names]
        except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's own errors are ValueErrors
            raise FwcError(f"{path} is no Parquet table: {error}") from error

    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return File([name for name in schema.names if name not in index], "row", blocks)


def _of_arrow(column: "pyarrow.Array", field: "pyarrow.Field", metadata: dict[bytes, bytes] | None) -> Cells:
    """Each different cell is turned into a text once; what cannot be compared, a list say, every time.

    What pandas wrote about the file in its `metadata` decides what a cell is: a column that it calls texts is
    one, however it is stored.
    """
    import pyarrow

    def cells(values: "pyarrow.Array") -> list[Any]:
        schema = pyarrow.schema([field.with_type(values.type)], metadata)
        found: list[Any] = pyarrow.table([values], schema=schema).to_pandas()[field.name].tolist()
        return found

    try:
        coded = column.dictionary_encode()
    except (pyarrow.ArrowNotImplementedError, AttributeError):
        return _coded(cells(column))
    code = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    return code, [*map(_text, cells(coded.dictionary)), ""]


def _coded(cells: Sequence[Any]) -> Cells:
    known: dict[str, int] = {}
    return np.array([known.setdefault(_text(cell), len(known)) for cell in cells], np.int64), list(known)


def _text(cell: Any) -> str:
    return "" if is_null(cell) else as_text(cell)


def _unreadable(path: Path, error: OSError) -> FwcError:
    return FwcError(f"cannot read {path}: {reason(error)}")
