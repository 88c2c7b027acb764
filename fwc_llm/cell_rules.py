"""Rules for cells: typed value to text, text to number, text to the task's value.

The loader applies these rules to whole columns (`data.clean_table`), and `clean_record` to one row.
This module imports neither pandas nor numpy, which keeps a service that only builds prompts small.
"""

import json
import operator
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args

from pydantic import field_serializer

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.sanitize import Fields, Json, Texts, listed, parse_json, utf8_safe
from fwc_llm.taskfile import (
    UNKNOWN,
    Column,
    FileColumn,
    Number,
    Protected,
    RowFilter,
    TaskFile,
    Written,
)
from fwc_llm.validation import Checked
from fwc_llm.words import DATE, group_key, is_unknown_category
from fwc_llm.words import as_number as as_number

# May surround a number: a currency's sign, code or word, a per cent sign, spaces.
_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|CAD|AUD|NZD|BRL|MXN|ZAR"
    "|TRY|RUB|KRW|ILS"
    "|DM|kr|Kr|zł|Fr|Rs"
)
_WORDS = "(?i:eur|euros?|dollars?)"
_AROUND = rf"(?:(?:{_CODES})\.?|{_WORDS}|[A-Z]{{0,3}}[$€£¥]|[₹₩₽₺¢%])?"
_IGNORED = re.compile(_AROUND)
# Around numbers that a table cut off, rounded or has a note on
_MARKS = (
    "<|>|≤|≥|=|+|*|~|≈|†|‡|ca.|circa|approx.|about|around|etwa|rund|env.|environ|under|over|up to"
    "|unter|über|bis|plus|min.|max.|at least|at most|less than|more than|mindestens|höchstens"
    "|mehr als|weniger als|plus de|moins de|nearly|almost|fast|knapp"
    "|or more|or less|and over|and older|und mehr|und älter|et plus"
)
MARKS = tuple(_MARKS.split("|"))
_SHOWN = 8  # texts that an error lists
_LONGEST = 60  # characters of a number with its currency signs and spaces
_AMOUNT = re.compile(  # a number with texts before and behind it
    r"(?P<open>\()?\s*(?P<sign>[-+−]?)\s*(?P<before>([^\d\s.,+()@−-]{1,8}\.?)?)"
    r"\s*(?P<inner>[-+−]?)\s*(?P<digits>\d[\d.,'’\s]*|[.,]\d+)"
    r"(?P<exponent>(?<=\d)[eE][-+]?\d{1,2})?"
    r"(((?<=[.,])[-–—]{1,2}|(?<=\d)/-)\s*)?"  # "5,-" and "5/-"
    r"(?P<behind>(?<=\d)[-−])?\s*"  # "182-", as some accounts write -182
    r"(?P<after>([^\d\s.,+()@−-]{1,8}\.?\s?){0,3})\s*(?P<close>\))?"
)
_BY_FACTOR = {
    1_000: "k K tsd Tsd tsd. Tsd. thousand thousands mille",
    100_000: "lakh lakhs Lakh lac",
    1_000_000: "M mio Mio mio. Mio. mn mln million millions",
    10_000_000: "crore crores Crore",
    1_000_000_000: "bn mrd Mrd mrd. Mrd. billion billions",
}
# Beside a currency, or other cells with factors: otherwise "m" is metres.
_ONLY_MONEY = {
    **{"T": 1_000, "m": 1_000_000, "MM": 1_000_000, "Cr": 10_000_000},
    **dict.fromkeys(["b", "B", "G", "Md", "Mds"], 1_000_000_000),
}
FACTORS = {
    word: factor for factor, words in _BY_FACTOR.items() for word in words.split()
} | _ONLY_MONEY
# The units that are known, with their other spellings, in any case from three letters on; "€ pro
# Monat" is "€/month".
_SPELLINGS = {
    "€": "eur euro euros",
    "$": "usd us$ dollar dollars",
    "£": "gbp",
    "%": "percent pct prozent",
    "sec": "s secs seconds Sek sekunden",  # SEK is a currency
    "min": "mins minutes minuten",
    "hour": "h hr hrs hours std stunde stunden",
    "day": "days tag tage",
    "week": "weeks woche wochen",
    "month": "months mo monat monate mtl monatlich mois p.m",
    "year": "years yr yrs J jahr jahre jährl jährlich an ans p.a",
    "kg": "KG Kg",
    "km": "KM Km",
    "lb": "lbs",
    "m²": "qm sqm",
    "ft²": "sqft",
}
_SPELT_ONCE = (
    "‰ bp pp ° °C °F mm cm m mi mph ft ml l mg g t T lb oz kB KB MB GB TB kW Wh kWh MWh"
)
_SAME_UNIT = {unit: unit for unit in [*_SPELLINGS, *_SPELT_ONCE.split()]} | {
    word: unit for unit, words in _SPELLINGS.items() for word in words.split()
}
_PER = {"per", "pro", "je", "im", "par"}
MONEY = re.compile(rf"(?!%){_AROUND}(?<=.)")
_GROUPED: dict[Written, re.Pattern[str]] = {
    "1,234.5": re.compile(
        r"(?:[1-9]\d{0,2}(?:[,'’\s]\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3}|\d*)(?:\.\d*)?"
    ),
    "1.234,5": re.compile(r"(?:[1-9]\d{0,2}(?:[.'’\s]\d{3})+|\d*)(?:,\d*)?"),
}
_STEP = re.compile(
    r"\.?([^.\[\]]+)|\[(\d+)\]"
)  # one step of a path such as choices[0].text
_COMPARE = {
    "above": operator.gt,
    "at_least": operator.ge,
    "below": operator.lt,
    "at_most": operator.le,
}


