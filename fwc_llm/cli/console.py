"""Output of commands: results on standard output, notes on standard error."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fwc_llm.progress import Terminal
from fwc_llm.sanitize import escape_invisible, replace_invisible


class SafeConsole(Console):
    """A console that takes out control characters, which rich would print unchanged."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render one line of output, including progress bars and tables."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(replace_invisible(text), style)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; the terminal alone wraps a line that is longer than it, such as a command."""
        super().print(*objects, crop=False, **options)

    def on_broken_pipe(self) -> None:
        """Stop printing once the reader has closed the pipe; keep the exit code."""
        self.quiet = True
        let_go(self.file)


# No markup and no emoji: "[/b]" or ":one:" in the name of a column, group or file is text.
out = SafeConsole(highlight=False, markup=False, emoji=False)
err = SafeConsole(stderr=True, highlight=False, markup=False, emoji=False)
terminal = Terminal(err)
working = terminal.working
asking = terminal.asking


def notes(*lines: str, style: str = "") -> None:
    """Print notes to standard error without wrapping; skip empty lines."""
    for line in filter(None, lines):
        err.print(line, style=style, soft_wrap=True)


def lines(*lines: str, style: str = "") -> None:
    """Print lines of a result to standard output without wrapping."""
    for line in lines:
        out.print(line, style=style, soft_wrap=True)


def write(text: str, is_json: bool = False) -> None:
    """Write a document to standard output, with control characters replaced."""
    if sys.stdout is None:  # closed by the caller (>&-)
        return
    try:
        safe = escape_invisible if is_json else replace_invisible
        sys.stdout.write(safe(text))
        sys.stdout.flush()
    except BrokenPipeError:
        let_go(sys.stdout)


@contextmanager
def printing_aside() -> Iterator[None]:
    """Within the `with` block, redirect standard output to standard error."""
    with redirect_stdout(sys.stderr):
        if (
            sys.__stdout__ is None or sys.__stderr__ is None
        ):  # closed by the caller: nothing to protect
            yield
            return
        sys.__stdout__.flush()
        stdout = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            sys.__stdout__.flush()
            os.dup2(stdout, 1)
            os.close(stdout)


def let_go(stream: IO[str]) -> None:
    """Discard further output to a stream without a reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
