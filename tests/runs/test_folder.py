"""A run's folder: what is written can be read, what was damaged is said, what is derived is made
again.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import StorageError
from fwc_llm.evaluation.result import Result
from fwc_llm.models.base import Messages, Reply
from fwc_llm.runs.folder import RunFolder, command, file_name
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.runs.recorded_run import score_run as score
from fwc_llm.runs.results import Replies
from fwc_llm.sanitize import truncate, utf8_safe
from tests.command import python, read_json
from tests.faults.passage import N, plan, run_plan
from tests.models.four_members import FourMembers
from tests.people import make_people, write_people
from tests.refusals import refused

HOSTILE = (
    "Yes \ud800",
    "=cmd|'/c calc'!A0",
    "'=1",
    "''+1",
    "-no",
    "@x",
    "\tno",
    "x" * 200_000,
    'Yes",\r\n"no',
    "\0",
    "",
)


def test_a_command_is_recorded_as_a_shell_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["eval", "--out", "my runs/it's", "--fail-if", "dp_gap > 0.1", "$HOME", ""]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/fwc-llm", *words])
    assert shlex.split(command()) == ["fwc-llm", *words]


class Answers(FourMembers):
    """A model that says `texts` in turn; `after` is called after each reply with how many there
    were.
    """

    def __init__(
        self, *texts: str, after: Callable[[int], None] = lambda count: None
    ) -> None:
        self.texts, self.after, self.asked = texts or ("Yes", "No"), after, 0

    async def ask(self, messages: Messages) -> Reply:
        self.asked += 1
        self.after(self.asked)
        return Reply(self.texts[self.asked % len(self.texts)])


class Probabilities(Answers):
    found = (
        1e-7,
        3.0000000000000004e-7,
        0.49999999,
        0.1 + 0.2,
        5e-324,
        1.0,
        0.0,
        0.9999999,
    )

    async def ask(self, messages: Messages) -> Reply:
        self.asked += 1
        p = self.found[self.asked % len(self.found)]
        return Reply("yes" if p >= 0.5 else "no", p_yes=p)


def rescore(folder: Path) -> Result:
    with Journal(folder) as journal:
        return Result(folder, score(RunFolder.existing(folder), journal)[0])


def test_a_probability_is_kept_to_its_last_digit_and_older_ones_are_read(
    out: Path,
) -> None:
    result = run_plan(plan(), Probabilities(), out)
    assert set(result.answers()["p_yes"]) == set(Probabilities.found)
    (arm,) = read_run(out).answered.answers.values()
    assert set(arm.p_yes) == set(Probabilities.found)
    assert not (arm.p_yes == 0.5).any(), "0.49999999 is not 0.5"
    RunFolder(out).unseal()
    file = out / "answers.csv"
    file.write_text(
        file.read_text().replace("0.49999999", "0.500000").replace("1e-07", "0.000000")
    )
    (older,) = read_run(out).answered.answers.values()
    assert set(older.p_yes) == {*Probabilities.found, 0.5} - {1e-7, 0.49999999}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_every_reader_reads_what_a_reply_holds(out: Path, text: str) -> None:
    result = run_plan(plan(), Answers(text, "Yes"), out)
    assert result.unanswered == 0
    assert rescore(out).data == result.data
    replies = [row["reply"] for row in RunFolder(out).read_answers()]
    assert (len(replies), replies.count(truncate(utf8_safe(text)))) == (N, N / 2)
    assert set(result.answers()["reply"]) == set(replies)
    read_run(out)


def test_no_cell_is_a_formula_and_ordinary_ones_stay(out: Path) -> None:
    run_plan(plan(), Answers("=1+1", "Yes, 'quoted' -no"), out)
    text = (out / "answers.csv").read_text()
    assert ",'=1+1," in text
    assert "\"Yes, 'quoted' -no\"" in text
    assert ",=1+1" not in text


@pytest.mark.parametrize("name", ["answers.csv", "results.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "a row less", "foreign"])
def test_what_is_derived_is_made_again(out: Path, name: str, damage: str) -> None:
    whole = run_plan(plan(), Answers(), out)
    path = out / name
    good = path.read_text()
    lines = good.splitlines(keepends=True)
    damaged = {
        "cut": good[:-20],
        "a row less": "".join(lines[:3] + lines[4:]),
        "foreign": "x",
    }
    path.write_text(damaged[damage]) if damage in damaged else path.unlink()
    with refused(r"rescore|is missing|damaged"):
        read_run(out)
    assert rescore(out).data == whole.data
    assert path.read_text() == good
    read_run(out)


def replaced(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    shutil.copytree(folder.with_name("elsewhere"), folder)


@pytest.mark.parametrize(
    "vanish",
    [shutil.rmtree, replaced, lambda folder: (folder / "journal.jsonl").unlink()],
    ids=["deleted", "replaced", "journal deleted"],
)
def test_a_folder_that_vanishes_ends_the_run(
    out: Path, vanish: Callable[[Path], Any]
) -> None:
    folder = out
    model = Answers(after=lambda count: vanish(folder) if count == 3 else None)
    with pytest.raises(StorageError, match="is gone") as caught:
        run_plan(plan(), model, folder, concurrency=1)
    assert caught.value.exit_code == 7
    assert model.asked == 3


def test_a_link_in_a_folder_from_elsewhere_is_not_written_through(
    tmp_path: Path, out: Path
) -> None:
    run_plan(plan(), Answers(), out)
    precious = tmp_path / "precious"
    precious.write_text("")
    for name in ("answers.csv", "results.json"):
        (out / f"{name}.{os.getpid()}.partial").symlink_to(precious)
    rescore(out)
    (out / "journal.jsonl").unlink()
    (out / "journal.jsonl").symlink_to(precious)
    with refused("cannot open"):
        rescore(out)
    assert precious.read_text() == ""


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run.json", read_run),
        ("answers.csv", read_run),
        ("results.json", read_run),
        ("run.json", rescore),
        ("journal.jsonl", rescore),
        ("questions.jsonl", rescore),
    ],
)
def test_a_pipe_is_not_waited_for(
    out: Path, name: str, read: Callable[[Path], object]
) -> None:
    run_plan(plan(), Answers(), out)
    (out / name).unlink()
    os.mkfifo(out / name)
    with refused():
        read(out)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("arms", [["zero"]]),
        ("arms", ["zero", "zero"]),
        ("model", 7),
        ("settings", {"n_test": "many", "repeats": 1, "seed": 0}),
        ("calls", -1),
    ],
)
def test_an_edited_description_is_refused(out: Path, key: str, value: object) -> None:
    run_plan(plan(), Answers(), out)
    path = out / "run.json"
    path.write_text(json.dumps(read_json(path) | {key: value}))
    with refused(rf"run\.json is damaged: {key}"):
        rescore(out)


def test_long_names_fit_into_a_file_system() -> None:
    names = {file_name(name) for name in ("gpt-4", "m" * 300, "m" * 301, "ä" * 300)}
    assert len(names) == 4
    assert "gpt-4" in names
    assert max(len(name.encode()) for name in names) <= 100


def record(row: str, text: str | None, number: int, **others: Any) -> dict[str, Any]:
    return {
        "request": f"{number:032x}",
        "arm": "zero",
        "repeat": 0,
        "row": row,
        "variant": "",
        "text": text,
        "error": None if text else "gone",
        **others,
    }


def question(row: str, repeat: int = 0) -> dict[str, Any]:
    return {
        "arm": "zero",
        "repeat": repeat,
        "row": row,
        "variant": "",
        "group": "f",
        "label": "yes",
    }


def test_the_last_record_of_a_question_counts(tmp_path: Path) -> None:
    rows = [f"rows.parquet:{k}\n ü" for k in range(6)]
    with Journal(tmp_path) as journal:
        assert Replies(journal).row(question("a"))["reason"] == "error"
        for number, row in enumerate(rows):
            journal.append(
                record(row, None if number % 3 else "Yes", number, model="first")
            )
        journal.append(record(rows[2], "No", 2, model="second", p_yes=0.25))
        journal.append(record(rows[0], None, 0, model=""))
        replies = Replies(journal)
    answers = [replies.row(question(row)) for row in rows]
    assert [row["answer"] for row in answers] == ["", "", "no", "yes", "", ""]
    assert (answers[2]["p_yes"], answers[2]["reply"], answers[2]["label"]) == (
        0.25,
        "No",
        "yes",
    )
    assert [replies.error(question(row)) for row in (rows[0], rows[2], "another")] == [
        "gone",
        "",
        "",
    ]
    assert replies.row(question(rows[3], 1))["reason"] == "error"
    assert replies.models == ["first", "second"]


_COUNT_READS = """
import os, sys
from collections import Counter

