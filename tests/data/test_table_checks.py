"""Columns that tell the outcome or a protected attribute, and repeated rows; noise raises no
alarm.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fwc_llm.data.table_checks import TableChecks, check_table, repeated_rows
from fwc_llm.data.task_inference import draft_task
from fwc_llm.taskfile import Column
from fwc_llm.tasks import load_task
from tests.command import Run


def checked(frame: pd.DataFrame) -> TableChecks:
    """The checks of a table with the outcome "y" and the protected attribute "g"."""
    return check_table(frame, [Column(str(name), "") for name in frame], "y", ["g"])


def people(n: int = 1500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 80, n), "job": rng.choice(list("abcdefgh"), n)}
    )
    frame["income"] = rng.lognormal(10, 1, n).round()
    frame["y"] = np.where(
        frame["income"] * rng.lognormal(0, 0.7, n) > 25_000, "yes", "no"
    )
    frame["g"] = rng.choice(["black", "white", "asian"], n, p=(0.3, 0.6, 0.1))
    return frame


def leak(frame: pd.DataFrame, kind: str) -> "pd.Series":
    """A column that tells the outcome, or the protected attribute, in one way."""
    rng = np.random.default_rng(1)
    yes = frame["y"] == "yes"
    if kind == "reverse":
        return 1 - yes.astype(int)
    if kind == "codes":
        return pd.Series(np.where(yes, rng.choice([1, 2], len(frame)), 3))
    if kind == "reason":
        reasons = pd.Series(rng.choice(["debt", "history", "fraud"], len(frame)))
        return reasons.where(~yes & (rng.random(len(frame)) < 0.8), "unknown")
    if kind == "score":
        return yes * 3.0 + rng.normal(size=len(frame)) * 0.7
    if kind == "nearly":
        return (yes ^ (rng.random(len(frame)) < 0.02)).astype(str)
    return frame["g"].str.upper()


@pytest.mark.parametrize(
    "kind", ["reverse", "codes", "reason", "score", "nearly", "group"]
)
def test_a_column_that_tells_outcome_or_group_is_named(kind: str) -> None:
    frame = people()
    assert not checked(frame).sentences
    found = checked(frame.assign(extra=leak(frame, kind))).columns
    assert list(found) == ["extra"]
    assert (
        "the protected attribute g" if kind == "group" else "the outcome y"
    ) in found["extra"]


@pytest.mark.parametrize(("n", "share"), [(80, 0.3), (300, 0.03), (3000, 0.3)])
def test_noise_tells_nothing(n: int, share: float) -> None:
    """Rare values are pure by chance: only rows that did not show it count."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {f"c{k}": rng.zipf(1.4, n).clip(0, n).astype(str) for k in range(60)}
    )
    numbers = pd.DataFrame(rng.normal(size=(n, 60))).rename(columns=str)
    frame = pd.concat([frame, numbers], axis=1)
    frame = frame.assign(
        y=np.where(rng.random(n) < share, "yes", "no"), g=rng.choice(["a", "b", "c"], n)
    )
    assert not checked(frame).sentences


@pytest.mark.parametrize("name", ["adult", "german", "communities", "drug"])
def test_the_built_in_tables_have_no_such_column(data_dir: Path, name: str) -> None:
    """Adult's relationship tells sex in some rows (Husband) and not in most: `revealing_columns` is
    for that.
    """
    checks = load_task(name, data_dir).checks
    assert not checks.columns
    assert not checks.material


def test_rows_that_repeat_are_counted_and_coincidence_is_not() -> None:
    frame = people()
    rng = np.random.default_rng(3)
    twice = pd.concat([frame, frame.sample(60, random_state=1)], ignore_index=True)
    assert "60 of 1,560 rows repeat" in checked(twice).repeated
    assert checked(twice).material
    assert "60 of 1,560" in checked(twice.assign(number=range(len(twice)))).repeated
    assert not checked(
        twice.drop(columns="income")
    ).repeated  # the rest agrees by itself
    few = pd.DataFrame(
        {"y": rng.choice(["yes", "no"], 900), "g": rng.choice(["a", "b"], 900)}
    )
    assert not checked(few).repeated
    lists = [["sql"] if y == "yes" else None for y in twice["y"]]
    assert "60 of 1,560" in repeated_rows([*twice.T.to_numpy(), lists])[0]


@pytest.mark.slow
def test_a_table_of_400_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    numbers = {f"x{k}": rng.normal(size=120).round(3) for k in range(400)}
    people(120).join(pd.DataFrame(numbers)).to_csv(tmp_path / "wide.csv", index=False)
    draft = draft_task(tmp_path / "wide.csv", ["g"], "y", tmp_path)
    (tmp_path / "wide.toml").write_text(draft, encoding="utf-8")
    assert len(load_task(tmp_path / "wide.toml").features) == 403


def test_init_check_eval_and_report_name_what_tells_and_what_repeats(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    frame = people(400)
    frame = pd.concat([frame, frame.head(20)]).assign(
        reject=lambda rows: (rows["y"] == "no").astype(int)
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    task = tmp_path / "t.toml"
    drafted = fwc(f"task init {tmp_path / 't.csv'} --protected g --outcome y", code=0)
    assert "column reject: reveals the outcome y" in drafted.out
    assert "20 of 420 rows repeat" in drafted.out
    assert re.search(
        'name = "reject".* # CHECK: .*reveals the outcome', task.read_text()
    )
    assert "CHECK: column reject" in fwc("task", "check", task, code=0).out
    run = (
        "eval",
        "--task",
        task,
        "--model",
        "baseline",
        "--shots",
        "zero",
        "--n-test",
        100,
    )
    assert "column reject: reveals" in fwc(*run, "-o", out, code=0).err
    fwc("report", out, "-o", tmp_path / "r.md", code=0)
    head, _, rest = (tmp_path / "r.md").read_text().partition("### All metrics")
    assert "Check column reject: reveals the outcome" in head
    assert "20 of 420 rows repeat" in rest
    audited = fwc(f"audit {tmp_path / 't.csv'} --answer y --protected g", code=0)
    assert "20 of 420 rows repeat" in audited.words
