"""Partitions as blocks, by Dask's threads in this process."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.cluster.source import DaskSource
from fwc_llm.errors import InputError

FRAME = pd.DataFrame({"a": range(30), "b": list("xyz") * 10, "y": [0, 1] * 15, "d": [0, 0, 1] * 10})
ROWS = np.random.default_rng(0).random((30, 5))


def look(block: Block) -> dict[int, Any]:
    """A part that holds all of the block."""
    return {block.index: block}


def together(first: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    """A merge that changes its first part."""
    first.update(other)
    return first


def read(*given: Any) -> list[Block]:
    source = DaskSource.open(*given)
    found = source.reduce(look, together)
    assert sorted(found) == list(range(source.collections.count))
    return [found[index] for index in sorted(found)]


def test_an_array_is_read_as_it_is() -> None:
    x = da.from_array(ROWS, chunks=(4, 2))
    blocks = read(x[:, :3], (x[:, 3] > 0.5), x[:, 3:], x[:, 4])
    assert np.array_equal(np.vstack([block.rows for block in blocks]), ROWS[:, :3])
    assert np.array_equal(np.concatenate([block.y for block in blocks]), ROWS[:, 3] > 0.5)
    assert np.array_equal(np.vstack([block.sensitive for block in blocks]), ROWS[:, 3:])
    assert np.array_equal(np.concatenate([block.weight for block in blocks]), ROWS[:, 4])
    assert blocks[2].where == "partition 2 of the dask array"


def test_a_frame_is_read_as_it_is() -> None:
    ddf = dd.from_pandas(FRAME, npartitions=20)  # more merges than one level holds
    blocks = read(ddf, "y", ["d"])
    assert pd.concat([block.rows for block in blocks])["a"].tolist() == list(range(30))
    assert list(blocks[0].rows.columns) == ["a", "b"]
    assert pd.concat([block.y for block in blocks]).tolist() == FRAME.y.tolist()
    assert pd.concat([block.sensitive for block in blocks]).d.tolist() == FRAME.d.tolist()
    beside = read(ddf[["a", "b"]], ddf.y, ddf[["d"]])
    assert pd.concat([block.sensitive for block in beside]).d.tolist() == FRAME.d.tolist()


def test_delayed_frames_that_dask_does_not_check() -> None:
    """Their nodes in the graph are aliases that have the names of what they stand for."""
    parts = [dask.delayed(FRAME.iloc.__getitem__)(slice(low, low + 10)) for low in (0, 10, 20)]
    blocks = read(dd.from_delayed(parts, meta=FRAME.iloc[:0], verify_meta=False), "y", "d")
    assert pd.concat([block.rows for block in blocks]).equals(FRAME[["a", "b"]])


def test_what_a_shuffle_or_other_chunks_need_is_computed_first() -> None:
    blocks = read(dd.from_pandas(FRAME, npartitions=4).shuffle("b"), "y", "d")
    assert sorted(pd.concat([block.rows for block in blocks]).a) == list(range(30))
    x = da.from_array(ROWS, chunks=(7, 5))
    blocks = read(x.rechunk((4, 5)), x[:, 0])
    assert np.array_equal(np.concatenate([block.y for block in blocks]), ROWS[:, 0])


def test_a_memory_map_is_not_copied_into_every_partition(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    source = DaskSource.open(da.from_array(mapped, chunks=(10, 5)))
    assert {len(load.needs) for load in source.partitions.loads} == {1}
    assert len(source.partitions.shared) == 1
    assert np.array_equal(np.vstack([part.rows for part in source.reduce(look, together).values()]), ROWS)


def loads(folder: Path, sizes: list[int]) -> Any:
    """An array whose chunks have unknown lengths and count how often they are made."""

    def load(k: int) -> np.ndarray:
        (folder / f"{k}-{len(os.listdir(folder))}").touch()
        return ROWS[: sizes[k]] + k

    chunks = [dask.delayed(load)(k) for k in range(len(sizes))]
    return da.concatenate([da.from_delayed(chunk, (np.nan, 5), dtype=float) for chunk in chunks])


def test_unknown_lengths_and_empty_partitions(tmp_path: Path) -> None:
    x = loads(tmp_path, [3, 0, 4])
    blocks = read(x[:, :4], x[:, 4])
    assert [block.rows.shape for block in blocks] == [(3, 4), (0, 4), (4, 4)]
    assert [len(block.y) for block in blocks] == [3, 0, 4]
    assert len(os.listdir(tmp_path)) == 3, "rows and labels of a chunk are made by loading it once"


def test_progress_is_told_and_nothing_is_computed_before() -> None:
    said: list[tuple[int, int]] = []
    x = da.from_array(ROWS, chunks=(3, 5))
    DaskSource.open(x).reduce(look, together, lambda done, blocks: said.append((done, blocks)))
    assert said == [(k, 10) for k in range(1, 11)]


def fails(k: int) -> Callable[[np.ndarray], np.ndarray]:
    def fail(rows: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info and block_info[0]["chunk-location"][0] == k:
            raise OSError("the disk is gone")
        return rows

    return fail


def ragged(frame: pd.DataFrame) -> pd.Series:
    return frame.y.iloc[: 3 if 4 in set(frame.a) else None]


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "a partition that raises": (
        lambda: (da.from_array(ROWS, chunks=(3, 5)).map_blocks(fails(4), dtype=float),),
        "partition 4 of the dask array cannot be read (OSError: the disk is gone)",
    ),
    "what comes before a shuffle raises": (
        lambda: (da.from_array(ROWS, chunks=(3, 5)).map_blocks(fails(4), dtype=float).rechunk((4, 5)),),
        "the dask array cannot be computed (OSError: the disk is gone)",
    ),
    "labels of other lengths": (
        lambda: (
            (ddf := dd.from_pandas(FRAME, npartitions=5)),
            ddf.map_partitions(ragged, meta=("y", "int64")),
        ),
        "y has 3 rows in partition 0 of the dask DataFrame but X has 6",
    ),
    "another index": (
        lambda: (
            dd.from_pandas(FRAME, npartitions=5),
            dd.from_pandas(FRAME.y.set_axis(range(1, 31)), npartitions=5).clear_divisions(),
        ),
        "the index of y differs from that of X in partition",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_partition_is_named(case: str) -> None:
    given, words = BROKEN[case]
    with pytest.raises(InputError) as caught:
        read(*given())
    assert words in str(caught.value)


def test_an_error_of_the_task_stays_what_it_is() -> None:
    def task(block: Block) -> int:
        raise ZeroDivisionError("a mistake of ours") if block.index == 1 else InputError("a value")

    x = da.from_array(ROWS, chunks=(15, 5))
    with pytest.raises(InputError, match=r"a value \(in partition 0 of the dask array\)"):
        DaskSource.open(x[:15]).reduce(task, max)
    with pytest.raises(ZeroDivisionError) as caught:
        DaskSource.open(x).reduce(lambda block: task(block) if block.index else 0, max)
    assert caught.value.__notes__ == ["in partition 1 of the dask array"]
