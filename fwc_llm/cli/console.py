"""Where the commands print: results to standard output, everything about the work to standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from fwc_llm.runs.execute import Progress as RunProgress

# No markup: names of columns, groups and files are printed, and "[/b]" in one is text.
out = Console(soft_wrap=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


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