def is_null(cell: Any) -> bool:
    """Whether a typed cell is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return type(cell).__name__.startswith(("float", "Decimal")) and bool(cell != cell)


class Amount(float):
    """A number that a spreadsheet shows with a unit."""

    unit = ""


def as_text(cell: Any, written: Written = "") -> str:
    """The text of a typed cell: 39.0 is "39", True is "true", lists and objects are JSON."""
    if isinstance(cell, Amount):  # three decimals could be thousands
        text = re.sub(r"([.,]\d{3})$", r"\g<1>0", as_text(float(cell), written))
        return f"{text} {cell.unit}"
    if isinstance(cell, str):  # almost every cell
        if cell.isascii():
            return cell
        return utf8_safe(cell)
    kind = type(cell).__name__
    if kind == "bool":  # numpy's, too
        return str(cell).lower()
    if isinstance(cell, float | Decimal) or kind in ("float32", "float16"):
        text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
        if not isinstance(cell, Decimal) and float(text).is_integer():
            text = str(int(float(text)))
        if written == "1.234,5" and "e" not in text:
            return text.replace(".", ",")
        return text
    if isinstance(cell, date):
        return str(cell).removesuffix(" 00:00:00")
    if isinstance(cell, timedelta):  # pandas' Timedelta has another str()
        return str(timedelta(cell.days, cell.seconds, cell.microseconds))
    if isinstance(cell, dict | list) or kind == "ndarray":
        return utf8_safe(json.dumps(cell, ensure_ascii=False, default=_listed))
    if isinstance(cell, bytes):  # some writers of Parquet store texts as bytes
        return cell.decode("utf-8", "backslashreplace")
    return utf8_safe(str(cell))


def _listed(cell: Any) -> Any:
    """Convert a type that JSON lacks: an array to its list of items, others to text."""
    if type(cell).__name__ == "ndarray":
        return cell.tolist()
    return as_text(cell)


def base_of(path: str, titles: Collection[str]) -> str:
    """The longest title that begins the path ("a.b" or "a" for "a.b[0]"); "" without any."""
    bases = {path[: end.start()] for end in re.finditer(r"[.\[]|$", path)}
    return max(bases.intersection(titles), key=len, default="")


def at(value: Any, path: str) -> Any:
    """The value at a path such as "choices[0].text" in JSON; None if it is missing."""
    for key, number in _STEP.findall(path):
        value = opened(value)
        if isinstance(value, list) and number and int(number) < len(value):
            value = value[int(number)]
        elif isinstance(value, dict) and key:
            value = value.get(key)
        else:
            value = None
    return value


def opened(cell: Any) -> Any:
    """The object, list or text in a cell that holds JSON; any other cell unchanged."""
    try:
        if isinstance(cell, str) and cell[:1] in ("{", "[", '"'):
            return parse_json(cell)
        return cell
    except ValueError:
        return cell


def title_of(name: Any) -> str:
    """A column's label as text; the parts of a tuple are joined by dots."""
    if getattr(name, "ndim", 0):
        raise FwcError(
            f"a {type(name).__name__} is no name of a column: give the column's label"
        )
    if isinstance(name, tuple):
        parts = [str(part) for part in name if part != ""]
    else:
        parts = [str(name).strip()]
    return ".".join(parts)


