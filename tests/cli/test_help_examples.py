"""The examples in each command's help."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from fwc_llm.cli import app
from fwc_llm.cli.options import EXAMPLES
from tests.cli.test_options import commands


def test_every_command_has_examples_and_shows_them() -> None:
    assert set(EXAMPLES) == {name for name, _ in commands()}
    for name, command in commands():
        shown = command.epilog.replace("\\[", "[")
        assert all(example in shown for example in EXAMPLES[name]), name


@pytest.mark.parametrize("example", [one for several in EXAMPLES.values() for one in several])
def test_every_example_parses(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text("repeats = 2\n")
    (key,) = (key for key, several in EXAMPLES.items() if example in several)
    program, *words = shlex.split(example)
    assert program == "fwc-llm"
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    assert key.split()[-1] == name
    assert not command.make_context(name, words).args
