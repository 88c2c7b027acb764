"""The soak in short: `python -m evals.soak` does 50,000 rows."""

import subprocess
import sys

import pytest

from tests.conftest import CHECKOUT


@pytest.mark.slow
def test_runs_that_are_killed_live_and_by_batches_lose_and_repeat_nothing() -> None:
    command = [sys.executable, "-m", "evals.soak", "--rows", "120", "--kills", "3"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("rows 40" in line and "lost 0, again 0, twice 0" in line for line in lines)