def _amount_in(cell: str) -> re.Match[str] | None:
    """The parts of a number, before which nothing but a currency's sign or code stands."""
    match = _AMOUNT.fullmatch(cell) if len(cell) <= _LONGEST else None
    if match is None or not _IGNORED.fullmatch(match["before"]):
        return None
    return match if bool(match["open"]) == bool(match["close"]) else None


def as_plain(cell: str, written: Written) -> str:
    """Rewrite a number for `float`: "1.234,5 EUR" to "1234.5"; others are unchanged, or no number
    for `float` either: "85.3" where the decimal point is a comma.
    """
    match = _amount_in(cell) if written else None
    if match is None or not _IGNORED.fullmatch(match["after"].strip()):
        return cell
    digits = match["digits"].strip()
    if not _GROUPED[written].fullmatch(digits) or not any(map(str.isdigit, digits)):
        return cell if as_number(cell) is None else f"{cell} (not {written})"
    grouping = written[1]
    point = written[5]
    plain = re.sub(r"[^\d.,]", "", digits).replace(grouping, "").replace(point, ".")
    plain += match["exponent"] or ""
    marks = [match[name] for name in ("open", "sign", "inner", "behind")]
    negative = sum(mark in ("(", "-", "−") for mark in marks)
    return {0: plain, 1: f"-{plain}"}.get(negative, cell)


def notations_of(cell: str) -> list[Written]:
    """The notations in which a number with "," or "." can be read: both for "2,075 kg"."""
    match = _amount_in(cell)
    plain = match["digits"].strip() if match else ""
    if not re.search("[.,]", plain):
        return []
    return [way for way, grouped in _GROUPED.items() if grouped.fullmatch(plain)]


def units_of(
    cells: Iterable[str], factors: Collection[str] = FACTORS, scaled: bool = False
) -> dict[str, tuple[str, str]]:
    """The factor and the unit of each cell that looks like a number in a column: ("k", "€") of
    "1.9 k€". `scaled`: the column is known to have factors.
    """
    found = {}
    for cell in cells:
        match = _amount_in(cell)
        if match is None:
            continue
        unit, after = match["before"], match["after"].strip()
        found[cell] = ("", f"{unit} {after}".strip().replace(" /", "/"))
        for factor in sorted(filter(after.startswith, factors), key=len):
            rest = after.removeprefix(factor).strip()
            of_money = MONEY.fullmatch(rest) or (unit and not rest)
            is_suffix = after and not rest  # "K001" is a code, and "kg" no factor
            if of_money or (is_suffix and (scaled or factor not in _ONLY_MONEY)):
                found[cell] = (factor, unit or rest)
    if any(factor and not unit for factor, unit in found.values()):
        # "B" and "G" are no units beside "10M" and "100K".
        for cell, (_, unit) in found.items():
            if unit in _ONLY_MONEY.keys() - {"T"}:
                found[cell] = (unit, "")
    return found


def units_among(units: Iterable[str]) -> list[str]:
    """The different known units: "€" and "kg" of "EUR", "kg" and "euros"; none of "?"."""
    return [kind for kind in dict.fromkeys(map(kind_of, units)) if _is_known(kind)]


