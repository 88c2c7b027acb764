"""What the options of all commands have in common: help, completion, aliases."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from fwc_llm.cli import app
from fwc_llm.cli.options import copied, formats, models, orders, strategies, tasks, templates
from tests.cli.conftest import Outcome

Run = Callable[..., Outcome]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        yield from (
            [(f"{name} {inner}", one) for inner, one in command.commands.items()]
            if hasattr(command, "commands")
            else [(name, command)]
        )


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: str(value))
def test_help_loses_nothing(fwc: Run, name: str, command: Any) -> None:
    """Square brackets are text; placeholders are in upper case and say what is wanted."""
    outcome = fwc(*name.split(), "--help")
    assert outcome.code == 0
    shown = re.sub(r"[│\s]+", " ", outcome.out)
    for option in command.params:
        for bracketed in re.findall(r"\[[^]]*\]", (option.help or "").replace("\\", "")):
            assert bracketed in shown
        if option.param_type_name == "option":
            assert option.metavar == option.metavar.upper(), option.name


def test_help_takes_no_retired_model_for_an_example(fwc: Run) -> None:
    assert "eval --model gpt-4 " not in fwc("eval", "--help").out
    assert "[plot]" in fwc("shots", "--help").out


def test_the_shell_completes_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").touch()
    (tmp_path / "mine.json").touch()
    assert list(tasks("a")) == ["adult"]
    assert list(tasks("m")) == ["mine.toml"]
    assert list(strategies("zero,fw")) == ["zero,fwc"]
    assert "zero,mine.json" in strategies("zero,")
    assert "zero,zero" not in strategies("zero,")
    assert list(templates("pa")) == ["paper"]
    assert list(orders("given,al")) == ["given,alternate"]
    assert list(formats("h")) == ["html"]
    assert {"surrogate", "smollm2", "gguf:", "gpt-6-luna"} <= set(models(""))
    assert "gpt-4" not in models("gpt")  # it has ended
    assert list(models("surrogate,basel")) == ["surrogate,baseline"]
    assert list(copied("a")) == ["adult", "acs-employment", "acs-income", "acs-public-coverage"]
    assert not list(copied("ce"))  # the census has no file
    root: Any = typer.main.get_command(app)
    by_name = {option.name: option for option in root.commands["eval"].params}
    context = typer.Context(root.commands["eval"])
    assert [one.value for one in by_name["template"].shell_complete(context, "dec")] == [
        "decision", "decodingtrust"
    ]  # fmt: skip


@pytest.mark.parametrize("flag", ["-o", "--out", "--output"])
def test_every_spelling_of_out(fwc: Run, tmp_path: Path, flag: str) -> None:
    shots = tmp_path / "shots.json"
    outcome = fwc("shots", "--task", "census", "--strategy", "random", "--m", 2, flag, shots)
    assert outcome.code == 0, outcome.err
    assert shots.is_file()
