"""The command line in this process: arguments in; exit code, standard output and standard error
out.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.cli import main

_MEASURED = """
from fwc_llm.cli import main

main()
print("peak", next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The last line on standard error: what a refusal says."""
        return self.err.strip().splitlines()[-1]

    @property
    def words(self) -> str:
        """Standard output, however its lines are broken."""
        return " ".join(self.out.split())

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads(self.out)


Run = Callable[..., Outcome]


def python(
    *words: object, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a Python of its own to its end."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=check, **options
    )


def peak(line: str) -> tuple[str, int]:
    """What `fwc-llm` prints in a process of its own, and the most memory that it held in kB."""
    done = python("-c", _MEASURED, *shlex.split(line))
    out, _, kilobytes = done.stdout.rpartition("peak ")
    return out, int(kilobytes)


def read_json(path: Path | str) -> Any:
    return json.loads(Path(path).read_text())


def corpus(name: str) -> list[Any]:
    """The cases of a file in `corpus`."""
    path = Path(__file__).parent / "corpus" / f"{name}.jsonl"
    return [*map(json.loads, path.read_text(encoding="utf-8").splitlines())]


@pytest.fixture
def fwc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `fwc-llm` with a line as a shell reads it, and with further words as they are.

    `code`: with which it has to end.
    """
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(line: str, *words: object, code: int | None = None) -> Outcome:
        arguments = ["fwc-llm", *shlex.split(line), *map(str, words)]
        monkeypatch.setattr(sys, "argv", arguments)
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
