"""A run's folder is read as it was written, and a damaged one is refused in one clear line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.metrics.records import AS_NO_SCOPE
from fwc_llm.report.compare import compare_runs
from fwc_llm.report.document import find_task, make_document
from fwc_llm.report.formats import render
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs.folder import ANSWER_COLUMNS, PARSED_COLUMNS, RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import answers_by_arm, read_run, read_runs
from fwc_llm.runs.recorded_run import score_run as score
from tests.command import read_json
from tests.data.tables import cycled, write_csv
from tests.models.four_members import FourMembers
from tests.people import TOML, make_people, write_people
from tests.refusals import refused
from tests.report.conftest import MakeRun, lines, write_run


def test_another_reading_is_applied_after_the_run_is_checked(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    run = read_run(folder, unread="as-no")
    gap = run.statistics.of("dp_gap", "zero")
    assert run.statistics.unread == "as-no"
    as_no = read_run(folder).statistics.of("dp_gap", "zero", scope=AS_NO_SCOPE)
    assert gap.ends == as_no.ends


def test_runs_of_one_model_are_told_apart_by_their_folders(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = read_runs(
        [
            make_run("a", repeats=1),
            make_run("b", repeats=1),
            make_run("c", repeats=1, model="other"),
        ]
    )
    assert [run.label for run in runs] == ["gpt-4 · a", "gpt-4 · b", "other · c"]
    assert [run.label for run in read_runs([runs[0].folder, runs[2].folder])] == [
        "gpt-4",
        "other",
    ]
    elsewhere = shutil.copytree(runs[0].folder, tmp_path / "x" / "a")
    named_alike = {run.label for run in read_runs([runs[0].folder, elsewhere])}
    assert named_alike == {
        f"gpt-4 · {folder}" for folder in (runs[0].folder, elsewhere)
    }


def changed_answers(folder: Path, change: Callable[..., Any]) -> None:
    """Change the rows of answers.csv in place, or replace them by others."""
    path = folder / "answers.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
    pd.DataFrame(change(rows) or rows).to_csv(path, index=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[1:],
        lambda rows: rows[0].update(answer="maybe"),
        lambda rows: rows[0].update(p_yes="1.5"),
        lambda rows: rows[-1].update(group="other"),
        lambda rows: [row for row in rows if row["arm"] != "fwc"],
    ],
)
def test_answers_that_are_not_those_written_are_refused(
    make_run: MakeRun, change: Callable[..., Any]
) -> None:
    folder = make_run(repeats=1)
    RunFolder(folder).seal()
    assert read_run(folder).arms == ("zero", "balanced", "fwc")
    changed_answers(folder, change)
    with refused(r"answers\.csv is damaged: `fwc-llm rescore"):
        read_run(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [rows[0], *rows], "has two answers"),
        (
            lambda rows: [row | {"answer": "", "reason": "error"} for row in rows],
            "holds no reply",
        ),
    ],
)
def test_answers_that_cannot_be_judged_are_refused(
    make_run: MakeRun, change: Callable[..., Any], words: str
) -> None:
    folder = make_run(repeats=1)
    changed_answers(folder, change)
    with refused(words):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", None, "is not a run's folder"),
        ("run.json", b"{", "damaged"),
        ("run.json", b'{"format": "fwc-llm-run/1"}', "task: it is missing"),
        ("results.json", b"{}", "results.json is damaged"),
        ("answers.csv", None, "answers.csv"),
        ("answers.csv", b"", "damaged"),
        ("answers.csv", b"\xff\xfe\x00", "damaged"),
    ],
)
def test_damaged_files(
    make_run: MakeRun, name: str, content: bytes | None, words: str
) -> None:
    folder = make_run(repeats=1)
    RunFolder(folder).seal()
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with refused(words):
        read_run(folder)


def test_a_tuning_that_chose_nothing_is_no_damaged_run(tmp_path: Path) -> None:
    (tmp_path / "tuning.json").write_text("{}")
    with refused("chose nothing"):
        read_run(tmp_path)


def test_damaged_prompts_and_shots_are_refused(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    for text in ('{"role": 1}', "[" * 100_000):
        (run.folder / "prompts" / "fwc.json").write_text(text)
        with refused("chat messages"):
            run.prompt("fwc")
    (run.folder / "shots" / "fwc-0.json").write_text("{}")
    with refused("shots"):
        read_run(run.folder).shots("fwc")


MANY = 12_000  # more than one block


def many(folder: Path, answers: int = MANY) -> RunFolder:
    """A folder with one arm's answers, each with a reply of its own."""
    write_run(folder, repeats=1)
    run = RunFolder(folder)
    run.write_json("run.json", run.describe() | {"arms": ["zero"], "calls": answers})
    frame = cycled(
        answers,
        arm=["zero"],
        repeat=[0],
        row=[f"row {place}" for place in range(answers)],
        variant=[""],
        group=["'=m", "f", "f", "f", "f"],
        label=["no", "yes", "yes"],
        answer=["yes", "no"],
        reason=[""],
        p_yes=[f"{place / 1000:.3f}" for place in range(1000)],
        reply=[f"Said, because of {place}. " * 5 for place in range(answers)],
        simulated=["false"],
    )
    write_csv(folder / "answers.csv", frame[[*ANSWER_COLUMNS]])
    return run


