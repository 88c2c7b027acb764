"""`fwc-llm tune` from the command line."""

from pathlib import Path

from tests.command import Run
from tests.people import make_people, write_people


def test_the_front_the_verdict_and_the_test_are_printed(fwc: Run, tmp_path: Path) -> None:
    task = write_people(tmp_path, make_people(1200, 2))
    asked = ("--task", task, "--model", "python:tests.evaluation.test_tune:heeds")
    small = ("--m", 8, "--rows", 120, "--n-test", 120, "--candidates", 8, "--strategy", "strata,random")
    goal = ("--target-dp", "0.15", "--max-loss", "30")
    outcome = fwc("tune", *asked, *small, *goal, "--out", tmp_path / "tuned")
    assert outcome.code == 0, outcome.line
    for words in ("Candidates on the pool rows", "chosen", "DP gap at most 0.15", "DP gap, test"):
        assert words in outcome.out
    shots = tmp_path / "tuned" / "shots.json"
    assert fwc("eval", *asked, "--shots", shots, "--n-test", 8, "--out", tmp_path / "run").code == 0
