"""Table rows for templates, as words or raw values; cells cannot inject messages.

The text of a cell is untrusted. A template gets it on one line, without control, bidirectional or
invisible characters. The marks by which chat servers separate messages, any brackets, bars or
angles around a word (`<|im_start|>`, `<s>`, `[INST]`), are broken by a space. So a cell cannot
begin a new line, message or example.
"""

import re
import unicodedata
from collections.abc import Collection
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from fwc_llm.cell_rules import as_number, is_null
from fwc_llm.errors import FwcError
from fwc_llm.sanitize import Fields
from fwc_llm.words import UNKNOWN

if TYPE_CHECKING:
    from fwc_llm.taskfile import Column
    from fwc_llm.tasks import Task

_PLAIN = re.compile(
    r"[ !-;=-Z\\\]^-z}~¡-¬®-ɏ]*"
)  # most cells: nothing to clean, no opening mark
_JOINERS = "\u200c\u200d"  # parts of words in Persian and Indic scripts, and of emoji
# Whatever a chat server writes around a word: <s>, <|im_start|>, <<SYS>>, [INST], [|user|],
# {{user}}, |user|.
_MESSAGE_MARKS = re.compile(
    r"[<⟨＜〈《‹❮◁⟪](?=[|｜/<⟨＜〈]*[^\W\d])"
    r"|[\[{【［｛⟦〔](?=[\[{【［｛⟦|｜/#]*[^\W\d][\w-]{2,40}[|｜/~]*[\]}】］｝⟧〕])"
    r"|[|｜](?=[^\W\d][\w-]{1,40}[|｜])"
)


@lru_cache(4096)
def clean(text: str) -> str:
    """`text` as one line of visible characters without any mark of a chat server."""
    if _PLAIN.fullmatch(text):
        return text
    return _MESSAGE_MARKS.sub(r"\g<0> ", "".join(map(_visible, text)))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    if category == "Cf" and character not in _JOINERS:
        return ""
    return character


class ColumnFormatter:
    """Formats the values of one column, in words or raw."""

    def __init__(self, column: "Column") -> None:
        self.name = column.name
        self.text = clean(column.text)
        self._unit = f" {column.unit}" if column.unit else ""
        self._words_by_text = dict(column.values)
        numbers = (
            (as_number(text), clean(words)) for text, words in column.values.items()
        )
        self._words_by_number = {
            number: words for number, words in numbers if number is not None
        }

    def words(self, value: Any) -> str:
        """The value in words ("40 hours"); a value outside the map stays as it is."""
        if type(value) is str:
            words = self._words_by_text.get(value)
            if words is not None or value == UNKNOWN:
                return clean(words or value)
            return clean(value) + self._unit
        plain = self.raw(value)
        if isinstance(plain, str):
            return self.words(plain)
        if self._words_by_number and plain in self._words_by_number:
            return self._words_by_number[plain]
        return f"{plain}{self._unit}"

    def raw(self, value: Any) -> int | float | str:
        """The cleaned text or the number (int if whole); `FwcError` if missing."""
        if type(value) is int:
            return value
        if getattr(value, "shape", None) == ():
            value = value.item()  # a numpy scalar
        if is_null(value):
            remedy = "fill it in, or set a missing rule in the task"
            raise FwcError(f"the row has no value for {self.name!r}: {remedy}")
        if isinstance(value, bool) or not isinstance(value, Real | Decimal):
            return clean(str(value))
        number = float(value)
        if number.is_integer():
            return int(number)
        return number


class ShownColumns:
    """The columns that prompts may show: not the outcome, not those in `without`."""

    def __init__(self, task: "Task", without: Collection[str] = ()) -> None:
        self.task = task.name
        self.outcome = task.outcome
        self.without = frozenset(without)
        self.by_name = {
            column.name: ColumnFormatter(column)
            for column in task.shown
            if column.name not in self.without
        }
        self.extras = frozenset(
            column.name for column in task.shown if column.role == "extra"
        )
        self.described = tuple(
            cell for name, cell in self.by_name.items() if name not in self.extras
        )

    def absent(self, name: str) -> str:
        """Explain why a template cannot show the column `name` of a row."""
        if name == self.outcome:
            return f"{name!r} is the outcome of task {self.task!r}: no template may show it"
        if name in self.without:
            around = f'write {{% if "{name}" in row %}} around it'
            return f"`removal` takes {name!r} out of the texts, and the template shows it: {around}"
        if name not in self.by_name:
            return f"task {self.task!r} has no column {name!r}; it has {', '.join(self.by_name)}"
        return f"the row lacks the attribute {name!r}, which prompts for task {self.task!r} show"


class ShownRow:
    """A row in a template: `row["age"]`, `row.raw["age"]`, `row.attributes`."""

    __slots__ = ("_cells", "_form", "_values")

    def __init__(
        self,
        cells: ShownColumns,
        values: Fields,
        form: Literal["words", "raw"] = "words",
    ) -> None:
        self._cells = cells
        self._values = values
        self._form = form

    def __contains__(self, name: object) -> bool:
        """Whether a template may show the column; False if `removal` omits it."""
        return name in self._cells.by_name and name in self._values

    def __getitem__(self, name: str) -> int | float | str:
        try:
            cell = self._cells.by_name[name]
            value = self._values[name]
        except KeyError:
            raise FwcError(self._cells.absent(name)) from None
        if self._form == "words":
            return cell.words(value)
        return cell.raw(value)

    @property
    def raw(self) -> "ShownRow":
        """The row without value maps and units: numbers, or cleaned texts."""
        return ShownRow(self._cells, self._values, "raw")

    @property
    def attributes(self) -> list[tuple[str, str]]:
        """(name, value) of each column in words, in file order, without the role extra."""
        values = self._values
        try:
            return [
                (cell.text, cell.words(values[cell.name]))
                for cell in self._cells.described
            ]
        except KeyError as missing:
            raise FwcError(self._cells.absent(str(missing.args[0]))) from None


def decimal(value: int | float | str) -> str:
    """Template filter: a number as a float, 21 as "21.0"; any other value unchanged."""
    try:
        return repr(float(value))
    except ValueError:
        return str(value)
