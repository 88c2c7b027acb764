"""A Parquet table of more rows than are held: the same numbers and test rows as the one in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from fwc_llm.data import load
from fwc_llm.errors import FwcError
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import draw_split, hold_out, population, row_values
from fwc_llm.tasks import Task, load_task, recorded_task

TOML = """
question = "Is the loan paid back?"
missing = "drop"
columns = [
  { name = "age", kind = "numeric" }, { name = "debt", kind = "numeric" },
  { name = "school", kind = "ordinal", order = ["low", "middle", "high"] },
  { name = "id" }, { name = "sex" }, { name = "nation" }, { name = "paid" },
]
[data]
file = "rows-*.parquet"
[outcome]
column = "paid"
[[protected]]
column = "sex"
[[protected]]
column = "nation"
[[keep]]
column = "age"
above = 17
"""
ROWS, HELD, BLOCK = 1500, 300, 64


def frame() -> pd.DataFrame:
    """Few ages and jobs ("id"), so that rows come again; one cell is rare."""
    rng = np.random.default_rng(0)
    found = pd.DataFrame(
        {
            "age": rng.integers(16, 22, ROWS),
            "debt": rng.choice([0.0, -0.0, *range(1, 20)], ROWS),
            "school": rng.choice(["low", "high"], ROWS),
            "id": rng.choice(["cook", "clerk"], ROWS),
            "sex": rng.choice(["f", "m"], ROWS),
            "nation": rng.choice(["here", "away"], ROWS, p=[0.88, 0.12]),
            "paid": rng.choice(["yes", "no"], ROWS),
        }
    )
    found.loc[[7, 900], "debt"] = np.nan
    found.loc[1000:, "id"] = "nurse"  # blocks that lack values which others have
    return found


def write(folder: Path, text: str = TOML) -> Path:
    for k in range(3):
        part = frame().iloc[k * 500 : k * 500 + 500]
        part.to_parquet(folder / f"rows-{k}.parquet", row_group_size=170)
    (folder / "task.toml").write_text(text, encoding="utf-8")
    return folder / "task.toml"


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Task, Task]:
    """The task in memory, and on disk."""
    inner = load_task(write(tmp_path))
    inner.pool()
    monkeypatch.setattr(load, "LARGE", HELD)
    monkeypatch.setattr(load, "BLOCK", BLOCK)
    outer = load_task(tmp_path / "task.toml")
    assert inner.disk_table is None
    assert outer.disk_table is not None
    return inner, outer


def test_a_table_on_disk_is_the_one_in_memory(tmp_path: Path, both: tuple[Task, Task]) -> None:
    inner, outer = both
    assert outer.fingerprint == inner.fingerprint
    assert outer.groups == inner.groups
    np.testing.assert_array_equal(outer.cells_of(outer.table), inner.cells_of(inner.table))
    assert population(outer) == population(inner)
    assert outer.rows.as_json() == inner.rows.as_json()
    assert outer.domains == inner.domains

    sample = outer.pool()
    assert HELD - 8 <= len(sample) <= HELD + 8 * 64
    assert len(sample) < len(inner.pool())
    assert_frame_equal(sample, inner.pool().loc[sample.index])
    assert sample.index.is_unique
    counts = inner.cells_of(inner.table).ravel()
    held = outer.sensitive(sample) + np.where(outer.labels(sample) == 1, "+", "-")
    for cell, count in zip([f"{g}{a}" for g in outer.groups for a in "-+"], counts, strict=True):
        assert (held == cell).sum() == min(count, max(64, HELD * count // counts.sum()))
    assert_frame_equal(load_task(tmp_path / "task.toml").pool(), sample)  # always the same rows

    lacking = [row for row in inner.pool().index if row not in sample.index][:3]
    more = outer.including([*lacking, sample.index[0], "rows-0.parquet:99999"])
    assert_frame_equal(more, inner.pool().loc[[*sample.index, *lacking]])


@pytest.mark.parametrize("base_parity", [None, 0.5])
def test_the_test_rows_are_equal(both: tuple[Task, Task], base_parity: float | None) -> None:
    inner, outer = both
    examples = inner.pool().iloc[[3, 40, 700, 900]].to_dict("records")
    odd = ((10**400, "cook"), ("x", 3), (True, "\ud800"))
    strange = [{**examples[0], "age": age, "id": job} for age, job in odd]
    more_rows: dict[str, Any] = {"not_equal_to": [*examples, *strange]}
    for seed, more in ((0, {}), (3, more_rows), (2, {"not_equal_to": examples})):
        one = draw_split(inner, 48, base_parity, seed, **more)
        two = draw_split(outer, 48, base_parity, seed, **more)
        assert_frame_equal(two.test, one.test)
        kept = two.pool.index
        assert set(kept) == set(outer.pool().index) - set(one.test.index)
        assert two.candidates.tolist() == pd.Series(one.candidates, one.pool.index)[kept].tolist()
        assert 0 < two.candidates.sum() < len(kept)  # some rows come again
        tested = set(row_values(inner, one.test))
        again = [key in tested for key in row_values(outer, two.pool)]
        assert two.candidates.tolist() == [not equal for equal in again]
    held, left = hold_out(outer, two, 48, base_parity, 0)
    assert not set(row_values(outer, held)) & (tested | set(row_values(outer, left.pool[left.candidates])))


def test_defaults_move_by_the_whole_table(both: tuple[Task, Task]) -> None:
    for task in both:
        words = r"the cell sex & nation = . & away, paid = (yes|no) has \d\d rows to"
        with pytest.raises(FwcError, match=words):
            draw_split(task, 1200, 0.5)
        with pytest.raises(FwcError, match="5,000 rows are asked for, but only 1,"):
            draw_split(task, 5000, None)
    one, two = (fit_defaults(task, Settings(n_test=48)) for task in both)
    assert one == two


def test_rows_that_are_left_may_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, TOML.replace("above = 17", "above = 20"))
    inner = load_task(path)
    inner.pool()
    monkeypatch.setattr(load, "LARGE", 1000)
    outer = load_task(path)
    assert outer.disk_table is None
    assert outer.pool() is outer.test()
    assert_frame_equal(outer.pool(), inner.pool())


def test_a_column_of_ids_keeps_the_table_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, TOML.replace('{ name = "id" }', '{ name = "id", role = "id" }'))
    monkeypatch.setattr(load, "LARGE", HELD)
    with pytest.raises(FwcError, match="is already used at"):
        load_task(path).pool()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda rows: rows.drop(columns="id"), r"rows-1\.parquet: there is no column 'id'; did you mean"),
        (lambda rows: rows.assign(sex="x", nation="y", paid="maybe"),
         r"outcome 'paid' has 3 values.*no positive ones"),
        (lambda rows: rows.assign(debt="lots"), r"rows-1\.parquet:1: 'lots' in the numeric column 'debt'"),
    ],
)  # fmt: skip
def test_misfits_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any, words: str
) -> None:
    path = write(tmp_path)
    damage(frame().iloc[:500]).to_parquet(tmp_path / "rows-1.parquet")
    monkeypatch.setattr(load, "LARGE", HELD)
    with pytest.raises(FwcError, match=words):
        load_task(path).pool()


def test_what_is_no_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    monkeypatch.setattr(load, "LARGE", HELD)
    (tmp_path / "rows-2.parquet").write_bytes(b"PAR1 no such thing PAR1")
    with pytest.raises(FwcError, match=r"rows-2\.parquet is not a Parquet table"):
        load_task(path).pool()
    twice = tmp_path / "b"
    twice.mkdir()
    (twice / "rows-0.parquet").write_bytes((tmp_path / "rows-0.parquet").read_bytes())
    (tmp_path / "rows-2.parquet").unlink()
    labels = {row.partition(":")[0] for row in load_task(path, data=tmp_path).pool().index}
    assert labels == {"rows-0.parquet", "rows-1.parquet", "b/rows-0.parquet"}


def test_data_takes_the_place_of_the_tables_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    for k in range(3):
        (tmp_path / f"rows-{k}.parquet").rename(moved / f"rows-{k}.parquet")
    (moved / "_temporary").mkdir()
    (moved / "_temporary" / "rows-0.parquet").write_bytes(b"")
    by_folder, by_pattern = (load_task(path, data=data) for data in (moved, moved / "rows-*.parquet"))
    assert by_folder.fingerprint == by_pattern.fingerprint
    assert load_task(path, data=moved / "rows-1.parquet").pool().index[0].startswith("rows-1.parquet:")
    for data, words in (
        (moved / "no-*.parquet", r"no-\*\.parquet: there is no such file"),
        (moved / "rows.csv", "is not a Parquet file"),
    ):
        with pytest.raises(FwcError, match=words):
            load_task(path, data=data).pool()
    recorded = recorded_task(path.read_text(encoding="utf-8"), "task", None, None, str(moved))
    assert recorded.fingerprint == by_folder.fingerprint
    for hostile in ("\0", "~" * 5000, "[", "*" * 300, str(tmp_path / "task.toml")):
        with pytest.raises(FwcError):
            recorded_task(path.read_text(encoding="utf-8"), "task", None, None, hostile).pool()
    with pytest.raises(FwcError, match="takes no data files"):
        load_task("census", data=moved)
    with pytest.raises(FwcError, match="leave out data"):
        load_task(frame(), protected="sex", outcome="paid", data=moved)
