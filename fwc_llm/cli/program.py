"""The program of commands, which are imported when invoked."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from fwc_llm.errors import FwcError

# The module of every command, in the order of the help; "task" and "template" are groups.
MODULES = {
    "task": "task",
    "shots": "shots",
    "eval": "eval",
    "report": "report",
    "audit": "audit",
    "gate": "gate",
    "prompt": "prompt",
    "tasks": "task",
    "power": "power",
    "tune": "tune",
    "compare": "report",
    "monitor": "monitor",
    "rescore": "runs",
    "verify": "runs",
    "template": "task",
    "warm-up": "warm_up",
}
PANELS = {name: None if number < 7 else "More" for number, name in enumerate(MODULES)}
# Options in --help of commands with many options; --help-all shows all.
EVERYDAY = {
    "eval": "experiment task protected model shots m n_test out base_url dry_run max_cost "
    "fail_if "
    "as_json",
    "tune": "task protected model target_dp max_loss rows candidates m out base_url max_cost "
    "as_json",
    "audit": "predictions protected answer label positive p_yes missing weight cluster about out "
    "report fail_if junit as_json",
    "shots": "task protected strategy m epsilon option out as_json",
}

# By command, the options that only experiment files and --set have.
IN_FILES: dict[str, frozenset[str]] = {}


class _Plain:
    """Help without placeholders for boolean flags; `EVERYDAY` limits the options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, without placeholders for flags."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if param.metavar is None and getattr(param, "is_flag", False):
                param.metavar = ""
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; `--help-all` includes every option."""
        everyday = EVERYDAY.get(self.name or "", "").split()  # type: ignore[attr-defined]
        for param in self.params:  # type: ignore[attr-defined]
            param.hidden = (
                bool(everyday)
                and param.name not in everyday
                and "--help-all" not in sys.argv
            )
        super().format_help(ctx, formatter)  # type: ignore[misc]


class Command(_Plain, TyperCommand):
    """A command, which refuses an option that has one value and is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; `FwcError` for a value that another one would replace."""
        _, _, given = self.make_parser(ctx).parse_args([*args])
        rest = super().parse_args(ctx, args)
        for param, times in Counter(given).items():
            if times > 1 and not (param.multiple or getattr(param, "is_flag", False)):
                name = max(param.opts, key=len)
                raise FwcError(f"{name} is given {times} times: give one value")
        return rest


class CommandGroup(_Plain, TyperGroup):
    """A command with subcommands, such as `task`."""


class Program(CommandGroup):
    """All commands; only name and summary are known before `load` imports them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; before `load` imports it, a placeholder with its summary."""
        if cmd_name in self.commands or cmd_name not in MODULES:
            return super().get_command(ctx, cmd_name)
        group = getattr(GROUPS.get(cmd_name), "info", None)
        listed = Command(cmd_name, help=group.help if group else summary(cmd_name))
        listed.rich_help_panel = PANELS[cmd_name]
        return listed


def summary(name: str) -> str:
    """The first paragraph of a command's docstring, read without a slow import."""
    source = Path(__file__).with_name(f"{MODULES[name]}.py").read_text(encoding="utf-8")
    found = re.search(
        rf'^@(?:flags\.)?command\(\s*"{name}".*?^    """(.+?)(?:"""|\n\n)',
        source,
        re.M | re.S,
    )
    return " ".join(found[1].split()) if found else ""


app = typer.Typer(
    name="fwc-llm",
    cls=Program,
    help="Choose the examples of a prompt so that a language model's answers about a table become "
    "fairer, "
    "and measure whether they do.",
    epilog="Start with `fwc-llm eval`: a complete run on a simulated census, without key, network "
    "or data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help", "--help-all"]},
)
GROUPS = {
    "": app,
    "task": typer.Typer(
        help="Task files for tables of your own.",
        no_args_is_help=True,
        cls=CommandGroup,
    ),
    "template": typer.Typer(
        help="Template sets of your own.", no_args_is_help=True, cls=CommandGroup
    ),
}
app.add_typer(GROUPS["task"], name="task")
app.add_typer(GROUPS["template"], name="template", rich_help_panel=PANELS["template"])


def load(words: Sequence[str]) -> None:
    """Import the first command named in `words`; without a known name, import all."""
    name = next((word for word in words if not word.startswith("-")), None)
    for module in (
        {MODULES[name]} if name in MODULES else {*MODULES.values()} if name else ()
    ):
        import_module(f"fwc_llm.cli.{module}")


def every_command() -> Any:
    """The program with every command imported, in the order of the help."""
    load(["*"])
    app.registered_commands.sort(
        key=lambda command: [*MODULES].index(str(command.name))
    )
    return typer.main.get_command(app)
