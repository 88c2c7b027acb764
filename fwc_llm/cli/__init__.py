"""The command line: the only place that prints or exits. One file a command, each light to import."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import typer

from fwc_llm.cli import (
    audit,
    bundle,
    doctor,
    gate,
    monitor,
    power,
    prompt,
    report,
    rescore,
    runs,
    serve,
    shots,
    tasks,
    tune,
    verify,
    warm_up,
)
from fwc_llm.cli import eval as eval_command
from fwc_llm.cli.console import terminable
from fwc_llm.cli.options import Command, Group, epilog, shown
from fwc_llm.errors import FwcError, InterruptedRunError
from fwc_llm.untrusted import storable, visible

# What typer raises for arguments that it cannot read; only this one of its kind has a public name.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="fwc-llm",
    cls=Group,
    help="Choose the examples of a prompt so that a language model's answers about a table become fairer, "
    "and measure whether they do.",
    epilog="Start with `fwc-llm eval`: a complete run on a simulated census, without key, network or data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help", "--help-all"]},
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "eval": eval_command.evaluate,
    "shots": shots.shots,
    "tune": tune.tune,
    "prompt": prompt.prompt,
    "tasks": tasks.tasks,
    "power": power.power,
    "runs": runs.runs,
    "report": report.report,
    "compare": report.compare,
    "audit": audit.audit,
    "gate": gate.gate,
    "monitor": monitor.monitor,
    "rescore": rescore.rescore,
    "verify": verify.verify,
    "bundle": bundle.bundle,
    "serve-surrogate": serve.serve_surrogate,
    "doctor": doctor.doctor,
}
for _name, _function in _COMMANDS.items():
    app.command(_name, cls=Command, epilog=epilog(_name))(shown(_function))
app.command("warm-up", cls=Command, help=warm_up.HELP, epilog=epilog("warm-up"))(warm_up.warm_up)
app.add_typer(tasks.task_app, name="task")
app.add_typer(tasks.template_app, name="template")


def _version(show: bool) -> None:
    if show:
        from fwc_llm import __version__

        typer.echo(f"fwc-llm {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before any command."""


def main() -> None:
    """Run the command line; an `FwcError` becomes one line on standard error and its exit code."""
    if "" not in sys.path:
        sys.path.append("")  # models and strategies in Python files of the current folder
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # do not fail on a character that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
    code = 0
    try:
        _check_arguments()
        with terminable():
            code = app(standalone_mode=False) or 0
        if code == InterruptedRunError.exit_code:  # typer takes a Ctrl-C for a quiet end
            raise KeyboardInterrupt
    except FwcError as error:
        code = _refuse(f"fwc-llm: {' '.join(str(error).split())}", error.exit_code)
    except _USAGE_ERROR as error:
        if message := error.format_message():  # empty where the help was shown
            usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
            code = _refuse(f"{usage}fwc-llm: {message.rstrip('.')}; --help says more", error.exit_code)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = _refuse("fwc-llm: interrupted", InterruptedRunError.exit_code)
    except OSError as error:  # any other path that the system refuses
        code = _refuse(
            f"fwc-llm: {error.filename or 'a file'}: {error.strerror or error}", FwcError.exit_code
        )
    if code:
        sys.exit(code)


def _check_arguments() -> None:
    for number, argument in enumerate(sys.argv[1:], 1):
        if storable(argument) != argument:
            raise FwcError(f"argument {number}, {storable(argument)!r}, is not UTF-8 text: give it in UTF-8")


def _refuse(text: str, code: int) -> int:
    """Print the reason to standard error, made safe: it may quote a cell, a file or a service."""
    with suppress(OSError):
        print(visible(text), file=sys.stderr)
    return code