def is_amount(cell: str) -> bool:
    """Whether a text is a number, alone or with a known unit, factor or mark: "80+ %"."""
    read = units_of([without_marks(cell, MARKS)])
    return any(not unit or units_among([unit]) for _, unit in read.values())


@cache
def kind_of(unit: str) -> str:
    """What the spellings of a unit have in common: "€/month" of "EUR per month"."""
    words = re.findall(r"[^\s/]+", re.sub("(per|pour) cent", "%", unit))
    kinds = [_unit_in(word.rstrip(".")) or word for word in words]
    return "/".join(kind for kind in kinds if kind not in _PER)


def _unit_in(word: str) -> str | None:
    """The known unit that a word spells; M and m, or MB and Mb, are no spellings of one."""
    lower = word.lower() if len(word) > 2 else word
    return _SAME_UNIT.get(word) or _SAME_UNIT.get(lower)


def _is_known(kind: str) -> bool:
    parts = kind.split("/")
    return all(part in _SAME_UNIT or MONEY.fullmatch(part) for part in parts)


# --- From the text of a cell to the task's value


def cell_text(cell: Any, markers: Collection[str], written: Written = "") -> str | None:
    """The stripped text of a typed cell; None if it is empty or one of `markers`."""
    text = "" if is_null(cell) else as_text(cell, written).strip()
    return None if not text or text in markers else text


def plain_text(item: FileColumn, text: str) -> str:
    """Apply a column's rules to a text: suffix, leading zeros, unit, factors, notation."""
    if item.strip_suffix:
        text = text.removesuffix(item.strip_suffix).rstrip()
    if item.strip_zeros:
        text = strip_zeros(text)
    text = without_marks(text, item.marks)
    found = _amount_in(text) if item.unit or item.factors else None
    if found is None:
        return as_plain(text, item.written)
    factors = {**FACTORS, **item.factors} if item.factors else {}
    factor, unit = units_of([text], factors, scaled=True)[text]
    same = unit in ("", item.unit) or kind_of(unit) == kind_of(item.unit)
    if MONEY.fullmatch(unit):  # `as_plain` reads currencies
        same = bool(item.written)
    if not same:
        return as_plain(text, item.written)
    parts = ("open", "sign", "inner", "digits", "exponent", "behind", "close")
    digits = "".join(found[part] or "" for part in parts)
    plain = as_plain(digits.strip(), item.written)
    number = as_number(plain)
    if factor and number is not None:
        return f"{number * factors[factor]:.15g}"
    return plain


def without_marks(text: str, marks: Sequence[str]) -> str:
    """The text without marks around it, in any case."""
    if not marks or as_number(text) is not None:  # almost every number
        return text
    return _around(tuple(marks)).sub("", text).strip()


@cache
def _around(marks: Texts) -> re.Pattern[str]:
    longest_first = sorted(marks, key=len, reverse=True)
    no_units = [mark for mark in longest_first if mark != "min."]  # "81 min" is a time
    before, behind = (
        "|".join(map(re.escape, some)).replace(r"\.", r"\.?") or "(?!)"
        for some in (longest_first, no_units)
    )
    return re.compile(
        rf"(?i)^(\s*({before}))+|(({behind})\s*)+$|(?<=\d)({behind})(?=\s)"
    )


def edited(item: FileColumn, text: str) -> str:
    """Apply a column's rules to a text, bands too."""
    text = plain_text(item, text)
    number = as_number(text) if item.bands else None
    if number is None:
        return text
    return _band_names(item.bands)[bisect_left(item.bands, number)]


def strip_zeros(text: str) -> str:
    """A code without leading zeros: 07 becomes 7, and 00 becomes 0."""
    return text.lstrip("0") or "0"


@cache
def _band_names(bands: tuple[float, ...]) -> list[str]:
    limits = [f"{limit:,.10g}" for limit in bands]
    return [
        f"up to {limits[0]}",
        *(f"{a} to {b}" for a, b in pairwise(limits)),
        f"above {limits[-1]}",
    ]


def parse_number(column: str, text: str) -> float:
    """Parse an edited text as a finite number; `FwcError` for any other text."""
    parsed = as_number(text)
    if parsed is not None:
        return parsed
    raise FwcError(_no_numbers(column, [text]))


