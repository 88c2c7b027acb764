"""`fwc-llm tune` from the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]
SMALL = ("--task", "census", "--rows", 120, "--n-test", 40, "--candidates", 4, "--strategy", "strata,random")


@pytest.mark.slow
def test_the_front_the_verdict_and_the_test_are_printed(fwc: Run, tmp_path: Path) -> None:
    outcome = fwc("tune", *SMALL, "--target-dp", "0.3", "--max-loss", "10", "--out", tmp_path / "tuned")
    assert outcome.code == 0, outcome.line
    for words in ("Candidates on the pool rows", "SIMULATED", "chosen", "DP gap at most 0.3", "DP gap, test"):
        assert words in outcome.out
    assert (tmp_path / "tuned" / "shots.json").is_file()
    assert fwc("eval", "--task", "census", "--shots", tmp_path / "tuned" / "shots.json", "--n-test", 8,
               "--out", tmp_path / "run").code == 0  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target-dp", "0.1", "--m", "many"), "whole numbers"),
        (("--target-dp", "0.1", "--model", "baseline"), "baseline reads no prompt, so there is nothing to"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    fwc: Run, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    outcome = fwc("tune", "--task", "census", *arguments, "--out", tmp_path / "tuned")
    assert outcome.code == 2
    assert words in outcome.line
    assert not (tmp_path / "tuned").exists()
