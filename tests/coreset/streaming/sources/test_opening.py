"""Where the rows may lie: all places give the same rows, and what is wrong there is named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.streaming.blocks import Block, Source
from fwc_llm.coreset.streaming.sources.opening import open_source
from fwc_llm.errors import InputError

N = 1000


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "pay": rng.lognormal(10, 1, N).astype(np.float32),
            "job": rng.choice(["clerk", "cook", "nurse"], N),
            "grade": pd.Categorical(rng.choice(["a", "b"], N)),
            "d": rng.choice(["f", "m"], N),
            "y": rng.integers(0, 2, N),
        }
    )


class Blocks:
    """Blocks that can be read again, one of them empty."""

    def __init__(self, frame: pd.DataFrame, as_tuples: bool = False) -> None:
        self.frame, self.as_tuples = frame, as_tuples

    def __iter__(self) -> Iterator[Any]:
        for low, high in ((0, 300), (300, 300), (300, N)):
            part = self.frame.iloc[low:high]
            yield (part.drop(columns=["y", "d"]), part["y"], part["d"]) if self.as_tuples else part


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = table()
    for k, (low, high) in enumerate(((0, 450), (450, 460), (460, N))):
        frame.iloc[low:high].to_parquet(tmp_path / f"rows-{k}.parquet", row_group_size=130)
    return tmp_path


def collected(source: Source | None) -> tuple[pd.DataFrame, list[Any], list[Any]]:
    """All rows in order, with labels and levels."""
    assert source is not None
    parts: dict[int, Block] = source.reduce(lambda block: {block.index: block}, lambda one, two: one | two)
    assert sorted(parts) == list(range(len(parts)))
    blocks = [parts[k] for k in sorted(parts)]
    rows = pd.concat([pd.DataFrame(b.rows).astype({"job": str, "grade": str}) for b in blocks])
    labels, levels = (
        [value for b in blocks for value in np.asarray(getattr(b, part)).tolist()]
        for part in ("y", "sensitive")
    )
    return rows.reset_index(drop=True), labels, levels


def test_all_places_give_the_same_rows_in_the_same_order(folder: Path) -> None:
    frame = table()
    by_place = folder / "by"
    by_place.mkdir()
    frame.iloc[:0].to_parquet(by_place / "a.parquet")  # a file without rows among the others
    frame.to_parquet(by_place / "z.parquet")
    paths = sorted(folder.glob("rows-*.parquet"))
    frame.to_csv(folder / "rows.csv", index=False)
    wanted = frame[["age", "pay", "job", "grade"]].astype({"job": str, "grade": str})
    for X in (
        str(folder / "rows-*.parquet"),
        paths,
        by_place,
        ds.dataset([str(path) for path in paths]),
        folder / "rows.csv",
        Blocks(frame),
        [frame.iloc[:10], frame.iloc[10:]],
    ):
        rows, y, d = collected(open_source(X, "y", "d", threads=3))
        pd.testing.assert_frame_equal(rows, wanted, check_dtype=False, rtol=1e-6)
        assert y == frame["y"].tolist()
        assert d == frame["d"].tolist()
    rows, y, d = collected(open_source(Blocks(frame, as_tuples=True)))
    pd.testing.assert_frame_equal(rows, wanted, check_dtype=False)
    assert (y, d) == (frame["y"].tolist(), frame["d"].tolist())


def test_folders_of_partitions_are_columns(tmp_path: Path) -> None:
    frame = table()
    frame.to_parquet(tmp_path / "parts", partition_cols=["d", "y"])
    source = open_source(tmp_path / "parts", "y", ["d", "grade"])
    assert source is not None
    found = source.reduce(
        lambda block: block.rows.assign(d=block.sensitive["d"].astype(str), y=block.y),
        lambda one, two: pd.concat([one, two]),
    )
    assert sorted(found.columns) == ["age", "d", "job", "pay", "y"]
    for name in ("age", "d", "y"):
        assert (
            found[name].astype(str).value_counts().to_dict()
            == frame[name].astype(str).value_counts().to_dict()
        )


def test_files_of_several_writers_are_what_pandas_makes_of_them(tmp_path: Path) -> None:
    frame = table().assign(flag=np.arange(N) % 3 == 0)
    widths = pd.Categorical(frame["grade"].astype(str), [*map(str, range(300)), "a", "b"])
    parts = [
        frame[:0].assign(pay=None).drop(columns="job"),
        frame[:200].assign(job=frame["job"].astype("category")),
        frame[200:400].assign(age=frame["age"].astype(float), y=frame["y"].astype(bool)),
        frame[400:600].assign(grade=widths[400:600], age=frame["age"].astype("Int16"))[::-1],
        frame[600:].assign(grade=frame["grade"].astype(str))[frame.columns[::-1]],
    ]
    for k, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{k}.parquet", index=k == 3)
        part.reset_index(drop=True).to_feather(tmp_path / f"{k}.feather")
    pd.DataFrame().to_parquet(tmp_path / "00.parquet")
    whole = pd.concat([part.astype({"y": int, "grade": str, "job": str}) for part in parts[1:]])
    terms = {"y": "y", "sensitive": "d"}
    wanted = FairCoreset(6, 0.05, random_state=0).fit(whole, **terms)
    for form in ("parquet", "feather"):
        files = str(tmp_path / f"*.{form}")
        assert FairCoreset(6, 0.05, random_state=0).fit(files, **terms).objective_ == wanted.objective_
        surveyed = FairCoreset(6, 0.05, random_state=0, sample=300).fit(
            files, **terms
        )  # a sample of all rows
        assert surveyed.objective_ == pytest.approx(wanted.objective_, rel=1e-12)
    for wrong, said in (
        (frame.assign(more=1), "{0}/1.parquet lacks the column 'more', which {0}/4.parquet has"),
        (
            frame.set_index("pay"),
            "{0}/4.parquet lacks the column 'pay' (there it is the index), which {0}/1.p",
        ),
        (frame.assign(job=3), "the column 'job' is dictionary"),
        (frame.assign(pay=None), "column 'pay' is missing in row 0 of {0}/4.parquet"),
    ):
        wrong.to_parquet(tmp_path / "4.parquet")
        with pytest.raises(InputError, match=re.escape(said.format(tmp_path))):
            FairCoreset(6).fit(str(tmp_path / "*.parquet"), **terms)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "t.csv is empty, and has no header line"),
        (b"\xff\xfea\0,\0", "t.csv is UTF-16 text: write it as UTF-8"),
        (b"x,y,d\n1,0,\xe9\n", "t.csv holds in line 2 text that is no UTF-8 (is it of an older encoding"),
        (
            b"x,y,d\n" + b"1,0,a\n" * 20_000 + b"1,0,\xe9\n",
            "column 'd' of .*t.csv holds text that is no UTF-8",
        ),
        (b"x;y;d\n1,5;0;a\n", "t.csv separates its columns by ';': write it with commas"),
        (b"x,y,d\n1,0,a\n1,0\n", "t.csv cannot be read: CSV parse error: Row #3: Expected 3 columns, got 2"),
        (b"x,x,d\n1,0,a\n", "t.csv cannot be read: .*column"),
        (
            b"x,y,d\n" + b"1,0,abcdef\n" * 100_000 + b"1.5,0,a\n",
            "t.csv cannot be read: .* invalid value '1.5'; a CSV column has the type of its first rows",
        ),
    ],
)
def test_csv_that_is_written_in_another_way_is_refused_by_name(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        FairCoreset(4).fit(tmp_path / "t.csv", y="y", sensitive="d")


def test_csv_with_a_mark_and_texts_of_several_lines(tmp_path: Path) -> None:
    frame = pd.concat([table()] * 60, ignore_index=True)
    frame["job"] = 'one,\n"two"\n' + frame["job"]
    frame.to_csv(tmp_path / "t.csv", index=False, encoding="utf-8-sig")
    rows, y, _ = collected(open_source(tmp_path / "t.csv", "y", "d"))
    assert rows["job"].tolist() == frame["job"].tolist()
    assert (rows["age"].tolist(), y) == (frame["age"].tolist(), frame["y"].tolist())


def test_a_large_row_group_is_read_in_equal_blocks_and_named(tmp_path: Path) -> None:
    wide = pa.table({f"x{k}": np.arange(40_000, dtype=np.float32) for k in range(300)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    source = open_source(tmp_path / "wide.parquet", threads=2)
    assert source is not None
    told: list[tuple[int, int]] = []
    blocks = source.reduce(
        lambda b: [(b.index, b.start, len(b.rows), b.where, float(b.rows["x7"].iloc[0]))],
        lambda one, two: one + two,
        lambda *done: told.append(done),
    )
    blocks.sort()
    assert [start for _, start, *_ in blocks] == [first for *_, first in blocks]
    assert max(n for _, _, n, *_ in blocks) - min(n for _, _, n, *_ in blocks) <= 1
    assert told == [(k + 1, len(blocks)) for k in range(len(blocks))]
    assert len(blocks) > 2
    assert {where for *_, where, _ in blocks} == {f"{tmp_path / 'wide.parquet'}, row group 0"}


def test_a_row_group_of_any_size_is_not_held_whole(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2**62, 3_000_000)
    pq.write_table(pa.table({"x": rows, "z": rows}), tmp_path / "one.parquet", row_group_size=len(rows))
    source = open_source(tmp_path / "one.parquet", threads=1)
    assert source is not None
    before = pa.total_allocated_bytes()
    held = source.reduce(lambda block: pa.total_allocated_bytes() - before, max)
    assert held < rows.nbytes  # of both columns: half


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_maps_and_parts_of_them(tmp_path: Path, order: Any) -> None:
    rows = np.asarray(np.random.default_rng(0).normal(size=(N, 3)), dtype=np.float32, order=order)
    levels = np.repeat(["a", "b"], N // 2)
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "d.npy", levels)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed[5] = 7
    for X, low, high in (
        (tmp_path / "x.npy", 0, N),
        (mapped, 0, N),
        (mapped[100:][50:400], 150, 500),
        (mapped[::2], None, None),
        (changed, None, None),
    ):
        expected = rows[low:high] if high else np.array(X)
        d = tmp_path / "d.npy" if len(expected) == N else levels[: len(expected)]
        source = open_source(X, pd.Series(range(len(expected))), d)
        assert source is not None
        found = source.reduce(
            lambda b: (np.asarray(b.rows), list(b.y), list(b.sensitive)),
            lambda one, two: pytest.fail("one block"),
        )
        assert np.array_equal(found[0], expected)
        assert found[1] == list(range(len(expected)))
        assert found[2] == levels[: len(expected)].tolist()
        assert source.stamp


def test_ordinary_tables_are_none() -> None:
    frame = table()
    for X in (
        frame,
        frame.to_numpy(object),
        [[1.0, 2.0], [3.0, 4.0]],
        [(1, 2), (3, 4)],
        pa.table(frame),
        None,
    ):
        assert open_source(X, "y", "d") is None


def damaged(folder: Path) -> Path:
    path = folder / "rows-2.parquet"
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\xff" * 1996  # pages of the first row group
    path.write_bytes(data)
    return folder


def test_what_is_wrong_with_files_is_named_before_or_in_the_work(folder: Path) -> None:
    pattern, frame = str(folder / "rows-*.parquet"), table()

    def read(X: Any, y: Any, d: Any) -> None:
        source = open_source(X, y, d)
        assert source is not None
        source.reduce(lambda block: 0, lambda one, two: 0)

    def refused(X: Any, words: str, y: Any = "y", d: Any = "d") -> None:
        with pytest.raises(InputError, match=re.escape(words)):
            read(X, y, d)

    refused(str(folder / "no-*.parquet"), "no-*.parquet: there is no such file")
    refused([folder / "rows-0.parquet", folder / "gone.parquet"], "gone.parquet: there is no such file")
    refused(str(folder / "a\0b"), "no path")
    (folder / "rows.txt").write_text("a,b")
    refused(folder / "rows.txt", "rows.txt: files of one format are read")
    (folder / "empty").mkdir()
    refused(folder / "empty", "has no file that can be read")
    refused(pattern, "y names the column 'income', which", "income")
    refused(pattern, "sensitive is no name", d=np.zeros(N))
    refused(pattern, "'sex'", d=["d", "sex"])
    refused((row for row in ()), "X is a generator, which can be read once only")
    refused(iter([frame]), "once only")
    refused(Blocks(frame, as_tuples=True), "block 0 is a tuple, which has y and sensitive with it")
    refused([frame, frame.drop(columns="d")], "'d', which block 1 does not have")
    refused(ds.dataset(folder / "rows-0.parquet").filter(ds.field("age") > 50), "the dataset is filtered")

    source = open_source(pattern, "y", "d")
    assert source is not None
    stamp = source.stamp
    (folder / "rows-1.parquet").rename(folder / "moved")
    with pytest.raises(InputError, match=r"rows-1\.parquet, row group 0 cannot be read"):
        source.reduce(lambda block: 0, lambda one, two: 0)
    frame.iloc[450:460].to_parquet(folder / "rows-1.parquet")
    again = open_source(pattern, "y", "d")
    assert again is not None
    assert again.stamp != stamp

    (folder / "rows-1.parquet").write_bytes(b"PAR1 no table PAR1")
    refused(pattern, "rows-1.parquet")
    frame.iloc[450:460].drop(columns="pay").to_parquet(folder / "rows-1.parquet")
    refused(pattern, f"{folder}/rows-1.parquet lacks the column 'pay', which {folder}/rows-0.parquet has")
    frame.iloc[450:460].astype({"age": str}).to_parquet(folder / "rows-1.parquet")
    refused(pattern, f"'age' is int64 in {folder}/rows-0.parquet and large_string in {folder}/rows-1.parquet")
    frame.iloc[450:460].to_parquet(folder / "rows-1.parquet")
    damaged(folder)
    refused(pattern, "rows-2.parquet, row groups 0 to 4 cannot be read")


def test_blocks_that_differ_at_the_next_reading_are_refused() -> None:
    class Shrinking:
        readings = 0

        def __iter__(self) -> Iterator[Any]:
            self.readings += 1
            frame = table()
            yield from [frame] if self.readings > 1 else [frame, frame]

    source = open_source(Shrinking(), "y", "d")
    assert source is not None
    assert source.reduce(lambda b: len(b.rows), lambda one, two: one + two) == 2 * N
    with pytest.raises(InputError, match="the same blocks each time"):
        source.reduce(lambda b: len(b.rows), lambda one, two: one + two)


def test_an_error_of_the_work_ends_it_at_once(folder: Path) -> None:
    def fail(block: Block) -> int:
        raise InputError(f"refused: {block.where}")

    source = open_source(str(folder / "*.parquet"), "y", "d", threads=4)
    assert source is not None
    with pytest.raises(InputError, match=r"refused: .*parquet, row group"):
        source.reduce(fail, lambda one, two: one + two)


def test_folders_of_a_pattern_missing_text_addresses_and_damaged_pages(tmp_path: Path) -> None:
    frame = table()
    for k, part in enumerate((frame[:450], frame[450:])):
        (tmp_path / f"part-{k}.parquet").mkdir()
        (tmp_path / f"part-{k}.parquet" / "_SUCCESS").touch()
        part.to_parquet(tmp_path / f"part-{k}.parquet" / "rows.parquet")
    found = collected(open_source(str(tmp_path / "part-*.parquet"), "y", "d"))[0]
    assert found["age"].tolist() == frame["age"].tolist()

    def refused(X: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            FairCoreset(4).fit(X, "y", "d")

    for text in ("NA", ""):
        frame.assign(job=frame["job"].replace("cook", text)).to_csv(tmp_path / "t.csv", index=False)
        refused(tmp_path / "t.csv", r"'job' is missing in row \d+ of .*t\.csv")
    refused("s3://bucket/rows.parquet", "is no path: pass a pyarrow Dataset")
    refused([np.ones((3, 2)), np.ones((3, 2))], r"list of tables without labels: give tuples")
    without = frame.assign(d=frame["d"].where(frame["age"] < 80))
    without.to_parquet(tmp_path / "hive", partition_cols=["d"])
    refused(tmp_path / "hive", "sensitive is missing in row 0 of .*HIVE_DEFAULT")
    damaged = tmp_path / "damaged.parquet"
    kept = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(kept, damaged, write_page_checksum=True, compression=None, use_dictionary=False)
    content = bytearray(damaged.read_bytes())
    content[3000:3004] = b"abcd"
    damaged.write_bytes(bytes(content))
    refused(damaged, r"damaged\.parquet, row group 0 cannot be read: .*CRC")