read = Counter()


def count(event, arguments):
    if event == "open" and arguments[1] in ("r", "rb") and arguments[0] != -1:
        path = str(arguments[0])
        if os.path.dirname(path).endswith("counted"):
            read[os.path.basename(path)] += 1


sys.addaudithook(count)
from fwc_llm.cli import main

try:
    main()
finally:
    names = "questions.jsonl", "journal.jsonl", "answers.csv", "results.json"
    print(*(f"{name}: {read[name]}" for name in names), file=sys.stderr)
"""


def test_files_of_a_run_are_read_once(tmp_path: Path) -> None:
    """A new run reads back what is judged, and once for checksums; run.json is small."""
    folder = tmp_path / "counted"
    gate = ("--fail-if", "accuracy < 0.01")
    task = write_people(tmp_path, make_people(240, 2))
    small = ("--task", task, "--shots", "zero,random", "--m", 2, "--n-test", 8)
    asked = python("-c", _COUNT_READS, "eval", *small, *gate, "--out", folder)
    assert asked.stderr.splitlines()[-1] == (
        "questions.jsonl: 1 journal.jsonl: 1 answers.csv: 2 results.json: 2"
    )
    gated = python("-c", _COUNT_READS, "gate", folder, *gate)
    assert gated.stderr.splitlines()[-1] == (
        "questions.jsonl: 0 journal.jsonl: 0 answers.csv: 2 results.json: 2"
    )
