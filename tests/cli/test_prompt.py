"""`fwc-llm prompt`: what is sent for one row."""

import io
import json
from pathlib import Path

import pytest

from fwc_llm.prompts import build_prompt, templates
from fwc_llm.tasks import Task, load_task
from tests.command import Run, read_json


@pytest.mark.slow
def test_a_row_of_the_split_is_shown_as_it_is_sent(fwc: Run, out: Path) -> None:
    asked = "--task census --shots balanced --m 4"
    outcome = fwc(f"prompt {asked} --row 3", code=0)
    sent = fwc(f"prompt {asked} --row 3 --json").json
    roles = ["system", *["user", "assistant"] * 4, "user"]
    assert [message["role"] for message in sent] == roles
    for message in sent:
        assert message["content"] in outcome.out
    assert "row 3 of the split is census.test:" in outcome.err
    # … and it is what `eval` sends for its first row
    fwc(f"eval {asked} --model surrogate --out", out, code=0)
    first = fwc(f"prompt {asked} --json").json
    assert read_json(out / "prompts" / "balanced.json") == first
    assert first[:-1] == sent[:-1]


@pytest.mark.slow
def test_a_decision_models_question_stands_apart(fwc: Run) -> None:
    outcome = fwc("prompt --task census --api decisions --json", code=0)
    asked = [(message["role"], message.get("name")) for message in outcome.json]
    assert asked == [("user", None), ("question", None)]


def test_a_record_is_shown_without_the_table(
    fwc: Run, census: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / "task.json"
    row = tmp_path / "row.json"
    fwc("task freeze census -o", task, code=0)
    assert "exists already" in fwc("task freeze census -o", task, code=2).line
    values = {**census.test().iloc[0].to_dict(), "hours-per-week": 120}
    row.write_text(json.dumps(values))
    shown = ("prompt", "--task", task, "--record")
    outcome = fwc(*shown, row, "--json", code=0)
    assert outcome.json == build_prompt(load_task(task), values)
    assert "'hours-per-week'" in outcome.err
    monkeypatch.setattr("sys.stdin", io.StringIO(row.read_text()))
    assert outcome.out == fwc(*shown, "-", "--json", code=0).out
    assert "--row" in fwc(*shown, row, "--row", 1, code=2).line
    assert "a saved file" in fwc(*shown, row, "--shots", "balanced", code=2).line
    for content in ("[]", "{", json.dumps({**values, "sex": "F"})):
        row.write_text(content)
        fwc(*shown, row, code=2)
    assert "'sex'" in fwc(*shown, row, code=2).line


# --- `fwc-llm template init` and `fwc-llm task copy`


def test_a_copied_template_set_says_the_same(fwc: Run, tmp_path: Path) -> None:
    assert {"default", "decision"} <= set(templates())
    for name in ("default", "decision"):
        folder = tmp_path / "new" / name
        fwc("template init", folder, "--from", name, code=0)
        api = ("--api", "decisions") if name == "decision" else ()
        shown = [
            fwc("prompt --task census --template", one, *api).out
            for one in (name, folder)
        ]
        assert shown[0] == shown[1] != ""


def test_a_template_set_is_not_written_over(fwc: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "query.j2").write_text("mine")
    (tmp_path / "file").touch()
    for name in ("mine", "file"):
        assert (
            "cannot make the folder"
            in fwc("template init", tmp_path / name, code=2).line
        )
    assert (tmp_path / "mine" / "query.j2").read_text() == "mine"
    assert (
        "there are"
        in fwc("template init", tmp_path / "x", "--from", "../../etc", code=2).line
    )
    assert not (tmp_path / "x").exists()


def test_a_copied_task_is_the_same_task(fwc: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    fwc("task copy adult -o", mine, code=0)
    copy, built_in = (
        (t.columns, t.protected, t.question) for t in map(load_task, (mine, "adult"))
    )
    assert copy == built_in
    mine.write_text("mine")
    for words, said in (
        (("census",), "no task file 'census'"),
        (("../adult",), "no task file"),
        (("adult", "-o", mine), "exists already"),
        (("adult", "-o", tmp_path / "x.txt"), "must end in .toml"),
        (("adult", "-o", tmp_path / "no" / "x.toml"), "its folder does not exist"),
    ):
        assert said in fwc("task copy", *words, code=2).line
    assert mine.read_text() == "mine"
    fwc("task copy adult -o", mine, "--force", code=0)
