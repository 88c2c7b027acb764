"""`Section`, the report's table, for terminal, Markdown and notebook."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fwc_llm.gates.sentences import cut
from fwc_llm.metrics.counts import Metric
from fwc_llm.metrics.records import Record
from fwc_llm.notebook import figure, note, table
from fwc_llm.number_format import DASH, interval, number, signed
from fwc_llm.sanitize import Json, replace_invisible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")
_NARROW = 8  # characters of a cell that stays on one line
_WIDE = 24  # characters of a line in a cell
_NEXT_LINE = re.compile(r" (?=\()|(?<=,) (?!%)")
_MOST_NAMED = 3  # most groups that a picture names
_MOST_ROWS, _MOST_NOTES = 100, 20  # of one table


@dataclass(frozen=True)
class TableCell:
    """A value with its interval, and the numbers of a chart in the cell."""

    text: str
    note: str = ""  # such as an interval
    plotted: tuple[float, float, float] | None = (
        None  # low, value, high; NaN where unknown
    )
    # Of a picture of groups: name ("" for none), rate, rate of true answers.
    dots: Sequence[tuple[str, float, float | None]] = ()

    def __str__(self) -> str:
        if self.note:
            return f"{self.text} ({self.note})"
        return self.text


Row = Sequence[TableCell | str]
Cells = list[TableCell | str]


@dataclass(frozen=True)
class Scale:
    """The axis of a column's charts."""

    low: float
    high: float
    line: float | None = None  # where a dashed line is
    factor: float = 1.0  # of the ends in the heading

    def at(self, value: float) -> float:
        """The position of a value in percent of the axis, from 0 to 100."""
        return round(
            100 * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 2
        )


@dataclass(frozen=True)
class Section:
    """A titled table with `intro` above, `notes` below, and nested `parts`."""

    title: str
    headings: Sequence[str] = ()
    rows: Sequence[Row] = ()
    notes: Sequence[str] = ()
    intro: str = ""
    keys: int = 1  # the first columns, which name a row
    name: str = ""  # CSS class on the page
    parts: Sequence["Section"] = ()
    scales: Mapping[int, Scale] = field(default_factory=dict)  # axes by index of column

    def __post_init__(self) -> None:
        total = len(self.rows)
        if total > _MOST_ROWS:
            line = f"The first {_MOST_ROWS} of {total:,} rows are shown; the JSON document has all."
            object.__setattr__(self, "rows", self.rows[:_MOST_ROWS])
            object.__setattr__(self, "notes", [line, *self.notes])
        more = len(self.notes) - _MOST_NOTES
        if more > 0:
            kept = [*self.notes[:_MOST_NOTES], f"… and {more:,} more such notes"]
            object.__setattr__(self, "notes", kept)

    def plain(self) -> Json:
        """The texts of the section, for JSON."""
        names = "title", "intro", "headings", "notes", "parts"
        found = {name: getattr(self, name) for name in names}
        return {**found, "rows": texts(self.rows)}

    def __bool__(self) -> bool:
        """Whether the section has rows, a non-empty part, or only a sentence to show."""
        return bool(self.rows or any(self.parts) or (self.intro and not self.headings))


def valued(
    record: Record, digits: int = 1, scale: float = 100.0, limits: Iterable[float] = ()
) -> TableCell:
    """A cell with a record's value and its interval, which is judged by `limits`."""
    ends = interval(record.ends, digits, scale, limits)
    plotted = record.low, record.value, record.high
    note = "" if ends == DASH else ends
    return TableCell(number(record.value, digits, scale), note, plotted)


def metric_cell(
    record: Record, metric: Metric, limits: Iterable[float] = ()
) -> TableCell:
    """A cell with a metric's value and the interval that was judged, by `limits`."""
    return valued(record, metric.digits, metric.scale, limits)


