"""The logs that Inspect wrote, once for all tests of this folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


@pytest.fixture(scope="session")
def logs(with_inspect: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    command = [sys.executable, "-m", "tests.inspect.runs", str(folder)]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder
