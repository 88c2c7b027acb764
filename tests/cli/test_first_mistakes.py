"""The mistakes of a first day: what the message says to do is done, and works."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fwc_llm import evaluate, load_task, save_shots, select_shots
from fwc_llm.cli import console
from tests.command import Run, corpus
from tests.refusals import refused

TASK = """title = "Hiring"
question = "Should this person be hired?"
columns = [
  { name = "age", kind = "numeric" },
  { name = "sex" },
  { name = "hired" },
]

[data]
file = "hiring.csv"

[outcome]
column = "hired"
positive = "yes"

[[protected]]
column = "sex"
"""
NEAR = r"did you mean '(\w+)'\?$"
AUDIT = "audit hiring.csv --protected sex --answer hired"
EVAL = "eval --task hiring.toml --shots zero --n-test 24"
# The command, what is wrong in it, and what the message says to write in its place.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its task, a run, and examples of another task."""
    folder = tmp_path_factory.mktemp("first") / "day"
    folder.mkdir()
    rows = {
        "age": range(20, 80),
        "sex": list("FM") * 30,
        "hired": ["no", "yes", "yes", "no"] * 15,
    }
    pd.DataFrame(rows).to_csv(folder / "hiring.csv", index=False)
    (folder / "hiring.toml").write_text(TASK)
    save_shots(select_shots("census", "balanced", 4), folder / "census.json")
    options: Any = {"n_test": 24, "out": folder / "done"}
    evaluate(load_task(folder / "hiring.toml"), "baseline", ["zero"], **options)
    return folder


@pytest.fixture
def first_day(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of that folder, to work in."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "day"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.usefixtures("first_day")
@pytest.mark.parametrize(
    ("command", "wrong", "remedy"), corpus("mistakes/first_mistakes")
)
def test_what_a_message_says_to_do_works(
    command: str, wrong: str, remedy: str, fwc: Run
) -> None:
    refused = fwc(*shlex.split(command), code=2)
    found = re.search(remedy, refused.line)
    assert found, refused.line
    if "--force" in refused.line:
        corrected = f"{command} --force"
    else:
        corrected = re.sub(rf"(?<![\w-]){re.escape(wrong)}(?!\w)", found[1], command)
    assert fwc(*shlex.split(corrected), code=0)


@pytest.mark.usefixtures("first_day")
def test_the_next_step_is_a_command_that_works_as_printed(
    fwc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "width", 16)
    shown = fwc(f"{EVAL} --model baseline --out new", code=0).out
    (command,) = re.findall("^    fwc-llm (.*)$", shown, re.MULTILINE)
    assert fwc(command, code=0)
    shown = fwc(f"{AUDIT} --out new.json --force", code=0).out
    (command,) = re.findall("^    fwc-llm (.*)$", shown, re.MULTILINE)
    assert command.count("--force") == 1
    assert fwc(command, code=0)


@pytest.mark.usefixtures("first_day")
@pytest.mark.parametrize(
    "command",
    [
        "shots --task census --m 4 --strategy balanced -o taken.json",
        "report done -o taken.html",
        "report done -o taken.csv",
        f"{AUDIT} --out taken.json",
        f"{AUDIT} --report taken.html",
        f"{AUDIT} --ll144 taken.csv",
        "task copy adult -o taken.toml",
        "task init hiring.csv --protected sex --outcome hired -o taken.toml",
        "task freeze census -o taken.json",
    ],
)
def test_what_is_there_is_overwritten_with_force_alone(command: str, fwc: Run) -> None:
    words = command.split()
    path = next(Path(word) for word in words if word.startswith("taken"))
    path.write_text("mine")
    refused = fwc(*words, code=2)
    assert refused.line.endswith(
        f"{path} exists already: name another file, or overwrite it with --force"
    )
    assert path.read_text() == "mine"
    fwc(*words, "--force", code=0)
    assert path.read_text() != "mine"


def test_a_cell_without_rows_has_a_remedy_at_each_door(
    fwc: Run, tmp_path: Path
) -> None:
    """`eval` takes epsilon by --set alone, `shots` by a flag, Python as an argument."""
    people = pd.DataFrame(
        {
            "age": [*range(20, 80)],
            "sex": ["f"] * 30 + ["m"] * 30,
            "paid": ["no"] * 30 + ["yes", "no"] * 15,
        }
    )
    people.to_csv(tmp_path / "t.csv", index=False)
    task = tmp_path / "t.toml"
    fwc(f"task init {tmp_path / 't.csv'} --protected sex --outcome paid", code=0)
    doors = {
        f"eval --task {task} --model baseline --shots fwc --n-test 8": "--set epsilon=none",
        f"shots --task {task} --m 4": "--epsilon none",
    }
    for command, remedy in doors.items():
        assert fwc(command, code=2).line.endswith(f"or use {remedy}")
        out = tmp_path / command.partition(" ")[0]
        fwc(f"{command} {remedy} --out {out}", code=0)
    with refused("or use epsilon=None"):
        select_shots(load_task(task), "fwc", 4)