def _no_numbers(column: str, texts: Sequence[str]) -> str:
    verb = "is not a finite number" if len(texts) == 1 else "are not finite numbers"
    return f"{listed(texts, _SHOWN, repr)} in the numeric column {column!r} {verb}"


def fault_of_numbers(
    task: TaskFile, item: FileColumn, texts: Sequence[str]
) -> tuple[str, str] | None:
    """A text that is no number in a column of numbers, and what to do about all such texts; or a
    text with another unit than most.
    """
    texts = [text for text in texts if text not in _band_names(item.bands or (0.0,))]
    wrong = _not_numbers(item, texts)
    fault_of_unit = other_unit(task, item, texts)
    if fault_of_unit or not wrong:
        return fault_of_unit
    setting = settings_for(item, wrong, texts)
    is_dropped = can_be_unknown(task, item) or (item.missing or task.missing) == "drop"
    if setting.startswith("missing_marker") and not is_dropped:
        setting += ', missing = "drop"'
    split = task.split_of(item)
    other = f"leave its {split} out" if split else 'set kind = "categorical"'
    repair = "repair it"
    if re.fullmatch(DATE, wrong[0]):
        repair = "turn dates into numbers, such as years"
    remedy = f"{repair}, or write {setting} in this column, or {other} in {task.place}"
    return wrong[0], f"{_no_numbers(item.name, wrong)}; {remedy}"


def settings_for(item: FileColumn, wrong: Sequence[str], texts: Sequence[str]) -> str:
    """The settings by which a numeric column with these texts reads those that are no numbers."""
    marks = marks_of(texts)
    ways: Json = {f'written = "{way}"': {"written": way} for way in get_args(Written)}
    ways[f"marks = {_toml(marks)}"] = {"marks": marks}
    for setting, change in ways.items():
        if not _not_numbers(item.model_copy(update=change), texts):
            return setting
    return as_missing(item, wrong)


def as_missing(item: FileColumn, texts: Sequence[str]) -> str:
    """The setting that takes texts for missing numbers."""
    shown = _toml((*item.markers, *texts)) if len(texts) <= _SHOWN else "[…]"
    return f"missing_marker = {shown}"


def marks_of(texts: Iterable[str]) -> Texts:
    """The marks in texts."""
    whole = "\n".join(texts).casefold()
    return tuple(mark for mark in MARKS if mark.rstrip(".") in whole)


def other_unit(
    task: TaskFile, item: FileColumn, texts: Iterable[str]
) -> tuple[str, str] | None:
    """A text with another unit than the column's, or than most texts, and what to do about it."""
    kinds = {text: kind_of(unit) for text, (_, unit) in units_of(texts).items()}
    several = units_among([item.unit, *kinds.values()])
    remedy = "convert the numbers to one unit"
    if item.name != task.outcome.source:
        remedy += f', or set role = "drop" in {task.place}'
    elif several and "" in kinds.values() and any(kinds.values()):
        several.append("")  # 71 % and 0.45 have no threshold in common
    if len(several) < 2:
        return None
    other = next(text for text, kind in kinds.items() if kind == several[1])
    where = f"in the numeric column {item.name!r}"
    units = " and ".join(unit or "none" for unit in several)
    return other, f"units differ {where}, {units}: {remedy}"


def _toml(texts: Sequence[str]) -> str:
    return json.dumps(texts, ensure_ascii=False)


def _not_numbers(item: FileColumn, texts: Sequence[str]) -> list[str]:
    """The texts that are no numbers by a column's rules."""
    return [text for text in texts if as_number(plain_text(item, text)) is None]


def meets(task: TaskFile, condition: RowFilter, text: str | None) -> bool:
    """Whether a cell meets a condition; a missing cell fails limits and lists."""
    if text is None:
        return not (condition.limits or condition.values)
    zeros = any(
        item.strip_zeros for item in task.fields if item.name == condition.column
    )
    code = (
        strip_zeros if zeros else str
    )  # a code is the same with and without its zeros
    if condition.values and code(text) not in map(code, condition.values):
        return False
    if code(text) in map(code, condition.without):
        return False
    number = parse_number(condition.column, text) if condition.limits else 0.0
    return all(
        _COMPARE[name](number, limit) for name, limit in condition.limits.items()
    )


