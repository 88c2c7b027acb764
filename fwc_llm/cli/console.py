"""Where the commands print: results to standard output, everything about the work to standard error."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from fwc_llm.untrusted import visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from fwc_llm.runs.execute import Progress as RunProgress


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


@contextmanager
def working(text: str) -> "Iterator[Callable[[str], None]]":
    """A spinner while something is worked out; call the value to change its words."""
    with err.status(Text(text)) as status:
        yield lambda words: status.update(Text(words))


@contextmanager
def asking(total: int) -> "Iterator[Callable[[RunProgress], None]]":
    """A progress bar with rate and errors while a model is asked."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f}/s"),
        TextColumn("{task.fields[errors]} without reply", style="red"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("asking", total=total, rate=0.0, errors=0)

        def update(state: "RunProgress") -> None:
            bar.update(task, completed=state.done, rate=state.rate, errors=state.errors)

        yield update
