"""Collections of Dask as they are given: what fits together, and what is refused."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.streaming.cluster.given import is_dask, read_collections
from fwc_llm.errors import InputError

FRAME = pd.DataFrame({"a": range(12), "b": list("xyz") * 4, "y": [0, 1] * 6, "d": [0, 0, 1] * 4})


def array(rows: int = 12, chunk: int = 3, columns: int = 2) -> Any:
    return da.from_array(
        np.arange(rows * columns, dtype=float).reshape(rows, columns), chunks=(chunk, columns)
    )


def labels(rows: int = 12, chunk: int = 3) -> Any:
    return da.from_array(np.arange(rows) % 2, chunks=chunk)


def unknown(collection: Any) -> Any:
    """The same with chunks of unknown lengths."""
    first = collection if collection.ndim == 1 else collection[:, 0]
    return collection[first > -1]


def frame(parts: int = 3) -> Any:
    return dd.from_pandas(FRAME, npartitions=parts)


def test_only_collections_of_dask_are_dasks() -> None:
    for table in (array(), frame(), frame().y, dask.delayed(1)):
        assert is_dask(table)
    for table in (np.ones(3), FRAME, "rows.parquet", None, dask):
        assert not is_dask(table)


def test_the_solver_does_not_import_dask() -> None:
    code = (
        "import sys; from fwc_llm.coreset.streaming.cluster.source import DaskSource; "
        "from fwc_llm.coreset.streaming.cluster.given import is_dask; is_dask(1); "
        "print({'dask', 'distributed'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a series": (lambda: (frame().a,), "X is a dask Series of 1 dimensions: pass a dask.array"),
    "a delayed value": (lambda: (dask.delayed(1),), "X is a dask Delayed"),
    "a vector": (lambda: (labels(),), "X is a dask Array of 1 dimensions"),
    "labels in memory": (
        lambda: (array(), np.zeros(12)),
        "y is of type ndarray but X is a dask.array",
    ),
    "a name beside an array": (lambda: (array(), "y"), "y is of type str but X is a dask.array"),
    "labels beside a frame": (lambda: (frame(), np.zeros(12)), "y is no name of a column"),
    "no such column": (
        lambda: (frame(), "z"),
        "y names the column 'z', which X does not have: it has 'a', 'b', 'y', 'd'",
    ),
    "no such attribute": (lambda: (frame(), "y", ["d", "z"]), "sensitive names the column 'z'"),
    "several outcomes": (lambda: (frame(), ["y", "d"]), "y is no name of a column"),
    "no feature": (lambda: (frame()[["y", "d"]], "y", "d"), "no feature is left"),
    "too few labels": (lambda: (array(), labels(11)), "y has 11 rows but X has 12"),
    "a matrix of outcomes": (lambda: (array(), array()), "y has 2 dimensions"),
    "a number of labels": (lambda: (array(), labels().sum()), "y has 0 dimensions"),
    "delayed labels": (lambda: (array(), dask.delayed(1)), "y is a dask Delayed"),
    "other chunks, unknown": (
        lambda: (unknown(array()), labels(12, 4)),
        "y has 3 chunks but X has 4, some of unknown length: give both the same chunks",
    ),
    "other partitions": (lambda: (frame(), frame(2).y), "y has 2 partitions but X has 3"),
    "other divisions": (
        lambda: (frame(2), frame(4).repartition(divisions=(0, 3, 11)).y),
        "the divisions of y differ",
    ),
    "array beside frame": (lambda: (frame(), labels()), "y has 4 partitions but X has 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(InputError) as caught:
        read_collections(*(*given(), None, None, None)[:4])
    assert words in str(caught.value)


def test_labels_and_columns_take_the_chunks_of_the_rows() -> None:
    found = read_collections(array().rechunk((3, 1)), labels(12, 5), array(12, 6), labels(12, 12))
    assert {part.numblocks for part in found.parts.values()} == {(4, 1), (4,)}
    assert read_collections(unknown(array()), unknown(labels()), None, None).count == 4


def test_the_stamp_is_that_of_the_table() -> None:
    def stamp(*given: Any) -> str:
        return read_collections(*(*given, None, None, None)[:4]).stamp

    @dask.delayed
    def load(k: int) -> np.ndarray:
        return np.full((3, 2), k)

    def loaded() -> Any:
        return da.concatenate([da.from_delayed(load(k), (3, 2), dtype=float) for k in range(3)])

    assert stamp(array(), labels()) == stamp(array(), labels())
    assert stamp(frame(), "y") == stamp(frame(), "y")
    assert stamp(loaded()) == stamp(loaded()), "their names come from chance"
    different = [
        stamp(array()),
        stamp(array(), labels()),
        stamp(array(12, 4)),
        stamp(array() + 1),
        stamp(frame()),
        stamp(frame(), "y"),
        stamp(frame(), None, "y"),
        stamp(frame().assign(a=1)),
        stamp(loaded()),
        stamp(loaded()[:6]),
    ]
    assert len(set(different)) == len(different)
