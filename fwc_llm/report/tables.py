"""The report's table, a `Section`, and its ways to the terminal and to Markdown; the page has a template.

Builders (`sections`, `impact`, `probability`, …) make sections; a renderer knows nothing of what they say.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fwc_llm.report.format import DASH, interval, number, signed
from fwc_llm.untrusted import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")
_LONGEST = 40  # characters of a name in the terminal


@dataclass(frozen=True)
class Cell:
    """One value: its text, a `mark` behind it (≠, ≈, ~), and a `note` in smaller print, its interval say."""

    text: str
    note: str = ""
    mark: str = ""

    def __str__(self) -> str:
        marked = f"{self.text} {self.mark}" if self.mark else self.text
        return f"{marked} ({self.note})" if self.note else marked


Row = Sequence[Cell | str]


@dataclass(frozen=True)
class Section:
    """A titled table with a sentence above (`intro`) and `notes` below; `parts` are sections inside of it.

    The first `keys` columns name a row. `name` is that by which the page finds the charts that belong here.
    """

    title: str
    headings: Sequence[str] = ()
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    intro: str = ""
    keys: int = 1
    name: str = ""
    parts: Sequence["Section"] = field(default=())

    def __bool__(self) -> bool:
        """Whether there is anything to show: a row, a part that has one, or a sentence."""
        return bool(self.rows or any(self.parts) or (self.intro and not self.headings))


def valued(value: Mapping[str, Any], digits: int, scale: float = 1.0, mark: str = "") -> Cell:
    """Return a value with its interval; keys `value`, `low` and `high`."""
    ends = interval((value["low"], value["high"]), digits if scale == 1 else 1, scale)
    return Cell(number(value["value"], digits, scale), "" if ends == DASH else ends, mark)


def difference(test: Mapping[str, Any], digits: int, scale: float = 1.0) -> Cell:
    """Return a difference with its sign and interval; keys `difference`, `low` and `high`."""
    ends = interval((test.get("low"), test.get("high")), digits, scale)
    return Cell(signed(test["difference"], digits, scale), "" if ends == DASH else ends)


def terminal(section: Section) -> RenderableType:
    """Return a section, its parts below it, for rich to print."""
    parts: list[RenderableType] = [Text(section.title, style="bold")] if section.title else []
    parts += [Text(section.intro, style="dim")] if section.intro else []
    parts += [_Fitting(section)] if section.rows else []
    parts += [terminal(part) for part in section.parts if part]
    return Group(*parts, *(Text(note, style="dim") for note in section.notes))


def as_text(renderable: RenderableType, width: int = 120) -> str:
    """Return what rich would print, as plain text without colours; lines end where their text ends."""
    console = Console(width=width, force_terminal=False, force_jupyter=False, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def markdown(section: Section, level: int = 3) -> Iterator[str]:
    """Yield a section's lines as GitHub-flavoured Markdown; text from the data is escaped."""
    yield from (f"{'#' * level} {escaped(section.title)}", "")
    if section.intro:
        yield from (escaped(section.intro), "")
    if section.rows:
        yield f"| {' | '.join(map(escaped, section.headings))} |"
        yield "|---" + "|---:" * (len(section.headings) - 1) + "|"
        yield from (f"| {' | '.join(escaped(cell) for cell in row)} |" for row in section.rows)
        yield ""
    for part in section.parts:
        if part:
            yield from markdown(part, level + 1)
    if section.notes:
        yield from (*(f"- {escaped(note)}" for note in section.notes), "")


def escaped(value: Cell | str) -> str:
    """Return text on one line, with Markdown's own characters escaped."""
    return _MARKUP.sub(r"\\\1", visible(" ".join(str(value).split())))


def texts(rows: Iterable[Row]) -> list[list[str]]:
    """Return rows as plain texts."""
    return [[str(cell) for cell in row] for row in rows]


class _Fitting:
    """A section's table as wide as the terminal allows; else turned, with a column for each row.

    What belongs to one row stays together: where all do not fit beside each other, the rest follow in a
    table of their own.
    """

    def __init__(self, section: Section) -> None:
        rows, keys = texts(section.rows), section.keys
        self.keys, self.headings = keys, [_short(heading) for heading in section.headings]
        self.rows = [[*map(_short, row[:keys]), *row[keys:]] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update_width(10_000)

        def fits(table: Table) -> bool:
            return Measurement.get(console, unlimited, table).maximum <= options.max_width

        whole = self._table()
        if fits(whole) or len(self.headings) == self.keys:
            yield whole
            return
        start = 0
        while start < len(self.rows):
            end = start + 1
            while end < len(self.rows) and fits(self._turned(start, end + 1)):
                end += 1
            yield self._turned(start, end)
            start = end

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, heading in enumerate(self.headings):
            side: Any = "right" if place >= self.keys else "left"
            table.add_column(Text(heading), justify=side, no_wrap=True, style="" if place else "bold")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def _turned(self, start: int, end: int) -> Table:
        """The rows from start to end as columns; an interval stands on a line of its own."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("", style="bold", overflow="fold")
        for row in self.rows[start:end]:
            table.add_column(Text(" · ".join(row[: self.keys])), justify="right", overflow="fold")
        for place in range(self.keys, len(self.headings)):
            cells = [self.headings[place], *(row[place] for row in self.rows[start:end])]
            table.add_row(*(Text(cell.replace(" (", "\n(")) for cell in cells))
        return table


def _short(name: str) -> str:
    shown = visible(name)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
