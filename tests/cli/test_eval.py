"""`fwc-llm eval` as a user meets it: tables, exit codes, one clear line for every refusal."""

import re
from pathlib import Path

import pytest

from tests.command import Run
from tests.faults.loopback import HttpReply, completion, serve_in_thread


@pytest.mark.slow
def test_a_dry_run_counts(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "eval --task census --model gpt-4 --shots balanced --n-test 8 --dry-run"
    outcome = fwc(words, "--m", 4, code=0)
    assert "8 requests to gpt-4" in outcome.out
    assert re.search(
        r"^\$\d+\.\d\d, by prices", outcome.out, re.M
    )  # gpt-4 has no cheaper cache
    longest = int(
        re.search(r"longest prompt ([\d,]+)", outcome.out)[1].replace(",", "")
    )  # type: ignore[index]
    assert 500 < longest <= 700
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_who_answers_is_said_as_it_is(fwc: Run, tmp_path: Path) -> None:
    """A server on this machine charges nothing."""
    small = "eval --task census --shots zero --n-test 8"
    with serve_in_thread(lambda request: HttpReply(completion("yes"))) as url:
        local = fwc(f"{small} --model m --base-url", url, "-o", tmp_path / "local")
    assert f"8 requests to m (at {url}, on this machine)" in local.err
    assert "charge" not in local.err
    offline = fwc(f"{small} --model surrogate -o", tmp_path / "offline")
    assert "(a simulation, no network)" in offline.err