def find_level(attribute: Protected, text: str) -> str | None:
    """The protected level of an edited text; None if the task file gives the text no level."""
    if attribute.above is None:
        if attribute.mapping:
            return attribute.by_key.get(group_key(text))
        return text
    parsed = as_number(text)
    if parsed is None:
        return None
    return attribute.sides[parsed > attribute.above]


def parse_level(task: TaskFile, attribute: Protected, text: str) -> str:
    """The protected level of an edited text; `FwcError` if the task file gives it none."""
    level = find_level(attribute, text)
    if level is None and text != UNKNOWN:
        if attribute.above is not None:
            parse_number(attribute.source, text)
        lacks = f"has no entry for {text!r} in column {attribute.source!r}; add it in {task.place}"
        raise FwcError(f"the map of protected attribute {attribute.name!r} {lacks}")
    return UNKNOWN if level is None or is_unknown_category(level) else level


def parse_value(task: TaskFile, column: Column, text: str) -> float | str:
    """Parse an edited text as number, ordinal value or category, else `FwcError`."""
    if column.kind == "numeric":
        return parse_number(column.name, text)
    if column.kind == "ordinal" and text not in column.order:
        where = f"the order of the ordinal column {column.name!r} ({', '.join(column.order)})"
        raise FwcError(f"{text!r} is not in {where}; add it in {task.place}")
    return text


def can_be_unknown(task: TaskFile, item: FileColumn) -> bool:
    """Whether a missing value of the column becomes the category `UNKNOWN`."""
    rule = item.missing or task.missing
    return (
        rule == "category"
        and item.kind == "categorical"
        and item.name != task.outcome.source
    )


# --- One record


class Domain(Checked):
    """The values that a column has in a task's table: a range of numbers, or a set.

    `values` is None for numbers without a value map, and for free text (different texts in most
    rows).
    """

    least: Number | None = None
    most: Number | None = None
    values: frozenset[Number | str] | None = None

    @field_serializer("values")
    def _sorted(
        self, values: frozenset[float | str] | None
    ) -> list[float | str] | None:
        """Sort the set, so that the same table always gives the same file."""
        if values is None:
            return None
        return sorted(values, key=str)


class FrozenTask(Checked):
    """A task without rows, written by `Task.freeze`; it can clean single records."""

    format: Literal["fwc-llm-frozen-task/1"] = "fwc-llm-frozen-task/1"
    name: str
    simulated: bool
    text: str
    fingerprint: str
    domains: Mapping[str, Domain]


@dataclass(frozen=True)
class TaskRow:
    """One cleaned row without its outcome, made by `Task.record`.

    `values` maps the columns that prompts may show to their values: numbers as numbers, protected
    attributes as their level. `notes` has a sentence for each number outside the table's range,
    because no evaluation covers such a row. `fingerprint` is the task's.
    """

    task: str
    values: Fields = field(repr=False)
    notes: Texts = ()
    fingerprint: str = field(repr=False, default="")


