"""`fwc-llm eval` as a user meets it: tables, exit codes, one clear line for every refusal."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.command import Run
from tests.faults.loopback import HttpReply, completion, serve_in_thread


@pytest.mark.slow
def test_a_dry_run_counts_and_prompts_are_cut(
    fwc: Run, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (
        "eval",
        "--model",
        "gpt-4",
        "--shots",
        "balanced",
        "--n-test",
        8,
        "--dry-run",
    )
    outcome = fwc(*words, "--max-prompt-tokens", 1000, code=0)
    assert "8 requests to gpt-4" in outcome.out
    assert re.search(
        r"^\$\d+\.\d\d, by prices", outcome.out, re.M
    )  # gpt-4 has no cheaper cache
    longest = int(
        re.search(r"longest prompt ([\d,]+)", outcome.out)[1].replace(",", "")
    )  # type: ignore[index]
    assert 700 < longest <= 1000
    assert re.search(r"^\d of 16 examples: the most that fit", outcome.err, re.M)
    assert fwc(*words, "--max-prompt-tokens", 10).code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_who_answers_is_said_as_it_is(fwc: Run, tmp_path: Path) -> None:
    """A server on this machine charges nothing; the surrogate behind an address is no longer
    offline.
    """
    small = ("eval", "--task", "census", "--shots", "zero", "--n-test", 8)
    with serve_in_thread(lambda request: HttpReply(completion("yes"))) as url:
        local = fwc(*small, "--model", "m", "--base-url", url, "-o", tmp_path / "local")
        served = fwc(
            *small, "--model", "surrogate", "--base-url", url, "-o", tmp_path / "served"
        )
    assert f"8 requests to m (at {url}, on this machine)" in local.err
    assert "charge" not in local.err
    assert f"(a simulation, asked over the network at {url})" in served.err
    offline = fwc(*small, "--model", "surrogate", "-o", tmp_path / "offline")
    assert "(a simulation, no network)" in offline.err


_COUNTING = """
import sys, traceback
from fwc_llm.cli import main

def heard(event, arguments):
    if event == "open" and arguments[1] == "r":
        callers = [frame.f_code.co_name for frame, _ in traceback.walk_stack(None)]
        if "sha256" not in callers:
            print("READ", arguments[0])

sys.addaudithook(heard)
main()
"""


def _reads(folder: Path, *words: object) -> Counter[str]:
    """How often a command read the files of a run's folder, except to hash them."""
    command = [sys.executable, "-c", _COUNTING, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    paths = [
        Path(path)
        for path in re.findall(r"^READ (.+)$", done.stdout + done.stderr, re.M)
    ]
    return Counter(path.name for path in paths if folder in path.parents)


def test_the_files_of_a_run_are_read_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = (
        "--task",
        "census",
        "--model",
        "surrogate",
        "--shots",
        "fwc",
        "--n-test",
        20,
    )
    asked = _reads(run, "eval", *small, "-o", run, "--fail-if", "dp_gap > 0.99")
    files = {"run.json", "answers.csv", "results.json", "questions.jsonl", "fwc-0.json"}
    assert {name: asked[name] for name in files} == dict.fromkeys(files, 1)
    decided = _reads(run, "gate", run, "--fail-if", "dp_gap > 0.99")
    assert decided["answers.csv"] == decided["fwc-0.json"] == 1
    told = _reads(run, "report", run, "--no-rows", "-o", tmp_path / "report.html")
    assert told["answers.csv"] == told["results.json"] == told["fwc-0.json"] == 1
