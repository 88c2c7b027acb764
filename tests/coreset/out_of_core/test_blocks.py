"""Where the rows may lie: all places give the same rows, and what is wrong there is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.out_of_core import block_tables
from fwc_llm.coreset.out_of_core.block_tables import Block, BlockTable, open_table
from fwc_llm.coreset.problem.frames import Columns
from tests.coreset.people import people
from tests.refusals import refused

N = 3000


def frame() -> pd.DataFrame:
    X, y, d = people(N)
    return X.astype({"pay": np.float32}).assign(d=d, y=(y == "yes").astype(int))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(block_tables, "BLOCK_ROWS", 1024)
    monkeypatch.setattr(
        "fwc_llm.coreset.problem.ground_cost.L1.sampled", 100
    )  # small samples
    rows = frame()
    for k, (low, high) in enumerate(((0, 450), (450, 460), (460, N))):
        rows.iloc[low:high].to_parquet(
            tmp_path / f"rows-{k}.parquet", row_group_size=130
        )
    return tmp_path


def collected(table: BlockTable | None) -> list[Block]:
    assert table is not None
    return table.read(lambda block: block, list, lambda share: None)


def joined(found: list[Block]) -> pd.DataFrame:
    """All rows in order with labels and levels, categories as text."""
    assert [block.first for block in found] == np.cumsum(
        [0, *(b.n for b in found[:-1])]
    ).tolist()
    rows = [
        X.assign(d=np.asarray(d), y=np.asarray(y))
        for X, y, d, _ in (b.columns for b in found)
    ]
    return pd.concat(
        [part.astype({"town": str, "grade": str}) for part in rows], ignore_index=True
    )


def test_all_places_give_the_same_rows_in_the_same_order(folder: Path) -> None:
    paths = sorted(folder.glob("rows-*.parquet"))
    frame()[:0].to_parquet(
        folder / "empty.parquet"
    )  # a file without rows among the others
    spark = folder / "part-0.parquet"
    spark.mkdir()
    frame().to_parquet(spark / "rows.parquet")
    (spark / "_SUCCESS").touch()
    wanted = frame().astype({"town": str, "grade": str})
    for X in (
        str(folder / "rows-*.parquet"),
        [folder / "empty.parquet", *paths],
        spark,
        str(folder / "part-*.parquet"),
        ds.dataset([str(path) for path in paths]),
    ):
        table = open_table(Columns(X, "y", "d"), 3)
        found = collected(table)
        assert {block.n for block in found[:-1]} == {1024}
        pd.testing.assert_frame_equal(joined(found), wanted, check_dtype=False)
        assert table is not None
        assert table.n == N
        assert len(table.whole()[0]) == N
    filtered = open_table(
        Columns(ds.dataset(paths[0]).filter(ds.field("age") > 50), "y", "d"), 1
    )
    assert (
        sum(block.n for block in collected(filtered)) == (frame()[:450].age > 50).sum()
    )


def test_folders_of_partitions_are_columns(tmp_path: Path) -> None:
    rows = frame()
    rows.to_parquet(tmp_path / "parts", partition_cols=["d", "y"])
    found = joined(collected(open_table(Columns(tmp_path / "parts", "y", "d"))))
    assert sorted(found.columns) == sorted(rows.columns)
    for name in ("age", "d", "y"):
        assert sorted(found[name].astype(str)) == sorted(rows[name].astype(str))


def test_files_of_several_writers_are_one_table(tmp_path: Path) -> None:
    rows = frame()
    parts = [
        rows[:0].assign(pay=None),
        rows[:200],
        rows[200:400].astype({"age": float}),
        rows[400:600]
        .astype({"age": "Int16"})
        .set_index("y", drop=False)
        .rename_axis("place"),
        rows[600:][rows.columns[::-1]],
    ]
    for k, part in enumerate(parts):
        part.to_parquet(tmp_path / f"{k}.parquet")
    found = joined(collected(open_table(Columns(tmp_path, "y", "d"))))
    wanted = rows.astype({"town": str, "grade": str})
    pd.testing.assert_frame_equal(found[rows.columns], wanted, check_dtype=False)


def test_ordinary_tables_are_none(tmp_path: Path) -> None:
    rows = frame()
    np.save(tmp_path / "x.npy", np.ones((9, 2)))
    for X in (
        rows,
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        rows.to_numpy(object),
        [[1.0, 2.0], [3.0, 4.0]],
        [(1, 2)],
        pa.table(rows),
        None,
    ):
        assert open_table(Columns(X, "y", "d")) is None


def test_what_is_wrong_with_files_is_named(folder: Path) -> None:
    pattern = str(folder / "rows-*.parquet")
    rows = frame()

    def named(X: Any, words: str, y: Any = "y", d: Any = "d") -> None:
        with refused(words):
            collected(open_table(Columns(X, y, d)))

    named(str(folder / "no-*.parquet"), "there is no such file")
    named([folder / "rows-0.parquet", folder / "gone.parquet"], "gone.parquet")
    named("s3://bucket/rows.parquet", "Dataset")
    (folder / "rows.csv").write_text("a,b")
    named(folder / "rows.csv", "rows.csv.*only Parquet")
    named(pattern, "'income'", "income")
    named(pattern, "sensitive", d=np.zeros(N))
    named(pattern, "'sex'", d=["d", "sex"])
    rows.iloc[450:460].astype({"age": str}).to_parquet(folder / "rows-1.parquet")
    named(pattern, "age")
    (folder / "rows-1.parquet").write_bytes(b"PAR1 no table PAR1")
    named(pattern, "rows-1.parquet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"pay": lambda f: f.pay.where(f.index != 2050)},
            "'pay' .*has no value in row 2050",
        ),
        (
            {"pay": lambda f: f.pay.where(f.index != 2051, np.inf)},
            "'pay' .*infinite .*in row 2051",
        ),
        (
            {"town": lambda f: f.town.where(f.index != 2052)},
            "'town' .*has no value in row 2052",
        ),
        (
            {"d": lambda f: f.d.where(f.index != 2053)},
            "sensitive has no value in row 5: .*whose row 0 is row 2048",
        ),
        ({"d": "f"}, "one level"),
        ({"y": lambda f: np.where(f.d == "f", 1, f.y)}, "has no rows"),
        ({"t": pd.Timestamp("2026-01-01")}, "'t' holds date"),
        ({"w": lambda f: np.where(f.index == 2054, -1.0, 1.0)}, "of row .* is -1"),
        ({"w": 0.0}, "zero for every row"),
    ],
)
def test_values_that_cannot_be_used_are_named(
    folder: Path, change: Any, words: str
) -> None:
    rows = frame().assign(**change)
    rows.to_parquet(folder / "t.parquet", row_group_size=700)
    weight = "w" if "w" in change else None
    with refused(words):
        FairCoreset(4, sample=300).fit(
            folder / "t.parquet", y="y", sensitive="d", sample_weight=weight
        )
