"""`fwc-llm tasks` and `fwc-llm task init`, run as the command line runs them."""

import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from fwc_llm.cli.tasks import task_app
from fwc_llm.cli.tasks import tasks as tasks_command
from fwc_llm.errors import FwcError
from fwc_llm.tasks import load_task

app = typer.Typer(pretty_exceptions_enable=False)
app.command("tasks")(tasks_command)
app.add_typer(task_app, name="task")


def run(*arguments: str | Path) -> str:
    """What the command prints; its `FwcError` is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if isinstance(result.exception, FwcError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def init(table: Path, *options: str | Path, protected: str = "sex", outcome: str = "income") -> str:
    return run("task", "init", table, "--protected", protected, "--outcome", outcome, *options)


def people(folder: Path, name: str = "people.csv", n: int = 60, **columns: list[object]) -> Path:
    frame = pd.DataFrame(
        {
            "person": [f"p{k}" for k in range(n)],
            "age": [20 + k % 37 for k in range(n)],
            "city": [("Rome", "São Paulo", "Oslo")[k % 3] for k in range(n)],
            "sex": ["fm"[k % 2] for k in range(n)],
            "income": [("no", "yes")[k % 5 == 0] for k in range(n)],
        }
        | columns
    )
    path = folder / name
    frame.to_csv(path, index=False, sep=";" if name.endswith(".ssv") else ",")
    return path


@pytest.mark.slow
def test_tasks_lists_what_there_is(data_dir: Path) -> None:
    output = run("tasks", "--data-dir", data_dir)
    for name, rows in (("adult", "45,222"), ("german", "1,000"), ("communities", "1,993"), ("drug", "1,885")):
        (line,) = [line for line in output.splitlines() if line.startswith(f"{name} ")]
        assert rows in line
        assert f"{name}: in {data_dir / name}; CC BY 4.0; " in output
    groups = ("On this machine", "Simulated", "To copy beside a table", "acs-income")
    places = [output.index(title) for title in groups]
    assert places == sorted(places)
    assert "sex (Female, Male); or race" in output
    assert "https://doi.org/10.24432/C5XW20" in output


@pytest.mark.slow
def test_tasks_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FWC_LLM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    output = run("tasks")
    here = output.index("Downloaded when first used")
    assert here < output.index("adult ") < output.index("Simulated, needs no data") < output.index("census ")
    assert "On this machine" not in output
    with pytest.raises(FwcError, match="fwc-llm task copy acs-income"):
        load_task("acs-income")
    run("task", "copy", "acs-income", "--out", tmp_path / "acs-income.toml")
    assert load_task(tmp_path / "acs-income.toml").offered == ("sex", "race")


def test_a_draft_can_be_used_at_once(tmp_path: Path) -> None:
    output = init(people(tmp_path))
    assert "It can be read: people.csv: 60 of 60 rows kept" in output
    assert "column person: every value differs" in output
    task = load_task(tmp_path / "people.toml")
    assert [(column.name, column.kind) for column in task.features] == [
        ("age", "numeric"),
        ("city", "categorical"),
    ]
    assert task.groups == ("f", "m")
    assert task.labels(task.pool()).sum() == 12
    text = (tmp_path / "people.toml").read_text(encoding="utf-8")
    assert 'positive = ["yes"] # CHECK' in text


def test_a_draft_elsewhere_finds_its_table(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    table = people(tmp_path, "my people.ssv")
    init(table, "-o", tmp_path / "tasks" / "t.toml")
    assert len(load_task(tmp_path / "tasks" / "t.toml").pool()) == 60


def test_a_parquet_table_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(FwcError, match="needs pyarrow: pip install"):
        init(tmp_path / "people.parquet")


def test_a_parquet_table_with_a_nested_column(tmp_path: Path) -> None:
    frame = pd.read_csv(people(tmp_path))
    frame["visits"] = [[k, k + 1] for k in range(len(frame))]
    frame.to_parquet(tmp_path / "people.parquet")
    assert "It can be read" in init(tmp_path / "people.parquet")


def test_few_missing_values_drop_their_rows_and_many_make_a_category(tmp_path: Path) -> None:
    few: list[object] = ["NA", *(k / 2 for k in range(59))]
    table = people(tmp_path, score=few)
    assert "rows with a missing value are dropped (score 1)" in init(table)
    task = load_task(table.with_suffix(".toml"))
    assert task.column("score").kind == "numeric"
    assert len(task.pool()) == 59
    some: list[object] = [["", k / 2][k % 5 > 0] for k in range(60)]
    words: list[object] = [["", "a", "b"][k % 3] for k in range(60)]
    most: list[object] = [[k / 2, "", "NA"][k % 3] for k in range(60)]
    output = init(people(tmp_path, some=some, words=words, most=most), "--force")
    assert "67 % of its values are missing; it is left out" in output
    assert "20 % are missing; bands" in output
    pool = load_task(table.with_suffix(".toml")).pool()
    assert len(pool) == 60  # nothing is lost
    bands = set(pool["some"])
    assert len(bands) == 5
    assert "unknown" in bands
    assert set(pool["words"]) == {"a", "b", "unknown"}
    assert "most" not in pool


@pytest.mark.parametrize(
    ("columns", "said", "problem"),
    [
        ({"income": ["high", "low"] * 30}, "say which values mean yes", "no positive ones are named"),
        ({"income": [k * 10 for k in range(60)]}, "above which threshold", "no positive ones are named"),
        ({"sex": list(range(60))}, "split it with a threshold", "has 60 levels"),
    ],
)
def test_what_cannot_be_guessed(
    tmp_path: Path, columns: dict[str, list[object]], said: str, problem: str
) -> None:
    output = " ".join(init(people(tmp_path, **columns)).split())
    assert said in output
    assert "It cannot be used yet" in output
    assert problem in output


def test_names_and_values_are_data(tmp_path: Path) -> None:
    table = people(tmp_path, **{'a "quoted"\tname\\': ["x"] * 30 + ['[bold]"\\'] * 30})
    init(table)
    assert 'a "quoted"\tname\\' in load_task(table.with_suffix(".toml")).pool().columns


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    table = people(tmp_path)
    init(table)
    (tmp_path / "people.toml").write_text("mine")
    with pytest.raises(FwcError, match="exists already"):
        init(table)
    assert (tmp_path / "people.toml").read_text() == "mine"
    init(table, "--force")
    assert (tmp_path / "people.toml").read_text() != "mine"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("people.csv", {"protected": "gender"}, "no column 'gender'"),
        ("people.csv", {"protected": "sex,sex"}, "'sex' is named more"), ("no.csv", {}, "cannot read"),
        ("prose.csv", {}, "is no table"), ("bad.parquet", {}, "is no Parquet table"),
    ],
)  # fmt: skip
def test_bad_input_to_init(tmp_path: Path, name: str, options: dict[str, str], words: str) -> None:
    table = people(tmp_path)
    (tmp_path / "prose.csv").write_text("Call me Ishmael.\nSome years ago, never mind how long precisely.\n")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(FwcError, match=words):
        init(tmp_path / name, **options)
    for out, why in (("task.txt", r"must end in \.toml"), ("no/task.toml", "cannot write")):
        with pytest.raises(FwcError, match=why):
            init(table, "-o", tmp_path / out)
    assert not list(tmp_path.glob("*.toml"))
