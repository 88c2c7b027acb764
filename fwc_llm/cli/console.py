"""Where the commands print: results to standard output, everything about the work to standard error."""

import os
import sys
from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fwc_llm.progress import Terminal
from fwc_llm.untrusted import visible, visible_json


class SafeConsole(Console):
    """A console on which no text can steer the terminal: rich itself lets escape sequences through."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is printed, also by progress bars and tables, comes through here."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control or text.isprintable() else Segment(visible(text), style)

    def on_broken_pipe(self) -> None:
        """Whoever read the output has gone (`fwc-llm eval | head`): go on quietly, to the right exit code."""
        self.quiet = True
        let_go(self.file)


# No markup: names of columns, groups and files are printed, and "[/b]" in one is text.
out = SafeConsole(soft_wrap=False, markup=False)
err = SafeConsole(stderr=True, highlight=False, markup=False)
_shown = Terminal(err)
working = _shown.working
asking = _shown.asking


def write(text: str, is_json: bool = False) -> None:
    """Write a document to standard output as it is, but for what would steer a terminal."""
    try:
        sys.stdout.write(visible_json(text) if is_json else visible(text))
        sys.stdout.flush()
    except BrokenPipeError:
        let_go(sys.stdout)


def let_go(stream: IO[str]) -> None:
    """Send what is still written to a stream that nobody reads to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
