"""The surrogate from the command line: over HTTP it says the same, and it refuses what it cannot read."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fwc_llm.models.surrogate.serve import serving
from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]
COMMON = ("--task", "census", "--model", "surrogate", "--shots", "zero,balanced", "--n-test", 16)


@pytest.mark.slow
def test_over_http_it_gives_the_same_answers_and_stays_simulated(fwc: Run, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert fwc("eval", *COMMON, "--out", here).code == 0
    with serving() as url:
        outcome = fwc("eval", *COMMON, "--base-url", url, "--out", there)
    assert outcome.code == 0, outcome.err
    for run in (here, there):
        assert json.loads((run / "run.json").read_text())["simulated"]
        assert json.loads((run / "results.json").read_text())["simulated"]
    answers = [list(csv.DictReader((run / "answers.csv").open())) for run in (here, there)]
    assert len(answers[0]) == 32
    assert {row["simulated"] for rows in answers for row in rows} == {"true"}
    for one, other in zip(*answers, strict=True):
        assert (one["arm"], one["row"], one["reply"]) == (other["arm"], other["row"], other["reply"])


def test_another_table_is_refused_naming_what_was_looked_for(
    fwc: Run, tmp_path: Path, data_dir: Path
) -> None:
    outcome = fwc(
        "eval", "--task", "german", "--model", "surrogate", "--shots", "zero", "--out", tmp_path / "r"
    )
    assert outcome.code == 2
    assert "the surrogate cannot read this prompt" in outcome.line
    for word in ("tasks adult and census", "'hours per week'", "'marital status'"):
        assert word in outcome.line
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_a_template_without_the_attributes_is_refused(fwc: Run, tmp_path: Path) -> None:
    (tmp_path / "system.j2").write_text("")
    (tmp_path / "shots.j2").write_text("")
    (tmp_path / "query.j2").write_text(
        '{% call message("user") %}{{ row["age"] }} {{ row["sex"] }}{% endcall %}'
    )
    outcome = fwc("eval", *COMMON, "--template", tmp_path, "--out", tmp_path / "r")
    assert outcome.code == 2
    assert "did not find 'age'" in outcome.line
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--port", 99999), "cannot listen on 127.0.0.1, port 99999"),
        (("--host", "203.0.113.1", "--port", 0), "cannot listen on 203.0.113.1"),
        (("--require-key", "NO_SUCH_KEY"), "the environment variable that it names is not set"),
        (("--temperature", -1), "temperature is -1.0"),
    ],
)
def test_a_server_that_cannot_start_says_why(fwc: Run, arguments: tuple[object, ...], says: str) -> None:
    outcome = fwc("serve-surrogate", *arguments)
    assert outcome.code == 2
    assert says in outcome.err
    assert "Traceback" not in outcome.err