def test_every_column_is_what_its_lines_say(out: Path) -> None:
    run = many(out)
    lines = list(run.read_answers())
    (found,) = answers_by_arm(run, ["zero"])[0].values()
    assert [found.row[place] for place in (0, MANY - 1)] == ["row 0", f"row {MANY - 1}"]
    for name in ("row", "variant", "group", "reason"):
        assert getattr(found, name).tolist() == [line[name] for line in lines], name
    assert set(found.group.unique()) == {"f", "=m"}
    np.testing.assert_array_equal(
        found.label == 1, [line["label"] == "yes" for line in lines]
    )
    np.testing.assert_array_equal(
        found.answer == 1, [line["answer"] == "yes" for line in lines]
    )
    np.testing.assert_array_equal(found.p_yes, [float(line["p_yes"]) for line in lines])


def test_a_column_of_later_versions_is_empty_in_an_older_run(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(out, repeats=1)
    monkeypatch.setattr(
        "fwc_llm.runs.folder.PARSED_COLUMNS", (*PARSED_COLUMNS, "latency")
    )
    assert {line["latency"] for line in RunFolder(out).read_answers()} == {""}
    assert "zero" in render([out], "md")


# --- A run's folder is enough


def people_with_gaps(folder: Path) -> Path:
    """A task of 300 people; group a lacks its hours five times as often as group b."""
    frame = make_people(300, 2)
    place = frame.groupby("group").cumcount()
    hours = frame["hours"].mask(place < frame["group"].map({"a": 40, "b": 8}))
    path = write_people(folder, frame.assign(hours=hours))
    path.write_text(f'missing = "drop"\n{TOML}')
    return path


def finished(task: Path, out: Path) -> Path:
    return evaluate(task, FourMembers(), ["zero", "random"], n_test=16, out=out).folder


def missing_table(folder: Path, data_dir: Path | None = None) -> str:
    """Why the run's table cannot be used; "" if it can."""
    return find_task(read_run(folder), None, data_dir)[1]


def test_report_rescore_and_compare_need_nothing_but_the_folder(tmp_path: Path) -> None:
    folder = finished(
        people_with_gaps(tmp_path / "there" / "task"), tmp_path / "there" / "run"
    )
    (tmp_path / "there" / "task" / "people.toml").unlink()
    assert missing_table(folder) == ""
    shutil.move(tmp_path / "there", tmp_path / "elsewhere")  # both move together
    folder = tmp_path / "elsewhere" / "run"
    assert missing_table(folder) == ""
    with Journal(folder) as journal:
        again, _ = score(RunFolder(folder), journal)
    assert again["rows"]["lost"] == 48
    assert compare_runs(read_run(folder), read_run(folder))["changed"] == []
    (tmp_path / "elsewhere" / "task" / "people.csv").unlink()
    assert "the data is not here" in missing_table(folder)


def test_a_task_of_ones_own_comes_before_a_built_in_one_of_its_name(
    tmp_path: Path, data_dir: Path
) -> None:
    path = people_with_gaps(tmp_path)
    path.write_text(f'name = "adult"\n{path.read_text()}')
    folder = finished(path, tmp_path / "run")
    assert missing_table(folder, data_dir) == ""


def test_a_recorded_task_downloads_nothing_and_tells_nothing_of_other_files(
    tmp_path: Path,
) -> None:
    """Anybody may have written the folder: its task may name an address, or any file of this
    machine.
    """
    folder = finished(people_with_gaps(tmp_path), tmp_path / "run")
    described = read_json(folder / "run.json")
    secret = tmp_path / "secret.csv"
    secret.write_text("age,hours,job,school,note,group,y\nhunter2,,,,,,\n")
    for file, more in (
        (
            "gone.csv",
            f'url = "https://127.0.0.1:9/x"\nsha256 = {{ "gone.csv" = "{"0" * 64}" }}',
        ),
        (str(secret), ""),
        ("../../../../../../etc/passwd", ""),
    ):
        text = described["task_file"].replace(
            'file = "people.csv"', f"file = {json.dumps(file)}\n{more}"
        )
        (folder / "run.json").write_text(json.dumps(described | {"task_file": text}))
        missing = missing_table(folder)
        assert missing
        assert "hunter2" not in missing
        assert "root:" not in missing
    for broken in ("[[[", "question = 1"):
        (folder / "run.json").write_text(json.dumps(described | {"task_file": broken}))
        assert "does not fit the data" in missing_table(folder)
    (folder / "run.json").write_text(json.dumps(described | {"task_file": 7}))
    with refused("task_file"):
        make_document([folder])


def test_lost_rows_stand_in_every_output_by_group_and_reason(tmp_path: Path) -> None:
    folder = finished(people_with_gaps(tmp_path), tmp_path / "run")
    described, results = (
        read_json(folder / name) for name in ("run.json", "results.json")
    )
    rows = results["rows"]
    assert described["rows"] == rows
    assert (rows["read"], rows["kept"], rows["lost"]) == (300, 252, 48)
    assert rows["reasons"] == {"no value in hours": 48}
    by_group = {one["group"]: (one["lost"], one["reasons"]) for one in rows["groups"]}
    assert by_group == {
        "a": (40, {"no value in hours": 40}),
        "b": (8, {"no value in hours": 8}),
    }
    assert "groups lose rows unequally: a " in rows["warning"]
    html, markdown, csv = (render([folder], kind) for kind in ("html", "md", "csv"))
    for page in (html, markdown):
        assert "48 of 300 rows were lost before the run" in page
        assert "groups lose rows unequally" in page
    lost = [
        line for line in lines(csv) if line["metric"] == "rows_lost: no value in hours"
    ]
    assert {line["group"]: line["value"] for line in lost} == {"a": "40", "b": "8"}
    assert json.loads(render([folder], "json"))["runs"][0]["rows"] == rows
    assert "48 of 300 rows were lost" in " ".join(
        as_text(runs_table([read_run(folder)])).split()
    )