def rates_cell(
    rates: Mapping[str, float],
    true: Mapping[str, float] = {},
    unknown: Iterable[str] = (),
) -> TableCell:
    """Each group's rate of yes, lowest first, beside the rates of true answers.

    `unknown` are texts on groups that are not known, which have no dot. Of many groups the line has
    as many dots as a table has rows, evenly by rank.
    """
    order = sorted(rates, key=rates.__getitem__)
    ends = order if len(order) <= _MOST_NAMED else [order[0], order[-1]]
    text = ", ".join(f"{name} {number(rates[name], 1, 100)}" for name in ends)
    step = -(-len(order) // _MOST_ROWS) or 1
    drawn = dict.fromkeys([*order[::step], *order[-1:]])
    dots = [
        (name if name in ends else "", rates[name], true.get(name)) for name in drawn
    ]
    return TableCell("; ".join([text or DASH, *unknown]), dots=dots)


def difference(record: Record, digits: int = 1, scale: float = 100.0) -> TableCell:
    """A cell with a signed value, and its interval."""
    cell = valued(record, digits, scale)
    return replace(cell, text=signed(record.value, digits, scale))


def terminal(section: Section) -> RenderableType:
    """A section and its parts, for rich to print."""
    parts: list[RenderableType] = (
        [Text(section.title, style="bold")] if section.title else []
    )
    parts += [Text(section.intro, style="dim")] if section.intro else []
    parts += [_Fitting(section)] if section.rows else []
    parts += [terminal(part) for part in section.parts if part]
    return Group(*parts, *(Text(note, style="dim") for note in section.notes))


def as_text(renderable: RenderableType, width: int = 120) -> str:
    """Render as plain text, without colours and trailing spaces."""
    console = Console(
        width=width, force_terminal=False, force_jupyter=False, color_system=None
    )
    with console.capture() as captured:
        console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def notebook(title: str, *sections: Section, **marks: bool) -> str:
    """Tables and notes of sections as HTML; `marks` are those of `figure`."""
    tables = [section for section in sections if section]
    parts = [
        table(section.headings, texts(section.rows))
        for section in tables
        if section.rows
    ]
    return figure(
        title,
        *parts,
        *(note(text) for section in tables for text in section.notes),
        **marks,
    )


def markdown(section: Section, level: int = 3) -> Iterator[str]:
    """Yield a section's lines as GitHub-flavoured Markdown; all text is escaped."""
    yield from (f"{'#' * level} {escaped(section.title)}", "")
    if section.intro:
        yield from (escaped(section.intro), "")
    if section.rows:
        yield f"| {' | '.join(map(escaped, section.headings))} |"
        yield "|---" + "|---:" * (len(section.headings) - 1) + "|"
        yield from (
            f"| {' | '.join(escaped(cell) for cell in row)} |" for row in section.rows
        )
        yield ""
    for part in section.parts:
        if part:
            yield from markdown(part, level + 1)
    if section.notes:
        yield from (*(f"- {escaped(note)}" for note in section.notes), "")


def escaped(value: TableCell | str) -> str:
    """Text on one line, with Markdown's special characters escaped."""
    return _MARKUP.sub(r"\\\1", replace_invisible(" ".join(str(value).split())))


def texts(rows: Iterable[Row]) -> list[list[str]]:
    """The cells of rows as plain texts."""
    return [[str(cell) for cell in row] for row in rows]


@dataclass(frozen=True)
class _Fitting:
    """A table that, if too wide, stacks intervals, then splits into several tables."""

    section: Section

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        keys = self.section.keys
        rows = [
            [*map(_short, row[:keys]), *row[keys:]] for row in texts(self.section.rows)
        ]
        headings = [*map(_short, self.section.headings)]
        columns = [*zip(headings, *rows, strict=True)]
        first, others = columns[:keys], columns[keys:]
        unlimited = options.update_width(10_000)

        def fits(table: Table) -> bool:
            width = Measurement.get(console, unlimited, table).maximum
            return width <= options.max_width

        whole = self._table(columns, stacked=False)
        if fits(whole) or not others:
            yield whole
            return
        while others:
            n = 1
            while n < len(others) and fits(self._table([*first, *others[: n + 1]])):
                n += 1
            yield self._table([*first, *others[:n]])
            others = others[n:]

    def _table(self, columns: Sequence[Sequence[str]], stacked: bool = True) -> Table:
        """A table of columns, each with its heading first."""
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True
        )
        written = _stacked if stacked else str
        headings, *rows = zip(*columns, strict=True)
        for position, heading in enumerate(headings):
            side: Any = {"style": "bold"} if position == 0 else {}
            if position >= self.section.keys:
                side |= {"justify": "right", "overflow": "fold"}
            table.add_column(Text(written(heading)), no_wrap=not stacked, **side)
        for row in rows:
            table.add_row(*(Text(written(cell)) for cell in row))
        return table


def _stacked(cell: str) -> str:
    """A cell on several lines: intervals and entries of lists on lines of their own."""
    if len(cell) <= _NARROW:
        return cell
    lines = _NEXT_LINE.sub("\n", cell).splitlines()
    return "\n".join(fill(line, _WIDE, break_long_words=False) for line in lines)


def _short(name: str) -> str:
    return cut(replace_invisible(name))
