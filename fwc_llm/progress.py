"""Progress of long steps: text and a bar, in a notebook or on a terminal.

`choose` decides where. `working` and `asking` are context managers; each yields a function for updates.
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fwc_llm.notebook import element, join, shell

if TYPE_CHECKING:
    from rich.console import Console


class State(Protocol):
    """Counts of a run's questions so far."""

    @property
    def done(self) -> int:
        """Questions with a reply."""

    @property
    def errors(self) -> int:
        """Questions that got no reply."""

    @property
    def skipped(self) -> int:
        """Questions that were answered before."""

    @property
    def rate(self) -> float:
        """Questions a second."""


class Display(Protocol):
    """A place that shows progress."""

    def working(self, words: str) -> AbstractContextManager[Callable[[str], None]]:
        """Show these words during a step; call the value to change them."""

    def asking(self, total: int) -> AbstractContextManager[Callable[[State], None]]:
        """Show how many of `total` questions are answered; call the value with the state."""

    def say(self, line: str) -> None:
        """Show a line that stays."""


def choose(progress: bool | None = None) -> Display:
    """Return where to show progress: in a notebook, on a terminal's standard error, or nowhere.

    `progress` False shows nothing anywhere; True writes to standard error even when that is no terminal.
    """
    if progress is False:
        return Silent()
    if shell() is not None:
        return Notebook()
    if progress or (sys.stderr is not None and sys.stderr.isatty()):
        from rich.console import Console

        return Terminal(Console(stderr=True, highlight=False, markup=False))
    return Silent()


class Silent:
    """Shows nothing."""

    @contextmanager
    def working(self, words: str) -> Iterator[Callable[[str], None]]:
        """Show nothing."""
        yield lambda words: None

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[State], None]]:
        """Show nothing."""
        yield lambda state: None

    def say(self, line: str) -> None:
        """Show nothing."""


class Terminal:
    """Shows a spinner and a bar on a terminal."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    @contextmanager
    def working(self, words: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner; it vanishes at the end."""
        from rich.text import Text

        with self._console.status(Text(words)) as status:
            yield lambda words: status.update(Text(words))

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[State], None]]:
        """Show a bar with rate and errors; it vanishes at the end."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.0f}/s"),
            TextColumn("{task.fields[errors]} without reply", style="red"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("asking", total=total, rate=0.0, errors=0)
            yield lambda state: bar.update(
                task,
                completed=state.done + state.errors + state.skipped,
                rate=state.rate,
                errors=state.errors,
            )

    def say(self, line: str) -> None:
        """Print the line."""
        self._console.print(line)


class Notebook:
    """Shows one line, which changes in place, below the cell; it needs no widgets.

    At the end the line says what was done and how long it took.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._now = "", ""
        self._output: Any = None

    @contextmanager
    def working(self, words: str) -> Iterator[Callable[[str], None]]:
        """Show the step, then how long it took."""
        began, latest = time.monotonic(), words

        def change(words: str) -> None:
            nonlocal latest
            latest = words
            self._show(f"{words} …")

        change(words)
        yield change
        self._show(f"{latest}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[State], None]]:
        """Show a bar, then how many questions were asked."""
        began, done, errors = time.monotonic(), 0, 0

        def change(state: State) -> None:
            nonlocal done, errors
            done, errors = state.done, state.errors
            passed = done + errors + state.skipped
            drawn = element("progress", value=passed, max=total, style="margin-right:.6em")
            self._show(f"{passed:,} of {total:,} · {state.rate:.0f}/s", drawn)

        yield change
        without = f", {errors:,} without reply" if errors else ""
        self._show(f"{done + errors:,} questions asked{without}: {time.monotonic() - began:.1f} s")

    def say(self, line: str) -> None:
        """Show the line above the one that changes."""
        self._lines.append(line)
        self._show(*self._now)

    def _show(self, words: str, drawn: str = "") -> None:
        self._now = words, drawn
        lines = [*(element("div", line) for line in self._lines), element("div", drawn, words)]
        bundle = {"text/html": str(join(lines)), "text/plain": "\n".join([*self._lines, words])}
        if self._output is None:
            show = importlib.import_module("IPython.display").display
            self._output = show(bundle, raw=True, display_id=True)
        else:
            self._output.update(bundle, raw=True)
