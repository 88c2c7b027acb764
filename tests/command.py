"""The command line in this process: arguments in; exit code, standard output and standard error
out.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fwc_llm.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The last line on standard error: what a refusal says."""
        return self.err.strip().splitlines()[-1]


Run = Callable[..., Outcome]


def python(
    *words: object, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a Python of its own to its end."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, **options
    )


@pytest.fixture
def fwc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `fwc-llm` with these arguments; `code`: with which it has to end."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object, code: int | None = None) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fwc-llm", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            ended = 0
        except SystemExit as exit_:
            ended = int(exit_.code or 0)
        captured = capsys.readouterr()
        assert code in (None, ended), captured.err
        return Outcome(ended, captured.out, captured.err)

    return run
