"""`fwc-llm eval` as a user meets it: tables, exit codes, one clear line for every refusal."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Run
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve_in_thread, serving

Service = tuple[list[HttpReply], str]


@pytest.fixture
def service() -> Iterator[tuple[list[HttpReply], str]]:
    """A service that says "yes", unless a reply is put into the list for it."""
    replies: list[HttpReply] = []

    def answer(request: HttpRequest) -> HttpReply:
        return replies.pop(0) if replies else HttpReply(completion("yes"))

    with serve_in_thread(answer) as url:
        yield replies, f"{url}/v1"


CENSUS_DRY = ("eval", "--model", "gpt-4", "--task", "census", "--shots", "zero", "--n-test", 8, "--dry-run")


@pytest.mark.slow
def test_a_dry_run_counts_and_prompts_are_cut(
    fwc: Run, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("eval", "--model", "gpt-4", "--shots", "balanced", "--n-test", 8, "--dry-run")
    outcome = fwc(*words, "--max-prompt-tokens", 1000, code=0)
    assert "8 requests to gpt-4" in outcome.out
    assert re.search(r"^\$\d+\.\d\d, by prices", outcome.out, re.M)  # gpt-4 has no cheaper cache
    longest = int(re.search(r"longest prompt ([\d,]+)", outcome.out)[1].replace(",", ""))  # type: ignore[index]
    assert 700 < longest <= 1000
    assert re.search(r"^\d of 16 examples: the most that fit", outcome.err, re.M)
    assert fwc(*words, "--max-prompt-tokens", 10).code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interruption_saves_what_was_done_and_says_three_lines(service: Service, tmp_path: Path) -> None:
    """Here that of a supervisor; tests/faults/test_commands.py presses Ctrl-C."""
    service[0].extend(HttpReply(completion("yes"), delay=0.2) for _ in range(200))
    words = f"-m fwc_llm eval --model m --base-url {service[1]} --shots zero --task census --out"
    command = [sys.executable, *words.split(), str(tmp_path / "run")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, env={**os.environ})
    journal = tmp_path / "run" / "journal.jsonl"
    for _ in range(600):
        if journal.exists() and journal.read_text().count("\n") > 5:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    answered = results["requests"] - results["unanswered"]
    assert 0 < answered < 200
    assert out == ""
    assert err.splitlines()[-3:] == [
        f"{answered} of 200 requests are answered",
        f"what was answered is in {tmp_path / 'run'}",
        f"fwc-llm: interrupted; the same command with --out {tmp_path / 'run'} continues",
    ]
    assert not [line for line in err.splitlines()[1:-3] if not line.startswith("asked ")]


def test_a_key_among_the_parameters_is_refused_unseen(fwc: Run, tmp_path: Path, data_dir: Path) -> None:
    outcome = fwc("eval", "--model", "m", "--param", "api_key=sk-planted", "--out", tmp_path / "run", code=2)
    assert "sk-planted" not in outcome.err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_who_answers_is_said_as_it_is(fwc: Run, service: Service, tmp_path: Path) -> None:
    """A server on this machine charges nothing; the surrogate behind an address is no longer offline."""
    small = ("eval", "--task", "census", "--shots", "zero", "--n-test", 8)
    local = fwc(*small, "--model", "m", "--base-url", service[1], "-o", tmp_path / "local")
    assert f"8 requests to m (at {service[1]}, on this machine)" in local.err
    assert "charge" not in local.err
    served = fwc(*small, "--model", "surrogate", "--base-url", service[1], "-o", tmp_path / "served")
    assert f"(a simulation, asked over the network at {service[1]})" in served.err
    offline = fwc(*small, "--model", "surrogate", "-o", tmp_path / "offline")
    assert "(a simulation, no network)" in offline.err


def test_the_line_of_the_readme_runs_against_a_stand_in_and_is_marked(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(name="gpt-4") as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        done = fwc(
            "eval", "--model", "gpt-4", "--shots", "fwc", *("--task", "census", "--n-test", "8", "--m", "4"),
            "--out", tmp_path / "run",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert url in done.err
    assert "Simulated" in done.out
    assert json.loads((tmp_path / "run" / "results.json").read_text())["simulated_answers"] is True
