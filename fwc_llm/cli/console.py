"""The commands' output: results to standard output, everything about the work to standard error."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fwc_llm.progress import Terminal
from fwc_llm.sanitize import escape_invisible, replace_invisible


class SafeConsole(Console):
    """A console whose text cannot control the terminal: rich itself prints escape sequences."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All output passes through here, that of progress bars and tables too."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(replace_invisible(text), style)

    def on_broken_pipe(self) -> None:
        """The reader has closed the pipe (`fwc-llm eval | head`): stop printing, keep the exit code."""
        self.quiet = True
        let_go(self.file)


# No markup: names of columns, groups and files are printed, and "[/b]" in one is text.
out = SafeConsole(highlight=False, markup=False)
err = SafeConsole(stderr=True, highlight=False, markup=False)
shown = Terminal(err)
working = shown.working
asking = shown.asking


def notes(*lines: str, style: str = "") -> None:
    """Print lines about the work to standard error, whole; empty ones are left out."""
    for line in filter(None, lines):
        err.print(line, style=style, soft_wrap=True)


def lines(*lines: str, style: str = "") -> None:
    """Print lines of a result to standard output; none is broken."""
    for line in lines:
        out.print(line, style=style, soft_wrap=True)


def write(text: str, is_json: bool = False) -> None:
    """Write a document to standard output; characters that control a terminal are made visible."""
    if sys.stdout is None:  # closed by whoever started this (>&-)
        return
    try:
        sys.stdout.write(escape_invisible(text) if is_json else replace_invisible(text))
        sys.stdout.flush()
    except BrokenPipeError:
        let_go(sys.stdout)


@contextmanager
def printing_aside() -> Iterator[None]:
    """Within this, what a user's function prints, also by a process or a library, goes to standard error."""
    with redirect_stdout(sys.stderr):
        if sys.__stdout__ is None or sys.__stderr__ is None:  # closed by the caller: there is no document
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
    """Discard further output to a stream that has no reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
