"""Progress of long steps: text and a bar in a notebook or on a terminal, plain lines in a file or a pipe.

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


_LINE_SECONDS = 5.0  # between two lines where nothing can be overwritten


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

    @property
    def cost(self) -> float | None:
        """Dollars so far; None where it is not known."""


def in_words(seconds: float) -> str:
    """A duration as one says it: 40 s, 3 min, 2.5 h."""
    if seconds < 100.0:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 100 * 60.0 else f"{seconds / 3600:.1f} h"


def asked_words(state: State, total: int) -> list[str]:
    """How far the questions have come: rate, errors, cost, time left, as far as there is something to say."""
    words = [f"{state.rate:.0f}/s" if state.rate >= 10 else f"{state.rate:.1f}/s"]
    if state.errors:
        words.append(f"{state.errors:,} without reply")
    if state.cost is not None:
        words.append(f"${state.cost:.2f}" if state.cost >= 1 else f"${state.cost:.4f}")
    left = total - state.done - state.errors - state.skipped
    if state.rate > 0 and left > 0:
        words.append(f"{in_words(left / state.rate)} left")
    return words


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
    """Shows a spinner and a bar on a terminal; where the output goes elsewhere, a plain line now and then."""

    def __init__(self, console: "Console", seconds: float = _LINE_SECONDS) -> None:
        self._console, self._seconds = console, seconds

    @contextmanager
    def working(self, words: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner; it vanishes at the end."""
        if not self._console.is_terminal:
            yield self._line_now_and_then()
            return
        from rich.text import Text

        with self._console.status(Text(words)) as status:
            yield lambda words: status.update(Text(words))

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[State], None]]:
        """Show a bar with rate, errors, cost and time left; it vanishes at the end."""
        if not self._console.is_terminal:
            write = self._line_now_and_then()
            yield lambda state: write(_asked_line(state, total))
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(bar_width=20),) if self._console.width >= 80 else ()
        with Progress(
            *columns, MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
            console=self._console, transient=True,
        ) as bar:  # fmt: skip
            task = bar.add_task("asking", total=total, words="")
            yield lambda state: bar.update(
                task,
                completed=state.done + state.errors + state.skipped,
                words=" · ".join(asked_words(state, total)),
            )

    def say(self, line: str) -> None:
        """Print the line."""
        self._console.print(line)

    def _line_now_and_then(self) -> Callable[[str], None]:
        """Return a function that prints a line unless it printed one a few seconds ago."""
        latest = time.monotonic()

        def write(line: str) -> None:
            nonlocal latest
            if time.monotonic() - latest >= self._seconds:
                latest = time.monotonic()
                self._console.print(line, soft_wrap=True)

        return write


def _asked_line(state: State, total: int) -> str:
    passed = state.done + state.errors + state.skipped
    return f"asked {passed:,} of {total:,} ({', '.join(asked_words(state, total))})"


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
            self._show(" · ".join([f"{passed:,} of {total:,}", *asked_words(state, total)]), drawn)

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
