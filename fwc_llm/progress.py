"""Progress of long steps: text and a bar in a notebook or on a terminal, plain lines in a file or a pipe.

`choose` decides where. `working` and `asking` are context managers; each yields a function for updates.
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fwc_llm.notebook import element, in_notebook, join

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 5.0  # between two lines where nothing can be overwritten


@dataclass(frozen=True)
class Progress:
    """Where a run stands. `total` is None when unknown; `rate` is requests a second since it started.

    `done` questions have a reply, `errors` none; `skipped` were answered before. `cost` is what the run has
    cost so far, earlier passes included, in dollars; None where no price is known.
    """

    done: int
    errors: int
    skipped: int
    total: int | None
    rate: float
    cost: float | None = None

    @property
    def passed(self) -> int:
        """Questions that need not be asked any more."""
        return self.done + self.errors + self.skipped

    def words(self, total: int) -> list[str]:
        """Return rate, errors, cost and time left, as far as there is something to say."""
        words = [f"{self.rate:.0f}/s" if self.rate >= 10 else f"{self.rate:.1f}/s"]
        if self.errors:
            words.append(f"{self.errors:,} without reply")
        if self.cost is not None:
            words.append(f"${self.cost:.2f}" if self.cost >= 1 else f"${self.cost:.4f}")
        if self.rate > 0 and total > self.passed:
            words.append(f"{_in_words((total - self.passed) / self.rate)} left")
        return words


def _in_words(seconds: float) -> str:
    """Return a duration as people say it: 40 s, 3 min, 2.5 h."""
    if seconds < 100.0:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 100 * 60.0 else f"{seconds / 3600:.1f} h"


class Silent:
    """Shows nothing; the interface of the other two."""

    @contextmanager
    def working(self, words: str) -> Iterator[Callable[[str], None]]:
        """Show these words during a step; call the value to change them."""
        yield lambda words: None

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[Progress], None]]:
        """Show how many of `total` questions are answered; call the value with the state."""
        yield lambda state: None

    def say(self, line: str) -> None:
        """Show a line that stays."""


def choose(progress: bool | None = None) -> Silent:
    """Return where to show progress: in a notebook, on a terminal's standard error, or nowhere.

    `progress` False shows nothing anywhere; True writes to standard error even when that is no terminal.
    """
    if progress is False:
        return Silent()
    if in_notebook():
        return Notebook()
    if progress or (sys.stderr is not None and sys.stderr.isatty()):
        from rich.console import Console

        return Terminal(Console(stderr=True, highlight=False, markup=False))
    return Silent()


class Terminal(Silent):
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
    def asking(self, total: int) -> Iterator[Callable[[Progress], None]]:
        """Show a bar with rate, errors, cost and time left; it vanishes at the end."""
        if not self._console.is_terminal:
            write = self._line_now_and_then()
            yield lambda s: write(f"asked {s.passed:,} of {total:,} ({', '.join(s.words(total))})")
            return
        from rich import progress

        columns = (progress.BarColumn(bar_width=20),) if self._console.width >= 80 else ()
        with progress.Progress(
            *columns, progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[words]}"),
            console=self._console, transient=True,
        ) as bar:  # fmt: skip
            task = bar.add_task("asking", total=total, words="")
            yield lambda s: bar.update(task, completed=s.passed, words=" · ".join(s.words(total)))

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


class Notebook(Silent):
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
    def asking(self, total: int) -> Iterator[Callable[[Progress], None]]:
        """Show a bar, then how many questions were asked."""
        began, latest = time.monotonic(), Progress(0, 0, 0, total, 0.0)

        def change(state: Progress) -> None:
            nonlocal latest
            latest = state
            bar = element("progress", value=state.passed, max=total, style="margin-right:.6em")
            self._show(" · ".join([f"{state.passed:,} of {total:,}", *state.words(total)]), bar)

        yield change
        without = f", {latest.errors:,} without reply" if latest.errors else ""
        asked = latest.done + latest.errors
        self._show(f"{asked:,} questions asked{without}: {time.monotonic() - began:.1f} s")

    def say(self, line: str) -> None:
        """Show the line above the one that changes."""
        self._lines.append(line)
        self._show(*self._now)

    def _show(self, words: str, bar: str = "") -> None:
        self._now = words, bar
        lines = [*(element("div", line) for line in self._lines), element("div", bar, words)]
        bundle = {"text/html": str(join(lines)), "text/plain": "\n".join([*self._lines, words])}
        if self._output is None:
            show = importlib.import_module("IPython.display").display
            self._output = show(bundle, raw=True, display_id=True)
        else:
            self._output.update(bundle, raw=True)
