"""The reference of the command line: every command with its arguments and options, from the
program.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from fwc_llm.cli.program import every_command as program

_CODES = (
    "0 done; 2 refused before any request; 3 the provider rejected the run; 4 finished, but a row "
    "has no "
    "reply; 5 a gate failed; 6 a gate is undecided; 7 the disk is full, or the run's folder is "
    "gone; "
    "130 interrupted."
)


def pages() -> dict[str, str]:
    """The pages as Markdown by name: a table of all commands, and a page of each."""
    each = {
        name.replace(" ", "-"): "\n".join(_page(name, command)) for name, command in every_command()
    }
    return {"commands": "\n".join(_table())} | each


def every_command(group: Any = None, name: str = "fwc-llm") -> Iterator[tuple[str, Any]]:
    """The name and the command of all commands, those in groups included, in the order of
    `--help`.
    """
    group = program() if group is None else group
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def _table() -> Iterator[str]:
    yield "# Commands\n"
    yield "What `fwc-llm COMMAND --help-all` prints. `fwc-llm --version` prints the version,"
    yield (
        "`fwc-llm --install-completion` teaches your shell to complete commands, options and "
        "values.\n"
    )
    yield f"Exit codes: {_CODES}\n"
    yield "| command | what it does |\n|---|---|"
    for name, command in every_command():
        yield f"| [`{name}`]({name.replace(' ', '-')}.md) | {_cell(_first(command.help))} |"
    yield "\n```{toctree}\n:hidden:\n"
    yield from (name.replace(" ", "-") for name, _ in every_command())
    yield "```"


def _page(name: str, command: Any) -> Iterator[str]:
    yield f"# {name}\n"
    yield f"{_plain(command.help)}\n"
    if command.epilog:
        yield f"{_plain(command.epilog)}\n"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([name, *map(_placeholder, arguments)])
    yield f"```\n{usage}{' [OPTIONS]' if options else ''}\n```\n"
    if arguments:
        yield "| argument | |\n|---|---|"
        yield from (f"| `{_placeholder(one)}` | {_cell(_plain(one.help))} |" for one in arguments)
        yield ""
    if options:
        yield "| option | | default |\n|---|---|---|"
        yield from (_option(one, command) for one in options if not one.hidden)


def _placeholder(one: Any) -> str:
    return f"{one.metavar or one.name.upper().replace('_', '-')}{'...' if one.nargs == -1 else ''}"


def _option(one: Any, command: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
    if one.is_flag:
        metavar = ""
    else:
        metavar = _placeholder(one)
    if callable(one.default):
        default = one.default()
    else:
        default = one.default
    if default in (None, "", False, (), []) or callable(default):
        shown = ""
    else:
        shown = f"`{default}`"
    placeholder = f" `{metavar}`" if metavar else ""
    return f"| {names}{placeholder} | {_cell(_plain(one.help))} | {_cell(shown)} |"


def _first(text: str | None) -> str:
    """The first sentence, without its full stop."""
    return re.split(r"\.\s", _plain(text))[0].rstrip(".")


def _plain(text: str | None) -> str:
    """Help without the marks of the terminal."""
    return re.sub(r"\\(?=\[)", "", inspect.cleandoc(text or "")).replace("\f", "").replace("\b", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
