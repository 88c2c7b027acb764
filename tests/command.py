"""The command line in this process: arguments in; exit code, standard output and standard error out."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

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


@pytest.fixture
def fwc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `fwc-llm` with these arguments."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["fwc-llm", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
