"""The command line: the only place that prints or exits. One file a command, each light to import."""

import re
import sys

import typer

from fwc_llm.cli import audit, power, prompt, report, rescore, serve, shots, tasks
from fwc_llm.cli import eval as eval_command
from fwc_llm.errors import FwcError

app = typer.Typer(
    name="fwc-llm",
    help="Choose the examples that go into a prompt so that a language model's answers over a table become "
    "fairer, and show honestly whether they did.",
    epilog="Start with `fwc-llm eval`: the whole job on a simulated census, without key, network or data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("eval")(eval_command.evaluate)
app.command("shots")(shots.shots)
app.command("prompt")(prompt.prompt)
app.command("tasks")(tasks.tasks)
app.add_typer(tasks.task_app, name="task")
app.command("power")(power.power)
app.command("report")(report.report)
app.command("compare")(report.compare)
app.command("audit")(audit.audit)
app.command("rescore")(rescore.rescore)
app.command("serve-surrogate")(serve.serve_surrogate)


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
    try:
        app()
    except FwcError as error:
        line = " ".join(str(error).split())  # it may quote a cell or a service: nothing for the terminal
        print("fwc-llm: " + re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", line), file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("fwc-llm: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `fwc-llm tasks | head` closes our standard output early
        sys.stderr.close()
        sys.exit(0)