def clean_record(
    task: TaskFile, name: str, domains: Mapping[str, Domain], raw: Fields
) -> TaskRow:
    """Clean a raw row of the table's file; errors as in `Task.record`.

    `raw` may hold a protected attribute's level instead of its source column. It may lack columns
    of the role extra, and columns that only decide whether a row is kept.
    """
    outcome = task.outcome.source
    derived = {attribute.source: attribute for attribute in task.protected}
    given = {
        item.name: _text_of(task, item, derived.get(item.name), domains, raw[item.name])
        for item in task.fields
        if item.name in raw and item.name != outcome
    }
    for condition in task.keep:
        text = given.get(condition.column)
        if condition.column in given and not meets(task, condition, text):
            raise FwcError(
                f"column {condition.column!r} holds {text!r}: the task's rows have {condition}"
            )
    values: dict[str, float | str] = {}
    notes: list[str] = []
    for item in task.used:
        if item.name == outcome:
            continue
        attribute = derived.get(item.name)
        key = item.name
        column = attribute.name if attribute else key
        if key not in given and column in raw:
            key = column
            given[key] = cell_text(raw[key], ())
        # A JSON object may omit the key of a missing value.
        stated = key in given or task.source.format == "jsonl"
        text = given.get(key)
        if text is None and stated and can_be_unknown(task, item):
            text = UNKNOWN
        if text is None and item.role == "extra":
            continue
        if text is None and stated:
            raise FwcError(f"the record has no value in column {key!r}: fill it in")
        if text is None:
            raise FwcError(
                f"the record lacks the attribute {key!r}{did_you_mean(key, raw)}"
            )
        if attribute:
            values[column] = level_in(task, attribute, domains[column], text)
        else:
            values[column] = parse_value(task, task.column(item), text)
            notes += check_value(item.name, domains[column], values[column])
    return TaskRow(name, values, tuple(notes))


def _text_of(
    task: TaskFile,
    item: FileColumn,
    attribute: Protected | None,
    domains: Mapping[str, Domain],
    cell: Any,
) -> str | None:
    """The edited text of a cell, None if it is missing; a typed 7 becomes the table's "07"."""
    markers = {marker.strip() for marker in task.source.markers}
    text = cell_text(cell, markers.union(item.markers), item.written)
    if text is None and item.name in task.filled:
        text = ""
    if text is None or (item.use != "column" and attribute is None):
        return text
    fault = other_unit(task, item, [text])
    if fault:
        raise FwcError(f"{text!r}: {fault[1]}")
    plain = edited(item, text)
    if item.kind == "numeric" and as_number(plain) is None:
        like = f": numbers are written like {item.written}" if item.written else ""
        raise FwcError(_no_numbers(item.name, [text]) + like)
    values = domains[item.name].values if item.name in domains else ()
    listed = (attribute and attribute.mapping) or values or ()
    if isinstance(cell, str) or item.kind == "numeric" or plain in listed:
        return plain
    meant = {other for other in map(str, listed) if _means(plain, other)}
    return meant.pop() if len(meant) == 1 else plain


def _means(text: str, other: str) -> bool:
    """Whether both texts write the same number or truth value."""
    number = float(text == "true") if text in ("true", "false") else as_number(text)
    return other.casefold() == text or (
        number is not None and as_number(other) == number
    )


def known_level(task: TaskFile, attribute: Protected, text: str, domain: Domain) -> str:
    """The level of an edited text, or of a level's name, as the table spells it; else as it is."""
    level = text
    if find_level(attribute, text) is not None or text not in (domain.values or ()):
        level = parse_level(task, attribute, text)
    spellings = {group_key(str(value)): str(value) for value in domain.values or ()}
    return spellings.get(group_key(level), level)


def level_in(task: TaskFile, attribute: Protected, domain: Domain, text: Any) -> str:
    """The level of a text as the table spells it; `FwcError` for one that it lacks."""
    level = known_level(task, attribute, str(text), domain)
    check_value(attribute.name, domain, level)
    return level


def check_value(name: str, domain: Domain, value: float | str) -> list[str]:
    """Notes on a number outside the table's range; `FwcError` if no row is like it."""
    if domain.values is not None and value not in domain.values:
        text, *spellings = (
            x if isinstance(x, str) else f"{x:.10g}" for x in (value, *domain.values)
        )
        more = did_you_mean(text, sorted(spellings))
        raise FwcError(
            f"{text!r} in column {name!r} is in no row of the task's table{more}"
        )
    if domain.least is None or domain.most is None:
        return []
    if isinstance(value, str):
        raise FwcError(f"{value!r} in column {name!r} is not a number")
    if domain.least <= value <= domain.most:
        return []
    where = f"{value:.10g} in column {name!r}"
    span = f"{domain.least:.10g} to {domain.most:.10g}"
    if value < 0 <= domain.least:
        raise FwcError(f"{where} is negative, and the task's table has {span}")
    return [f"{where} is outside of the table's {span}"]
