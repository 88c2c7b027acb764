"""Progress of long steps: one changing line, or plain lines in pipes and files."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fwc_llm.notebook import in_notebook
from fwc_llm.notices import Say

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = (
    60.0  # least time between two plain lines, where no line can be overwritten
)


@dataclass(frozen=True)
class Progress:
    """Progress of a run, in numbers of questions."""

    done: int  # with a reply
    errors: int  # ended without a reply
    skipped: int  # answered in an earlier pass
    total: int | None
    rate: float  # recent requests per second
    cost: float | None = (
        None  # dollars so far, earlier passes included; None without a known price
    )
    pause: float = 0.0  # seconds until the service may be asked again, after status 429
    answers: Mapping[str, int] = field(
        default_factory=dict
    )  # so far: yes, no and unread
    waiting: int = 0  # requests without a reply yet

    def line(self, total: int) -> str:
        """The text of one line: questions asked, rate, errors, cost, time left and answers."""
        passed = self.done + self.errors + self.skipped
        words = [
            f"{self.rate:.{int(self.rate < 10)}f}/s"
            if self.rate >= 1
            else f"{60 * self.rate:.2g}/min"
        ]
        if self.errors:
            words.append(f"{self.errors:,} without reply")
        if self.cost is not None:
            words.append(f"${self.cost:.2f}" if self.cost >= 1 else f"${self.cost:.4f}")
        if self.rate > 0 and total > passed:
            left = timedelta(seconds=round((total - passed) / self.rate))
            words.append(f"{left} left")
        counts = [
            f"{number:,} {name}" for name, number in self.answers.items() if number
        ]
        counts += [f"{self.waiting:,} waiting"] * bool(self.waiting)
        answers = f": {', '.join(counts)}" * bool(counts)
        waits = (
            f"; waiting for the service's limit (429), next try in {self.pause:.0f} s"
        )
        return (
            f"asked {passed:,} of {total:,} "
            f"({', '.join(words)}){answers}{waits if self.pause >= 1.0 else ''}"
        )


class Silent:
    """Shows nothing; base class of `Terminal` and `Notebook`."""

    @contextmanager
    def working(self, words: str) -> Iterator[Say]:
        """Show `words` during a step; call the yielded function to change them."""
        yield lambda words: None

    @contextmanager
    def asking(self, total: int) -> Iterator[Callable[[Progress], None]]:
        """Show a count of `total` questions; call the yielded function with a `Progress`."""
        with self.working(f"asking {total:,} questions") as change:
            yield lambda state: change(state.line(total))


def choose(progress: bool | None = None) -> Silent:
    """The display; False means `Silent`, True outside notebooks `Terminal`."""
    if progress is False:
        return Silent()
    if in_notebook():
        return Notebook()
    if progress or (sys.stderr is not None and sys.stderr.isatty()):
        from rich.console import Console

        return Terminal(
            Console(stderr=True, highlight=False, markup=False, emoji=False)
        )
    return Silent()


class Terminal(Silent):
    """Shows a line with a spinner; in a pipe or file, plain lines at intervals."""

    def __init__(self, console: "Console", seconds: float = _LINE_SECONDS) -> None:
        self._console, self._seconds = console, seconds

    @contextmanager
    def working(self, words: str) -> Iterator[Say]:
        """Show `words` until the step ends, then remove them."""
        from rich.text import Text

        latest = time.monotonic()

        def print_now_and_then(words: str) -> None:
            nonlocal latest
            if time.monotonic() - latest >= self._seconds:
                latest = time.monotonic()
                self._console.print(words, soft_wrap=True)

        if not self._console.is_terminal:
            yield print_now_and_then
            return
        with self._console.status(Text(words)) as status:
            yield lambda words: status.update(Text(words))


class Notebook(Silent):
    """Shows one line that changes in place below the cell, without widgets."""

    def __init__(self) -> None:
        self._output: Any = None

    @contextmanager
    def working(self, words: str) -> Iterator[Say]:
        """Show the step; when it ends, show its duration."""
        began = time.monotonic()
        latest = words

        def change(words: str) -> None:
            nonlocal latest
            latest = words
            self._show(f"{words} …")

        change(words)
        yield change
        self._show(f"{latest}: {time.monotonic() - began:.1f} s")

    def _show(self, words: str) -> None:
        bundle = {"text/plain": words}
        if self._output is None:
            show = import_module("IPython.display").display
            self._output = show(bundle, raw=True, display_id=True)
        else:
            self._output.update(bundle, raw=True)
