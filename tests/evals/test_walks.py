"""The recorded walks are true: their commands run in order and print what the pages show."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from evals.walks import decisions, loans, oracle
from fwc_llm.cli import console
from tests.command import Run

WALKS = Path(__file__).parents[2] / "evals" / "walks"
_BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```", re.S | re.M)


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Every command of a page with the lines shown below it, and TOML as it is, without any."""
    found: list[tuple[str, list[str]]] = []
    for kind, block in _BLOCK.findall((WALKS / page).read_text(encoding="utf-8")):
        if kind == "toml":
            found.append((block, []))
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line != "…":
                found[-1][1].append(" ".join(line.split()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", ["own-table.md", "safe-defaults.md", "monitor.md"])
def test_what_a_walk_shows_is_printed(
    page: str, fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (console.out, console.err):
        monkeypatch.setattr(place, "width", 200)
    walked = steps(page)
    for command, shown in walked:
        if command.startswith("["):
            with (tmp_path / "loans.toml").open("a", encoding="utf-8") as file:  # TOML goes to its end
                file.write(command)
            continue
        words = shlex.split(command, comments=True)
        if words[0] == "sed":
            subprocess.run(words, check=True)
            continue
        if words[0] == "python":
            modules = {"loans": loans, "oracle": oracle, "decisions": decisions}
            module = modules[words[2].removeprefix("evals.walks.")]
            monkeypatch.setattr("sys.argv", words[2:])
            module.main()
            continue
        assert words[0] == "fwc-llm"
        outcome = fwc(*words[1:])
        exit_code = re.search(r"# exit code (\d)$", command)
        expected = int(exit_code[1]) if exit_code else 2 if command.endswith("# refused") else 0
        assert outcome.code == expected, outcome.err
        printed = " ".join(f"{outcome.out} {outcome.err}".split())
        for line in shown:
            assert line in printed, f"{command} does not print {line!r} but {printed}"
    assert len(walked) >= 10
    if page == "own-table.md":
        assert 'failures="1"' in (tmp_path / "gates.xml").read_text(encoding="utf-8")
        assert "Reference, no language model" in (tmp_path / "report.html").read_text(encoding="utf-8")
