"""What the options of all commands have in common: help, completion, aliases."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.cli import program
from fwc_llm.cli.flags import EVERYDAY, EXAMPLES
from fwc_llm.cli.program import every_command
from tests.command import Run, python, read_json


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    root: Any = every_command()
    for name, command in root.commands.items():
        inner = getattr(command, "commands", {}).items()
        yield from [(f"{name} {word}", one) for word, one in inner] or [(name, command)]


@pytest.mark.parametrize(
    ("name", "command"), [*commands()], ids=lambda value: str(value)
)
def test_help_loses_nothing(fwc: Run, name: str, command: Any) -> None:
    """Square brackets are text."""
    outcome = fwc(*name.split(), "--help-all", code=0)
    shown = re.sub(r"[│\s]+", " ", outcome.out)
    for text in (command.help, *(option.help for option in command.params)):
        for bracketed in re.findall(r"\[[^]]*\]", (text or "").replace("\\", "")):
            assert bracketed in shown


LISTED = """
import sys
sys.argv = ["fwc-llm", "--help"]
from fwc_llm.cli import main
main()
heavy = {"pydantic", "pandas", "openai", "numba", "scipy", "matplotlib", "jinja2"}
assert not {*heavy, "fwc_llm.cli.eval"} & {*sys.modules}
"""


def test_the_list_of_commands_imports_none_of_them() -> None:
    shown = re.sub(r"[│\s]+", " ", python("-c", LISTED).stdout)
    for name, command in commands():
        if " " not in name:
            assert f" {name} {command.help[:24]}" in shown, name


@pytest.mark.parametrize("name", EVERYDAY)
def test_help_shows_what_everybody_needs_and_help_all_the_rest(
    fwc: Run, name: str
) -> None:
    shown = (fwc(name, option).out for option in ("-h", "--help-all"))
    short, long = (set(re.findall(r"(?<!\S)--[a-z-]+", text)) for text in shown)
    assert short < long
    assert 9 <= len(short) <= 17
    assert {"--json", "--protected"} <= short
    assert ("--margin" in long) == (name == "audit")


def test_an_option_of_another_strategy_is_named(fwc: Run) -> None:
    choose = ("shots", "--task", "census", "--strategy")
    refused = fwc(*choose, "random", "--option", "prove=true").line
    assert "no option 'prove'" in refused
    refused = fwc(*choose, "fwc", "--option", "column_weights=foo=2").line
    assert "task 'census' has no column 'foo'" in refused


# --- The examples in each command's help


def test_every_command_has_examples_and_shows_them() -> None:
    assert set(EXAMPLES) == {name for name, _ in commands()}
    for name, command in commands():
        shown = command.epilog.replace("\\[", "[")
        assert EXAMPLES[name] in shown, name


@pytest.mark.parametrize(("name", "example"), [*EXAMPLES.items()])
def test_every_example_parses(
    name: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text("repeats = 2\n")
    asked = ["fwc-llm", *name.split()]
    words = shlex.split(example)
    assert words[: len(asked)] == asked
    assert not dict(commands())[name].make_context(name, words[len(asked) :]).args


def test_seven_commands_come_first_and_eval_has_at_most_forty_options(fwc: Run) -> None:
    shown = fwc("--help", code=0).out
    first, _, more = shown.partition("─ More ─")
    seven = {"task", "shots", "eval", "report", "audit", "gate", "prompt"}
    listed = [
        set(re.findall(r"^│ ([a-z][a-z-]+)  ", part, re.M)) for part in (first, more)
    ]
    assert listed[0] == seven
    assert seven | listed[1] == {name.partition(" ")[0] for name, _ in commands()}
    options = [
        one
        for one in dict(commands())["eval"].params
        if one.param_type_name == "option"
    ]
    assert len(options) <= 40
    short = set(re.findall(r"(?<!\S)--[a-z-]+", fwc("eval --help", code=0).out))
    assert len(short - {"--help", "--help-all", "--shots", "--out"}) <= 12


def test_an_option_without_a_flag_is_set_by_name(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    small = "eval --task census --model surrogate --shots zero --n-test 20"
    fwc(f"{small} --set samples=2 --set margin=0.1 -o", out, code=0)
    settings = read_json(out / "run.json")["settings"]
    assert (settings["samples"], settings["margin"]) == (2, 0.1)
    again = tmp_path / "again"
    fwc("eval", out / "experiment.toml", "--set", "margin=0.2", "-o", again, code=0)
    settings = read_json(again / "run.json")["settings"]
    assert (settings["samples"], settings["margin"]) == (2, 0.2)
    for wrong, message in (
        ("sample=2", "did you mean 'samples'"),
        ("samples=x", "samples: "),
    ):
        assert message in fwc(small, "--set", wrong, code=2).line


def test_an_option_of_experiment_files_alone_is_named_as_such(fwc: Run) -> None:
    refused = fwc("eval", "--cluster", "customer", code=2)
    assert "--set cluster=VALUE sets it" in refused.line


def test_the_list_of_commands_has_whole_sentences() -> None:
    listed = map(program.summary, program.MODULES.keys() - program.GROUPS.keys())
    assert all(text.endswith(".") for text in listed)
