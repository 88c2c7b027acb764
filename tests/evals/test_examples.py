"""The example applications pass their own tests, in a process that has no key and no data."""

import os
from pathlib import Path

import pytest

from tests.command import python
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.slow


def test_the_examples_own_tests_pass(tmp_path: Path) -> None:
    hidden = {"FWC_LLM_DATA", "OPENAI_API_KEY"}
    environment = {
        name: value for name, value in os.environ.items() if name not in hidden
    }
    # By name, for a checkout that is not installed; pytest takes no plugin twice.
    options = ("-p", "fwc_llm.testing.plugin", "-p", "no:cacheprovider", "-q")
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    done = python(
        "-m",
        "pytest",
        *options,
        "evals/examples",
        cwd=CHECKOUT,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout
