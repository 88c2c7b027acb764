"""A run's folder is read as it was written, and a damaged one is refused in one clear line."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.report.read import answers_by_arm, read_run, read_runs
from fwc_llm.runs.folder import ANSWER_COLUMNS, RunFolder
from tests.report.conftest import write_run

MakeRun = Callable[..., Path]


def edit_answers(folder: Path, change: Callable[[list[dict[str, str]]], Any]) -> None:
    """Rewrite answers.csv after `change` had its way with the rows (in place, or by returning others)."""
    path = folder / "answers.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    rows = change(rows) or rows
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def test_a_run_is_read_as_it_was_written(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=2, probabilities=True, counterfactual=True))
    assert run.arms == ("zero", "balanced", "fwc")
    assert run.groups == ("Female", "Male")
    a = run.answers["zero"]
    assert len(a) == 400
    assert set(a.repeat.tolist()) == {0, 1}
    assert set(a.reason[np.isnan(a.answer)].tolist()) == {"refused"}
    assert not np.isnan(a.p_yes).any()
    assert len(run.counterfactuals["fwc"]) == 400
    assert set(run.shots("fwc")) == {0, 1}
    assert run.shots("fwc")[0].weighted
    assert run.shots("zero") == {}
    assert run.prompt("fwc")[0]["role"] == "system"


def test_runs_of_one_model_are_told_apart_by_their_folders(make_run: MakeRun) -> None:
    runs = read_runs(
        [make_run("a", repeats=1), make_run("b", repeats=1), make_run("c", repeats=1, model="other")]
    )
    assert [run.label for run in runs] == ["gpt-4 · a", "gpt-4 · b", "other · c"]
    assert [run.label for run in read_runs([runs[0].folder, runs[2].folder])] == ["gpt-4", "other"]


def drop_a_row(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return rows[1:]


def double_a_row(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [rows[0], *rows]


def set_first(**changes: str) -> Callable[[list[dict[str, str]]], None]:
    def change(rows: list[dict[str, str]]) -> None:
        rows[0].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_a_row, "599 of the run's 600 answers; `fwc-llm rescore"),
        (double_a_row, "is there twice"),
        (set_first(answer="maybe"), "line 2 is not an answer"),
        (set_first(label=""), "line 2 is not an answer"),
        (set_first(repeat="first"), "line 2 is not an answer"),
        (set_first(p_yes="1.5"), "line 2 is not an answer"),
        (set_first(arm="other"), "names the arm 'other'"),
        (lambda rows: [row for row in rows if row["arm"] != "fwc"], "400 of the run's 600 answers"),
        (lambda rows: [row | {"answer": "yes"} for row in rows], "does not agree with answers.csv"),
    ],
)
def test_damaged_answers_are_refused(make_run: MakeRun, change: Callable[..., Any], words: str) -> None:
    folder = make_run(repeats=1)
    edit_answers(folder, change)
    with pytest.raises(FwcError, match=words):
        read_run(folder)


def test_a_run_without_any_reply_is_empty(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    edit_answers(folder, lambda rows: [row | {"answer": "", "reason": "error"} for row in rows])
    with pytest.raises(FwcError, match="holds no reply yet"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", None, "is missing"),
        ("run.json", "{", "damaged"),
        ("run.json", '{"format": "other/1"}', "not of format"),
        ("run.json", '{"format": "fwc-llm-run/1"}', "task: it is missing"),
        (
            "run.json",
            '{"format": "fwc-llm-run/1", "task": "a", "model": "m", "simulated": false, "arms": [], '
            '"settings": 1}',
            "damaged: arms",
        ),
        ("results.json", None, "is missing"),
        ("results.json", "{}", "task: it is missing"),
        ("answers.csv", None, "answers.csv"),
        ("answers.csv", "", "columns"),
        ("answers.csv", b"\xff\xfe\x00", "damaged"),
    ],
)
def test_damaged_files_are_refused(
    make_run: MakeRun, name: str, content: str | bytes | None, words: str
) -> None:
    folder = make_run(repeats=1)
    path = folder / name
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
    with pytest.raises(FwcError, match=words):
        read_run(folder)


def test_damaged_prompts_and_shots_are_refused(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    (run.folder / "prompts" / "fwc.json").write_text('{"role": 1}')
    with pytest.raises(FwcError, match="chat messages"):
        run.prompt("fwc")
    (run.folder / "prompts" / "fwc.json").write_text("[" * 100_000)
    with pytest.raises(FwcError, match="chat messages"):
        run.prompt("fwc")
    (run.folder / "shots" / "fwc-0.json").write_text("{}")
    with pytest.raises(FwcError, match="shots"):
        run.shots("fwc")


def test_runs_of_different_tasks_are_refused(make_run: MakeRun) -> None:
    with pytest.raises(FwcError, match="different tasks"):
        read_runs([make_run("a", repeats=1), make_run("b", repeats=1, task="german")])


def test_no_run_and_the_same_run_twice_are_refused(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    with pytest.raises(FwcError, match="at least one"):
        read_runs([])
    with pytest.raises(FwcError, match="twice"):
        read_runs([folder, folder])


MANY = 12_000  # more than one block


def many(folder: Path, answers: int = MANY) -> RunFolder:
    """A folder with one arm's answers, each with a reply of its own."""
    write_run(folder, repeats=1)
    run = RunFolder(folder)
    run.write_json("run.json", run.describe() | {"arms": ["zero"], "calls": answers})
    with (folder / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(ANSWER_COLUMNS)
        for place in range(answers):
            said, label = ("yes", "no")[place % 2], ("yes", "no")[place % 3 == 0]
            group, p = "f" if place % 5 else "'=m", f"{place % 1000 / 1000:.3f}"
            reply = f"{said}, because of {place}. " * 5
            writer.writerow(("zero", 0, f"row {place}", "", group, label, said, "", p, reply, "false"))
    return run


def test_every_column_is_what_its_lines_say(tmp_path: Path) -> None:
    run = many(tmp_path / "run")
    lines = list(run.read_answers())
    (found,) = answers_by_arm(run, ["zero"])[0].values()
    assert [found.row[place] for place in (0, MANY - 1)] == ["row 0", f"row {MANY - 1}"]
    for name in ("row", "variant", "group", "reason"):
        assert getattr(found, name).tolist() == [line[name] for line in lines], name
    assert set(found.group.unique()) == {"f", "=m"}
    np.testing.assert_array_equal(found.label == 1, [line["label"] == "yes" for line in lines])
    np.testing.assert_array_equal(found.answer == 1, [line["answer"] == "yes" for line in lines])
    np.testing.assert_array_equal(found.p_yes, [float(line["p_yes"]) for line in lines])
