"""The command line; no other subpackage prints or exits."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import typer

from fwc_llm.cli.program import IN_FILES, app, load
from fwc_llm.errors import FwcError, InterruptedRunError
from fwc_llm.notices import to_command_line
from fwc_llm.sanitize import redact, replace_invisible, utf8_safe

# The base class of typer's errors for invalid arguments; only this subclass has a public name.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[2]


def _version(show: bool) -> None:
    if show:
        from fwc_llm import __version__

        typer.echo(f"fwc-llm {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before any command."""


class WithoutKeys:
    """A stream of text that takes out keys, whoever writes to it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without keys."""
        self._stream.write(redact(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines without keys."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main() -> None:
    """Run the command line; an `FwcError` becomes one line and its exit code."""
    with to_command_line(_note, _without_flag):
        _main()


def _note(text: str) -> None:
    from fwc_llm.cli.console import notes

    notes(text)


def _main() -> None:
    atexit.register(
        gc.freeze
    )  # saves the final garbage collection, a tenth of a second
    # Numba reads settings from the current folder: a folder of pickled code must not be one of
    # them.
    os.environ.setdefault("NUMBA_CACHE_DIR", "")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if hasattr(
            stream, "reconfigure"
        ):  # escape characters that the terminal cannot encode
            stream.reconfigure(errors="backslashreplace")
        if stream is not None:
            setattr(sys, name, WithoutKeys(stream))
    _at_a_request_to_end(signal.default_int_handler)  # like Ctrl-C
    code = 0
    try:
        for number, argument in enumerate(sys.argv[1:], 1):
            if utf8_safe(argument) != argument:
                problem = (
                    f"argument {number}, {utf8_safe(argument)!r}, is not UTF-8 text"
                )
                raise FwcError(f"{problem}: give it in UTF-8")
        completing = any(name.endswith("_COMPLETE") for name in os.environ)
        load(["*"] if completing else sys.argv[1:])
        code = app(standalone_mode=False) or 0
        if (
            code == InterruptedRunError.exit_code
        ):  # typer returns this code after Ctrl-C
            raise KeyboardInterrupt
    except FwcError as error:
        message = " ".join(str(error).split())
        _to_junit(message)
        code = _refuse(f"fwc-llm: {message}", error.exit_code)
    except _USAGE_ERROR as error:
        message = error.format_message()
        option = (getattr(error, "option_name", None) or "").removeprefix("--")
        if option.replace("-", "_") in _without_flag():
            message = f"there is no flag --{option}: --set {option}=VALUE sets it"
        if message:  # empty if typer has shown the help
            usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
            message = f"{message.rstrip('.')}; --help says more"
            _to_junit(message, begun=False)
            code = _refuse(f"{usage}fwc-llm: {message}", error.exit_code)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = _refuse("fwc-llm: interrupted", InterruptedRunError.exit_code)
    except OSError as error:  # an unusable path that no other code reports
        code = _refuse(
            f"fwc-llm: {error.filename or 'a file'}: {error.strerror or error}",
            FwcError.exit_code,
        )
    _at_a_request_to_end(signal.SIG_DFL)
    if code:
        sys.exit(code)


def _without_flag() -> frozenset[str]:
    """The options that the command in `sys.argv` takes by --set alone."""
    command = next((word for word in sys.argv[1:] if word in IN_FILES), "")
    return IN_FILES.get(command, frozenset())


def _to_junit(reason: str, begun: bool = True) -> None:
    """Write the reason to the file of --junit; earlier checks must not outlive a call's begin."""
    for word, following in pairwise([*sys.argv, ""]):
        name, _, value = word.partition("=")
        path = Path(value or following)
        if name == "--junit" and path.name:
            from fwc_llm.gates.decide import write_stopped

            with suppress(FwcError):
                if not begun:
                    write_stopped(path)
                write_stopped(path, reason)


def _at_a_request_to_end(handler: Any) -> None:
    with suppress(
        ValueError
    ):  # outside of the main thread, signal handlers cannot be set
        signal.signal(signal.SIGTERM, handler)


def _refuse(text: str, code: int) -> int:
    """Print the reason to standard error, sanitized: it may quote untrusted text."""
    with suppress(OSError):
        print(replace_invisible(text), file=sys.stderr)
    return code
