"""`fwc-llm tasks` and `fwc-llm task init`, run as the command line runs them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.tasks import load_task
from tests.command import Run
from tests.data.tables import cycled
from tests.refusals import refused

Init = Callable[..., str]


@pytest.fixture
def init(fwc: Run) -> Init:
    """What a draft prints, on one line for a refusal."""

    def init(
        table: Path, *options: object, protected: str = "sex", code: int = 0
    ) -> str:
        words = ("task", "init", table, "--protected", protected, "--outcome", "income")
        outcome = fwc(*words, *options, code=code)
        return outcome.line if code else outcome.out

    return init


def people(folder: Path, name: str = "people.csv", **columns: Sequence[object]) -> Path:
    usual = {
        "person": [f"p{k}" for k in range(60)],
        "age": range(20, 57),
        "city": ["Rome", "São Paulo", "Oslo"],
        "sex": "fm",
        "income": ["yes", "no", "no", "no", "no"],
    }
    frame = cycled(60, **usual | columns)
    path = folder / name
    frame.to_csv(path, index=False, sep=";" if name.endswith(".ssv") else ",")
    return path


@pytest.mark.slow
def test_tasks_lists_what_there_is(fwc: Run, data_dir: Path) -> None:
    output = fwc("tasks --data-dir", data_dir, code=0).out
    for name, rows in (
        ("adult", "45,222"),
        ("german", "1,000"),
        ("communities", "1,993"),
        ("drug", "1,885"),
    ):
        (line,) = [line for line in output.splitlines() if line.startswith(f"{name}: ")]
        assert rows in line
        assert f"  in {data_dir / name}; CC BY 4.0; " in output
    groups = ("On this machine", "Simulated", "To copy beside a table", "acs-income")
    places = [output.index(title) for title in groups]
    assert places == sorted(places)
    assert "sex (Female, Male); or race" in output
    assert "https://doi.org/10.24432/C5XW20" in output


@pytest.mark.slow
def test_tasks_without_data(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FWC_LLM_DATA", raising=False)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    output = fwc("tasks", code=0).out
    said = (
        "Downloaded when first used",
        "adult: ",
        "Simulated, needs no data",
        "census: ",
    )
    places = [output.index(words) for words in said]
    assert places == sorted(places)
    assert "On this machine" not in output
    with refused("fwc-llm task copy acs-income"):
        load_task("acs-income")
    fwc("task copy acs-income --out", tmp_path / "acs-income.toml", code=0)
    assert load_task(tmp_path / "acs-income.toml").offered == ("sex", "race")


def test_a_draft_can_be_used_at_once(init: Init, tmp_path: Path) -> None:
    output = init(people(tmp_path))
    assert "The file can be used: people.csv: 60 of 60 rows kept" in output
    assert "column person: every value differs" in output
    task = load_task(tmp_path / "people.toml")
    assert {column.name: column.kind for column in task.features} == {
        "age": "numeric",
        "city": "categorical",
    }
    assert task.groups == ("f", "m")
    assert task.labels(task.pool()).sum() == 12
    text = (tmp_path / "people.toml").read_text()
    assert 'positive = ["yes"] # CHECK' in text


def test_a_draft_elsewhere_finds_its_table(init: Init, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    table = people(tmp_path, "my people.ssv")
    init(table, "-o", tmp_path / "tasks" / "t.toml")
    assert len(load_task(tmp_path / "tasks" / "t.toml").pool()) == 60


def test_few_missing_values_drop_their_rows_and_many_make_a_category(
    init: Init, tmp_path: Path
) -> None:
    few = ["NA", *(k / 2 for k in range(59))]
    table = people(tmp_path, score=few)
    assert "2 % are missing: these rows are left out" in init(table)
    task = load_task(table.with_suffix(".toml"))
    assert task.column("score").kind == "numeric"
    assert len(task.pool()) == 59
    some = [k / 2 if k % 5 else "" for k in range(60)]
    most = [k / 2 if k % 3 == 0 else "NA" for k in range(60)]
    gaps = {"some": some, "words": ["", "a", "b"], "most": most}
    output = init(people(tmp_path, **gaps), "--force")
    assert "67 % of its values are missing; it is left out" in output
    assert "20 % are missing; with bands" in output
    pool = load_task(table.with_suffix(".toml")).pool()
    assert len(pool) == 60  # nothing is lost
    assert len(set(pool["some"])) == 5
    assert "unknown" in set(pool["some"])
    assert set(pool["words"]) == {"a", "b", "unknown"}
    assert "most" not in pool


@pytest.mark.parametrize(
    ("columns", "said", "problem"),
    [
        (
            {"income": ["high", "low"]},
            "outcome 'income' has 2 values",
            "say which means yes: positive",
        ),
        (
            {"income": range(0, 600, 10)},
            "outcome 'income' has 60 values",
            "say above which number the answer is yes: threshold",
        ),
        ({"sex": range(60)}, "split it with a threshold", "has 60 numbers"),
    ],
)
def test_what_cannot_be_guessed(
    init: Init, tmp_path: Path, columns: Any, said: str, problem: str
) -> None:
    output = " ".join(init(people(tmp_path, **columns)).split())
    assert said in output
    assert "cannot be used yet" in output
    assert problem in output


@pytest.mark.parametrize(
    ("protected", "words"),
    [
        ("gender", "no column 'gender'"),
        ("sex,sex", "named 2 times"),
        ("", "no column ''"),
    ],
)
def test_bad_input_to_init(
    init: Init, tmp_path: Path, protected: str, words: str
) -> None:
    table = people(tmp_path)
    assert words in init(table, protected=protected, code=2)
    for out, why in (
        ("task.txt", "must end in .toml"),
        ("no/task.toml", "cannot write"),
    ):
        assert why in init(table, "-o", tmp_path / out, code=2)
    assert not list(tmp_path.glob("*.toml"))


def test_a_test_table_with_one_answer_is_shown_as_it_is(
    fwc: Run, tmp_path: Path, init: Init
) -> None:
    init(people(tmp_path))
    later = [f"q{k}" for k in range(60)]
    people(tmp_path, "later.csv", income=["no"], person=later)
    task = tmp_path / "people.toml"
    two = 'pool = "people.csv"\ntest = "later.csv"'
    task.write_text(task.read_text().replace('file = "people.csv"', two))
    output = fwc("task check", task, code=0).out
    assert "whose answer is no:" in output
    assert "whose answer is yes:" not in output
