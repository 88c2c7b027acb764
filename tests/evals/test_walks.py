"""The recorded walk is true: its commands run in order, and what the page shows of their output is there."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from evals.walks import loans
from tests.cli.conftest import Outcome
from tests.cli.conftest import fwc as fwc

PAGE = Path(__file__).parents[2] / "evals" / "walks" / "own-table.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.S | re.M)


def steps() -> list[tuple[str, list[str]]]:
    """Every command of the page with the lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line != "…":
                found[-1][1].append(" ".join(line.split()))
    return found


@pytest.mark.slow
def test_the_walk_with_a_table_of_ones_own(
    fwc: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    walked = steps()
    for command, shown in walked:
        words = shlex.split(command, comments=True)
        if words[0] == "python":
            assert words[1:3] == ["-m", loans.__name__]
            monkeypatch.setattr("sys.argv", words[2:])
            loans.main()
            continue
        assert words[0] == "fwc-llm"
        outcome = fwc(*words[1:])
        said_code = re.search(r"# exit code (\d)$", command)
        expected = int(said_code[1]) if said_code else 2 if command.endswith("# refused") else 0
        assert outcome.code == expected, outcome.err
        said = " ".join(f"{outcome.out} {outcome.err}".split())
        for line in shown:
            assert line in said, f"{command} does not print {line!r} but {said}"
    assert len(walked) >= 10
    assert 'failures="1"' in (tmp_path / "gates.xml").read_text(encoding="utf-8")
    assert "Reference, no language model" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_table_is_the_same_however_it_is_written() -> None:
    english, german = loans.loans(), loans.loans(german=True)
    assert english.startswith(b"\xef\xbb\xbfapplication_id,")
    assert b'"$25,926.47"' in english
    assert german.startswith(b"application_id;")
    assert b"25.926,47 EUR" in german
    assert "selbständig" in german.decode("latin-1")
    assert english.count(b"\n") == german.count(b"\n") == loans.N + 1
    assert english == loans.loans()
