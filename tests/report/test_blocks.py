"""Files of predictions in blocks: whatever the format and however many blocks, the texts of a CSV file."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.report.blocks import ROWS, open_file

MANY = ROWS + 5000  # two blocks, the second with values that the first lacks


def test_csv_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    group = np.where(np.arange(MANY) < ROWS, "a", 'b, "c"')
    pd.DataFrame({"group": group, "row": np.arange(MANY), "empty": ""}).to_csv(path, index=False)
    file = open_file(path)
    assert (list(file.columns), file.kind) == (["group", "row", "empty"], "line")
    row, groups, empty = file.read(["row", "group", "empty"])
    assert row.tolist() == [str(place) for place in range(MANY)]
    assert groups.tolist() == group.tolist()
    assert empty.tolist() == [""] * MANY


def test_parquet_in_blocks_has_the_texts_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "many.parquet"
    late = np.arange(MANY) >= ROWS
    frame = pd.DataFrame(
        {
            "whole": pd.array(np.where(late, 2**60 + 1, 7), dtype="Int64"),
            "number": np.where(late, 0.25, 1.0),
            "flag": np.where(late, True, False),
            "day": np.where(late, date(2026, 1, 2), date(2025, 1, 2)),
            "level": pd.Categorical(np.where(late, "x", "y"), categories=["never", "y", "x"]),
            "many": [["u"] if one else ["v", "w"] for one in late],
        },
        index=pd.Index(np.arange(MANY) * 2, name="key"),
    )
    frame.loc[frame.index[-1], ["whole", "number", "day", "level"]] = None
    frame.to_parquet(path, row_group_size=MANY // 3)
    file = open_file(path)
    assert (list(file.columns), file.kind) == (list(frame.columns), "row")  # the index is no column
    names = ["many", "flag", "whole", "number", "day", "level", "flag"]
    read = dict(zip(names, file.read(names), strict=True))
    first, last = 0, MANY - 2
    said = {name: (names[first], names[last], names[MANY - 1]) for name, names in read.items()}
    assert said == {
        "whole": ("7", str(2**60 + 1), ""),
        "number": ("1", "0.25", ""),
        "flag": ("false", "true", "true"),
        "day": ("2025-01-02", "2026-01-02", ""),
        "level": ("y", "x", ""),
        "many": (
            str(np.array(["v", "w"], object)),
            str(np.array(["u"], object)),
            str(np.array(["u"], object)),
        ),
    }
    assert {len(names) for names in read.values()} == {MANY}


def test_what_pandas_calls_texts_are_texts_however_they_are_stored(tmp_path: Path) -> None:
    """What other programs made of the columns of a table of pandas, whose notes on it stayed."""
    texts = pa.Table.from_pandas(pd.DataFrame({"group": ["F", "M"]}))
    day = datetime(2026, 1, 2, tzinfo=UTC)
    stored: tuple[tuple[Any, list[str]], ...] = (
        (pa.array([b"F", b"M"]), ["F", "M"]),
        (pa.array([day, None], pa.timestamp("ns", tz="UTC")), ["2026-01-02 00:00:00.000000000Z", ""]),
    )
    for column, wanted in stored:
        pq.write_table(texts.set_column(0, "group", column), tmp_path / "a.parquet")
        assert open_file(tmp_path / "a.parquet").read(["group"])[0].tolist() == wanted
    for nested in (pa.array([["F"], ["M"]]), pa.array([{"v": "F"}, {"v": "M"}])):
        pq.write_table(texts.set_column(0, "group", nested), tmp_path / "a.parquet")
        with pytest.raises(FwcError, match=r"a\.parquet is no Parquet table: Unsupported cast"):
            open_file(tmp_path / "a.parquet").read(["group"])


@pytest.mark.parametrize("damage", [b"PAR1", b"PAR1" + b"\0" * 40 + b"PAR1", b""])
def test_what_is_no_parquet_table_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(damage)
    with pytest.raises(FwcError, match=r"bad\.parquet is no Parquet table"):
        open_file(path)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name in ("none.parquet", "none.csv", "none.xlsx"):
        with pytest.raises(FwcError, match=rf"cannot read .*{name}: No such file or directory$"):
            open_file(tmp_path / name)


def test_a_parquet_file_that_is_damaged_within_is_named(tmp_path: Path) -> None:
    path = tmp_path / "torn.parquet"
    pd.DataFrame({"a": np.arange(50_000)}).to_parquet(path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(content)
    with pytest.raises(FwcError, match=r"torn\.parquet is no Parquet table"):
        open_file(path).read(["a"])


def test_a_late_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("a,b\n" + "1,2\n" * MANY + "1,2,3\n")
    with pytest.raises(FwcError, match=rf"is not a CSV file: .*line {MANY + 2}, saw 3"):
        open_file(path).read(["a"])
