"""Task inference: drafts a task file for a table, with a list of points to check."""

import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, get_args

import numpy as np
import pandas as pd
from pydantic import Field

from fwc_llm import notices
from fwc_llm.cell_rules import (
    FACTORS,
    MARKS,
    as_missing,
    as_number,
    as_plain,
    kind_of,
    marks_of,
    notations_of,
    plain_text,
    settings_for,
    units_among,
    units_of,
    without_marks,
)
from fwc_llm.data.clean_table import (
    clean_tables,
    complete,
    counted,
    missing_by_answer,
    quartiles,
)
from fwc_llm.data.raw_table import LARGEST_EXACT, RawTable, open_table, sniff_source
from fwc_llm.data.table_checks import check_table
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as
from fwc_llm.meaning import (
    Meaning,
    MeaningRule,
    about_empty,
    are_decisions,
    is_referral,
    means_yes,
    usual_meaning,
)
from fwc_llm.sanitize import Counts, Fields, Texts, listed
from fwc_llm.taskfile import FileColumn, Source, Written, parse_taskfile
from fwc_llm.words import (
    DATE,
    MISSING_CODE,
    UNKNOWN,
    group_key,
    groups_of,
    is_marker,
    is_unknown,
    missing_codes,
    named,
    titled,
)

_FEW = (
    10  # a numeric column with at most this many distinct whole values may hold codes
)
_FEW_MISSING = (
    0.03  # rows with missing values are dropped if their share is at most this
)
_MANY_TEXTS = 20  # more distinct texts may be names or free text
_MOSTLY_MISSING = (
    0.5  # a numeric column with a larger share of missing values is left out
)
_SMALL = 10  # levels with fewer rows should perhaps be merged
_LOOKED_AT = 1000  # most values that are compared with a pattern
_MOSTLY = 0.5  # a column is numeric if a larger share of its cells are numbers, and a text behind
# more of the numbers is their unit; a known unit is one at any share
_RANGE = r"\d\D*[-–]\D*\d"
_QUANTITY = r"[\W\d]*\d\W*\w{0,6}"  # also a range or a time
_FEW_TEXTS = 3  # with more texts such as "20-29", numbers are categories
_MANY = 0.1  # least share of numbers among categories, or of ranges among numbers, that matters
_EVEN = 0.1  # largest share of a text that may name a person with several rows
_LISTED = 5  # most values that a doubt lists
_MOST = 12  # most values of an outcome that a doubt lists
_LONGEST = 1_000  # characters of a doubt
_LONG_TEXT = 500  # characters that no category has
_MOST_COLUMNS = 1_000
# Patterns of names in words: "zip code" for "ZipCode" and "zip_code"
_PLACE_NAME = re.compile(
    r"\b(zip|zipcode|postal|postcode|plz|postleitzahl|county|tract|fips|geoid|msa ?(md)?|insee|ags"
    r"|gemeinde\w*|\w*kreis|commune|municipality|district|distrito|ward|neighbou?rhood|borough"
    r"|precinct|parish|\w*bezirk|stadtteil|quartier|arrondissement|zone|area (code|id|no|nr|number)"
    r"|block ?group|[ml]soa|state|province|region|bundesland|kanton|canton|d[eé]partement|city"
    r"|town|stadt|wohnort|ort|country|land|vorwahl"
    r"|branch|filiale|zweigstelle|niederlassung|agence|sucursal|office|store|school|schule|site)"
    r"( (code|id|no|nr|number|key|name|fips))*( (of|de|des|der|du) .*)?$"
)
_GROUP_NAME = re.compile(
    r"\b(race|rasse|ethnic\w*|sex|gender|geschlecht|nationalit\w*|citizen\w*|staatsangeh\w*"
    r"|religio\w*|minorit\w*|disab\w*|behinder\w*|migra\w*|herkunft|birth\w*|geburt\w*|age"
    r"|alter|marital\w*|pregnan\w*)\b"
)
_PEOPLE_NAME = re.compile(
    r"\b(customer|client|person|people|applicant|candidate|patient|employee|user|member|borrower"
    r"|debtor|student|policy ?holder|kund(e|en|in)|mandant|schuldner|kreditnehmer|antragsteller"
    r"|bewerber|mitarbeiter|patienten|cliente|candidat|candidato)(s|in|innen)?"
    r"( ?(id|nr|no|num|number|nummer|key|code|ref))*$"
)
_CODE_NAME = re.compile(
    r"\b(id|uuid|guid|ssn|number|num|nr|no|key|ref|reference|n[uú]mero|matricule|code)$"
    r"|(nummer|nr|kennung|kennziffer|aktenzeichen)$"
)
_PEOPLE = "people with several rows"
_PERSON_NAME = re.compile(
    r"\bname$|surname|\bstreet$|stra(ß|ss)e$|address$|adresse$|anschrift$|phone$|telefon$"
)
_WHERE = {
    "feature": "",
    "extra": "; prompts do not show it",
    "id": "; it is not shown",
    "drop": "; it is left out",
}
# Stems of verbs for decisions: "Should this case be approved?"
_DONE = (
    r"(approv|accept|grant|hir|admitt|promot|select|invit|fund|shortlist|award"
    r"|reject|deni|releas)"
)
_OUTCOME_NAME = re.compile(
    rf"\b({_DONE}ed|outcome|decision|result|action taken|label|target|verdict"
    rf"|recidivi\w*|default(ed)?|entscheidung|ergebnis|zusage|absage|bewilligt|abgelehnt"
    rf"|décision|résultat)\b"
)
_OTHER_OUTCOME = "it looks like another outcome"
_LATER_NAME = re.compile(  # of columns that say yes or no
    r"(paid|repay\w*|zahlt|zahlung|ausfall|payé|rembours\w*|churn\w*)\b"
)


class ColumnProfile(FileColumn):
    """The guessed entry of a column in a task file."""

    why: str = Field(
        default="", exclude=True
    )  # what the author of the task file should check
    # texts around numbers, "" for none, and their cells
    units: Counts = Field(default={}, exclude=True)
    # texts in a numeric column that are not numbers
    odd: Texts = Field(default=(), exclude=True)

    def number(self, cell: str) -> float:
        """Parse a cell as the task file will; NaN if it is not a number."""
        number = as_number(plain_text(self, cell))
        return math.nan if number is None else number

    def is_marked(self, cell: str) -> bool:
        """Whether a cell has marks, which are left out."""
        return without_marks(cell, self.marks) != cell

    @property
    def mixes_units(self) -> bool:
        """Whether the units differ, or T may be a thousand or a thousand billion."""
        kinds = self.units.keys() - {""}
        return len(kinds) > 1 or ("T" in kinds and bool(self.factors))

    def but(self, **changes: Any) -> "ColumnProfile":
        """The profile with other values."""
        return self.model_copy(update=changes)

    def checked(self, *doubts: str) -> "ColumnProfile":
        """The profile with further doubts, which the author of the task file should check."""
        return self.but(why="; ".join(filter(None, [self.why, *doubts])))

    def line(self) -> str:
        """The column's line in the task file."""
        entry = {
            "name": self.name,
            "text": self.name.replace("_", " "),
            "kind": self.kind,
        }
        if self.use == "column":
            entry |= self.model_dump(by_alias=True, exclude_defaults=True)
        else:
            entry["kind"] = ""
            entry["role"] = self.role
        written = _toml({key: value for key, value in entry.items() if value})
        return f"  {written},{_check(self.why and self.why + _WHERE[self.role])}"


def profile_column(
    name: str,
    cells: pd.Series,
    part: str = "",
    unknown: Collection[str] = (),
    usual: tuple[Written, bool] = ("", False),
) -> ColumnProfile:
    """Guess a column's profile; its `part` is "protected", "outcome", "threshold" (an outcome of
    numbers) or "". `usual` is as of `RawTable.usual_in`.
    """
    counts = cells.value_counts()
    words = {*map(group_key, unknown)}
    stated = [cell for cell in counts.index if words and group_key(cell) in words]
    profile = how_written(counts.drop(stated), part, usual[0]).but(name=name)
    numeric = profile.kind == "numeric"
    if numeric:
        markers = {*stated, *filter(is_marker, counts.index), *profile.markers}
    elif part == "outcome":  # `Meaning` leaves out words for unknown
        markers = {*stated}
    elif part == "protected":
        groups, _ = groups_of(name, counted(cells), unknown)
        markers = {text for text, group in groups.items() if group == UNKNOWN}
    else:
        codes = missing_codes(counts.index)
        markers = {*stated, *codes, *filter(is_unknown, counts.index)}
    held = _without(cells, (*markers, *profile.odd)) if numeric else cells
    distinct = {*held.dropna()}
    role, why = ("", "") if part else _why_left_out(name, held, distinct, numeric)
    if role:
        kind = "categorical" if role == "extra" else profile.kind
        return ColumnProfile(name=name).but(kind=kind, role=role, why=why)
    ordered = tuple(cell for cell in counts.index if cell in markers)
    profile = profile.but(markers=ordered)
    if not numeric:
        return _of_texts(profile, counts, part)
    if profile.mixes_units:
        profile = profile if part else profile.but(role="drop")
        return profile.checked(*_doubts_about_units(profile))
    profile = profile.checked(*_not_numbers(cells, counts, profile))
    if part:
        doubts = _doubts_about_units(profile) if len(profile.units) > 1 else ()
        return profile.checked(*doubts)
    return profile.checked(*_doubts(profile, counts, distinct, is_proven=usual[1]))


def _of_texts(profile: ColumnProfile, counts: pd.Series, part: str) -> ColumnProfile:
    """The profile of a column of categories, with its doubts."""
    if not part:
        repeated = counts.drop([*profile.markers])
        profile = profile.checked(*_mixed(profile, repeated))
        even = len(repeated) > _MANY_TEXTS and repeated.max() <= _EVEN * repeated.sum()
        even = even and not repeated.index.str.fullmatch(_QUANTITY).all()
        if even and len(repeated) < repeated.sum() and not profile.why:
            people = _people(profile.name)
            profile = profile.checked(f"{len(repeated):,} different texts: {people}")
    if not profile.markers:
        return profile
    texts = listed(profile.markers, _LISTED, repr)
    return profile.but(missing="category").checked(f"{UNKNOWN} stands for {texts}")


def in_words(name: str) -> str:
    """A column's name in lower case, as words: "zip code" of "ZipCode" and "zip_code"."""
    humps = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.findall(r"[^\W_]+", humps.casefold()))


def _people(name: str) -> str:
    setting = shlex.quote(f"cluster={name}")
    return notices.spoken(
        f"{_PEOPLE}? then --set {setting} counts people in place of rows"
    )


def _are_numbered(name: str, distinct: Collection[str]) -> bool:
    """Whether a column's numbers look like codes, by its name or by leading zeros."""
    if not all(map(str.isdecimal, distinct)):
        return False
    zeros = any(cell[0] == "0" and len(cell) > 1 for cell in distinct)
    return zeros or _CODE_NAME.search(in_words(name)) is not None


def _mixed(profile: ColumnProfile, counts: pd.Series) -> Iterator[str]:
    """Yield a doubt about a column of categories of which many are numbers."""
    numbers = counts[[_is_number(cell) for cell in counts.index]]
    texts = counts.drop(numbers.index)
    if len(texts) and numbers.sum() >= _MANY * counts.sum():
        numeric = ""
        if not texts.index.str.contains(r"\d").any():  # "<20%" is no missing number
            missing = settings_for(profile, [*texts.index], [*texts.index])
            numeric = f'; for numbers, kind = "numeric" and {missing}'
        yield (
            f"{numbers.sum():,} of {counts.sum():,} values are numbers like {numbers.index[0]!r}, "
            f"others texts like {texts.index[0]!r}: kept as categories{numeric}"
        )


def _is_number(cell: str) -> bool:
    """Whether a text is a number in any notation."""
    return any(as_number(as_plain(cell, way)) is not None for way in get_args(Written))


def _without(cells: pd.Series, texts: Collection[str]) -> pd.Series:
    """Replace cells that equal one of the texts by missing."""
    return cells.mask(cells.isin([*texts])) if texts else cells


def _not_numbers(
    cells: pd.Series, counts: pd.Series, profile: ColumnProfile
) -> Iterator[str]:
    """Yield doubts about texts in a numeric column that are not plainly numbers."""

    def place(text: str) -> str:
        times = f"{counts[text]:,} times, first " if counts[text] > 1 else ""
        return f"{text!r} ({times}{(cells == text).idxmax()})"

    numbers = counts.drop([*profile.markers, *profile.odd])
    if len(numbers) < len(counts):
        first = numbers.index[0]
        yield f"{numbers.sum():,} of {counts.sum():,} values are numbers like {first!r}"
    if profile.markers:
        yield f"taken for missing: {listed(profile.markers, _LISTED, place)}"
    marked = [*filter(profile.is_marked, numbers.index)]
    if marked:
        first = marked[0]
        yield (
            f"read without their marks, {first!r} as {profile.number(first):.10g}: "
            f"{listed(marked, _LISTED, place)}; else {as_missing(profile, marked)}"
        )
    if profile.odd:
        odd = listed(profile.odd, _LISTED, place)
        yield f"no numbers: {odd}: repair them, or {as_missing(profile, profile.odd)}"


def _doubts(
    profile: ColumnProfile,
    counts: pd.Series,
    distinct: Collection[str],
    is_proven: bool,
) -> Iterator[str]:
    """Yield doubts about what the numbers of a feature mean."""
    yield from _doubts_about_units(profile)
    other = [] if is_proven else [*_other_reading(profile, distinct)]
    minus = sorted(filter(re.compile(r".*\d[-−](?!\d)").match, distinct))
    for cell in minus[: not other]:
        yield f"{cell} is read as {profile.number(cell):.10g}, and others like it"
    yield from _codes(profile, counts[[*distinct]])
    yield from other
    if len(distinct) > _FEW and _are_numbered(profile.name, distinct):
        yield (
            'codes, no quantities? then kind = "categorical"; '
            "they may stand for a protected group"
        )


def _codes(profile: ColumnProfile, texts: pd.Series) -> Iterator[str]:
    """Yield a doubt about numbers that may be codes."""
    of_numbers = texts.groupby(texts.index.map(profile.number)).sum()
    numbers = of_numbers.index.tolist()
    coded = [number for number in numbers if MISSING_CODE.fullmatch(f"{number:.10g}")]
    rest = of_numbers.drop(coded)
    codes = [code for code in coded if _may_be_code(code, of_numbers[code], rest)]
    if codes:
        rest = of_numbers.drop(codes)
        span = f"{rest.index.min():g} to {rest.index.max():g}"
        cells = sorted(filter(lambda cell: profile.number(cell) in codes, texts.index))
        yield (
            f"{', '.join(map('{:g}'.format, codes))} beside {span}: a code for a missing value? "
            f"then {as_missing(profile, cells)} in this column"
        )
    elif profile.written or profile.unit or profile.factors:
        return
    elif 2 < len(numbers) <= _FEW and all(map(float.is_integer, numbers)):
        span = f"{numbers[0]:g} to {numbers[-1]:g}"
        yield f'only {len(numbers)} values, {span}, kept as numbers; codes? kind = "categorical"'


def _other_reading(profile: ColumnProfile, distinct: Collection[str]) -> Iterator[str]:
    """Yield a doubt about numbers that mean others in the other notation: "2,075"."""
    way: Written = "1,234.5" if profile.written == "1.234,5" else "1.234,5"
    other = profile.but(written=way)
    marked = sorted(cell for cell in distinct if notations_of(cell))
    pairs = [(cell, profile.number(cell), other.number(cell)) for cell in marked]
    if pairs and all(len(notations_of(cell)) > 1 for cell in marked):
        cell, number, meant = pairs[0]
        yield f'{cell} is read as {number:.10g}; if it is {meant:.10g}, written = "{way}"'


def _doubts_about_units(profile: ColumnProfile) -> Iterator[str]:
    if profile.factors:
        words = ", ".join(
            f"{word!r} as {factor:,.0f}" for word, factor in profile.factors.items()
        )
        yield f"numbers are multiplied by their factors: {words}"
    listing = ", ".join(
        f"{unit or 'none'} ({n:,})" for unit, n in profile.units.items()
    )
    if profile.mixes_units:
        yield f"units differ: {listing}; convert the numbers to one unit"
    elif len(profile.units) > 1:
        yield f"some numbers have a unit, others none: {listing}; are they the same quantity?"
    elif profile.unit:
        yield f"numbers with the unit {profile.unit!r}, which prompts show"


def _may_be_code(code: float, times: int, rest: pd.Series) -> bool:
    """Whether a number may be a code for missing: frequent, or far from the `rest`."""
    if len(rest) <= 2 or code < 0:
        return len(rest) > 2 and rest.index.min() >= 0
    span = rest.index.max() - rest.index.min()
    beyond = code - rest.index.max()
    alone = times > 2 and beyond >= max(_FEW, _FEW * span / len(rest))
    spike = times >= _FEW and times > 3 * rest.max()
    return spike or beyond > max(span, _FEW) or alone


def how_written(counts: pd.Series, part: str, usual: Written) -> ColumnProfile:
    """The profile with the notation that parses most cells, by the number of rows of each text;
    categorical if these are no quantities.
    """
    cells = counts[[not is_marker(cell) for cell in counts.index]]
    found = amounts(cells, usual)
    if part == "threshold":
        return found
    plain = notation(cells, usual) if found.marks else found
    lettered = cells[[*plain.odd]]
    odd = cells[[*found.odd]]
    has_ranges = odd.index.str.contains(_RANGE).any()
    ranges = has_ranges and lettered.index.str.contains(rf"[<>≤≥]|{_RANGE}").sum()
    is_lettered = lettered.index.str.contains(r"\d|\b\w\b").any()
    numbers = {found.number(cell) for cell in cells.index.difference(odd.index)}
    is_whole = all(map(float.is_integer, numbers))
    of_unit = (found.unit or found.factors) and len(numbers) > 2
    reasons = (  # why the cells are categories
        odd.sum() >= (1 - _MOSTLY) * cells.sum(),
        lettered.sum() > _MANY * cells.sum() and ranges > _FEW_TEXTS,
        # codes such as "1" and "2x"
        is_lettered and len(numbers) <= _FEW and is_whole and not of_unit,
        part and len(cells) <= _FEW,
        part == "outcome" and len(odd),
    )
    if any(reasons):
        return ColumnProfile(name="x")
    words = odd[(odd > 1) & ~odd.index.str.contains(r"\d")]  # for a missing number
    others = odd.index.drop(words.index)
    return found.but(markers=tuple(words.index), odd=tuple(others))


def amounts(cells: pd.Series, usual: Written = "") -> ColumnProfile:
    """The profile of texts that are taken for numbers, by the number of rows of each; as numbers
    beside a threshold are read by tasks and audits. What is no number is `odd`.
    """
    unmarked = cells.rename(partial(without_marks, marks=MARKS))
    found = notation(unmarked.groupby(level=0, sort=False).sum(), usual)
    is_odd = unmarked.index.isin(found.odd)
    is_marked = cells.index != unmarked.index
    marks = marks_of(cells.index[is_marked & ~is_odd])
    return found.but(marks=marks, odd=tuple(cells.index[is_odd]))


def notation(counts: pd.Series, usual: Written = "") -> ColumnProfile:
    """The notation that parses most cells, by the number of rows of each text; of several, the
    one that is `usual` in the file.
    """
    is_plain = np.array([as_number(cell) is not None for cell in counts.index], bool)
    parts = units_of(counts.index[~is_plain])
    spelled: dict[str, str] = {}  # the first spelling of each unit
    around = Counter[str]()
    for cell, (_, unit) in parts.items():
        around[spelled.setdefault(kind_of(unit), unit)] += int(counts[cell])
    around[""] += int(counts[is_plain].sum())
    most = _MOSTLY * around.total()  # have a text that is no known unit
    units = {
        unit: n
        for unit, n in around.most_common()
        if n and (not unit or n > most or units_among([unit]))
    }
    factors = dict.fromkeys(factor for factor, _ in parts.values() if factor)
    profile = ColumnProfile(name="x", kind="numeric").but(
        unit=next(filter(None, units), ""),
        factors={word: FACTORS[word] for word in factors},
        units=units,
    )
    cells = counts
    if len(units.keys() - {""}) > 1:  # all are numbers, and none can be used
        kinds = {*map(kind_of, units)}
        cells = cells.drop([cell for cell in parts if kind_of(parts[cell][1]) in kinds])
    ways: tuple[Written, ...] = "", "1,234.5", "1.234,5"
    marked = cells.index[cells.index.str.contains("[.,]")]
    if usual == "1.234,5" and len(marked) and all(map(_may_be_german, marked)):
        ways = "1.234,5", "", "1,234.5"
    elif not usual and cells.index.str.contains(r"\d\.\d{3}(?!\d)").any():
        ways = "", "1.234,5", "1,234.5"
    tried = list[ColumnProfile]()
    for way in ways:
        tried.append(_read(profile.but(written=way), cells))
        if not tried[-1].odd:
            break
    return min(tried, key=lambda found: cells[[*found.odd]].sum())


def _read(profile: ColumnProfile, cells: pd.Series) -> ColumnProfile:
    """The profile with the texts that are no numbers in its notation."""
    numbers = map(profile.number, cells.index)
    pairs = zip(cells.index, numbers, strict=True)
    odd = [cell for cell, number in pairs if not abs(number) < LARGEST_EXACT]
    return profile.but(odd=tuple(odd))


def _may_be_german(cell: str) -> bool:
    """Whether a decimal comma is possible in a text, which may be no number."""
    ways = notations_of(cell)
    return "1.234,5" in ways or not ways


def _why_left_out(
    name: str, cells: pd.Series, distinct: set[str], numeric: bool
) -> tuple[Any, str]:
    """The role of a column that is left out, and the first reason; "" for a feature."""
    n = len(cells)
    many = len(distinct) > _FEW
    seen = cells.dropna()
    some = seen.unique()[:_LOOKED_AT]
    words = (seen.str.count(r"\s+") + 1).mean()
    numbers = [number for cell in distinct if (number := as_number(cell)) is not None]
    integers = [number for number in numbers if number.is_integer()]
    countable = many and (not numeric or len(integers) == len(distinct))
    spoken_name = in_words(name)
    has_code_name = _CODE_NAME.search(spoken_name) is not None
    are_people = _PEOPLE_NAME.search(spoken_name) is not None
    several = len(distinct) < len(seen)

    def are(pattern: str) -> bool:
        """Whether at least 95 % of the values match the pattern."""
        matched = sum(bool(re.fullmatch(pattern, cell)) for cell in some)
        return matched >= 0.95 * len(some)

    different = countable and len(distinct) == n
    is_dense = len(integers) > 1 and max(integers) - min(integers) < 2 * n
    is_numbered = different and is_dense
    if different and numeric and not has_code_name and not is_dense:
        different = cells.astype(float).is_monotonic_increasing  # numbered in row order
    zeros = any(cell[0] == "0" for cell in some)
    is_place = _PLACE_NAME.search(spoken_name) and (numeric or are(r"[\d-]+"))
    is_place = is_place or (
        many and not (has_code_name or is_numbered) and zeros and are(r"\d{5}(-\d{4})?")
    )
    texts = f"{len(distinct):,} different texts"
    if len(numbers) > _FEW:
        texts += f", of which {len(numbers):,} are numbers,"
    free_text = f"free text, {texts}"
    repeated = f", some repeated; {_people(name)}" if several else ""
    # Numbers, ranges and times name nobody.
    people = f"; {_people(name)}" if several and not are(_QUANTITY) else ""
    looks = (
        (not distinct, "drop", "it has no values"),
        (
            len(distinct) == 1 and n > 2 and (numeric or len(seen) == n),
            "drop",
            "it has the same value in every row",
        ),
        (
            are(DATE),
            "drop",
            "dates; to use them, turn them into numbers, such as days or years",
        ),
        (
            is_place,
            "drop",
            "codes of places: not quantities, and they may reveal the protected group",
        ),
        (countable and are_people and several, "extra", _people(name)),
        (different and words >= 4, "drop", free_text),
        (different, "id", "every value differs, so it was taken for an id"),
        (
            countable and has_code_name and len(distinct) > len(seen) / 4,
            "extra",
            f"identifiers{repeated}",
        ),
        (numeric, "", ""),
        (max(map(len, distinct), default=0) > _LONG_TEXT, "drop", free_text),
        (
            _PERSON_NAME.search(spoken_name) and len(distinct) > _MANY_TEXTS,
            "drop",
            "names or addresses of people",
        ),
        (len(distinct) > _MANY_TEXTS and words >= 4, "drop", free_text),
        (
            len(distinct) > max(50, n // 4),
            "extra" if several else "drop",
            f"{texts} are too many for a category{people}",
        ),
        (True, "", ""),
    )
    return next((role, why) for fits, role, why in looks if fits)


def draft_task(
    path: Path,
    protected: Sequence[str],
    outcome: str,
    folder: Path,
    unknown: Collection[str] = (),
    answer: Mapping[str, Any] = {},
    **layout: Any,
) -> str:
    """Draft the text of a task file, to stand in `folder`, for a table; `layout` as in `Source`,
    `answer` as of `Drafting`.

    What its author should check stands in it (`checks_of`).
    """
    with failing_as(FwcError, f"cannot read {path}: "):
        content = path.read_bytes()
    source = sniff_source(path, content, **layout)
    table = open_table(path, content, source)
    names = named(protected, table.titles), outcome, path.name, ""
    return Drafting(path, source, table, *names, unknown, answer).draft(folder)


@dataclass
class Drafting:
    """Drafts a task for a table, whose row ids begin with `label`; `answer` has keys of [outcome],
    if any.
    """

    path: Path
    source: Source
    table: RawTable
    protected: Sequence[str]
    outcome: str
    label: str
    weight: str = ""
    unknown: Collection[str] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        titles = {*self.table.titles}
        self.protected = [titled(name, titles) for name in self.protected]
        self.outcome = titled(self.outcome, titles)
        special = [*self.protected, self.outcome, *filter(None, [self.weight])]
        if len(titles) > _MOST_COLUMNS:
            raise FwcError(
                f"{self.path}: {len(titles):,} columns are more than the {_MOST_COLUMNS:,} that a "
                f"prompt can show: write those that matter to a table of their own"
            )
        # A saved index has no title.
        names = dict.fromkeys([*filter(None, self.table.titles), *special])
        self.raw = self.table.frame([*names], self.label)
        if not len(self.raw):
            raise FwcError(f"{self.path}: the table has no rows")
        self.profiles = {name: self._profile(name) for name in names}
        self.cells = self.raw.copy(deep=False)
        for name, profile in self.profiles.items():
            unread = (*profile.markers, *profile.odd)
            self.cells[name] = _without(self.raw[name], unread)
            self.profiles[name] = self._with_missing(profile)
        others = [name for name in names if name not in special]
        others = [name for name in others if self.cells[name].notna().any()]
        if all(self.profiles[name].role != "feature" for name in others):
            # A task needs a feature: keep doubtful ones.
            for name in others:
                profile = self._with_missing(self.profiles[name].but(role="feature"))
                self.profiles[name] = profile.but(role="feature")

    def _profile(self, name: str) -> ColumnProfile:
        cells = self.raw[name]
        if name in self.protected:
            part = "protected"
        elif name == self.outcome:
            part = "threshold" if "threshold" in self.answer else "outcome"
        else:
            part = ""
        usual = self.table.usual_in(name)
        profile = profile_column(name, cells, part, self.unknown, usual)
        if name == self.weight:
            return profile.but(kind="numeric", role="extra", why="")
        if part or profile.role != "feature":
            return profile
        spoken_name = in_words(name)
        decides = re.compile(rf"(?i)(not )?{_DONE}e?d")
        values = cells.dropna().unique()[:_FEW]
        doubts = {
            "it may stand for a protected group; drop it unless decisions may use it": (
                _GROUP_NAME.search(spoken_name) or _PLACE_NAME.search(spoken_name)
            ),
            f"{_OTHER_OUTCOME}; drop it unless it is known before the decision": (
                _OUTCOME_NAME.search(spoken_name)
                or are_decisions(values)
                or any(map(decides.fullmatch, values))
                or (_LATER_NAME.search(spoken_name) and usual_meaning(values).yes)
            ),
        }
        return profile.checked(*(doubt for doubt, holds in doubts.items() if holds))

    def _with_missing(self, profile: ColumnProfile) -> ColumnProfile:
        """The profile with a rule for missing cells, and a doubt that says it.

        A missing text is a category. A number cannot be unknown: its row is left out, or, with many
        missing ones, numbers become bands. Rows without outcome, weight or (if few) group are left
        out.
        """
        name = profile.name
        missing = float(self.cells[name].isna().mean())
        if not missing or profile.use != "column" or profile.missing == "drop":
            return profile
        named = self.answer.get("negative", ()), self.answer.get("refer", ())
        if name == self.outcome and any("" in values for values in named):
            return profile
        share = _percent(missing)
        few = missing <= _FEW_MISSING
        rule = "drop" if few else "category"
        doubt = f"{share} are missing: these rows are left out"
        if name in self.protected:
            profile = profile.but(kind="categorical")
            fate = f'make the group {UNKNOWN!r}; missing = "drop" leaves them out'
            if few:
                fate = f'are left out; missing = "category" makes them the group {UNKNOWN!r}'
            doubt = f"{share} have no known group and {fate}"
        elif name in (self.outcome, self.weight):
            rule = "drop"
            doubt = "; ".join([doubt, *self._uneven(name)])
        elif profile.kind == "categorical":
            rule = "category"
            empty = self.raw[name].isna().any()
            doubt = f"{share} are missing and become {UNKNOWN!r}" if empty else ""
        elif missing > _MOSTLY_MISSING:
            doubt = f"{share} of its values are missing"
            return profile.but(role="drop", missing="drop").checked(doubt)
        else:
            bands = () if few else self._bands(profile)
            rule = "category" if bands else "drop"
            if bands:
                doubt = f'{share} are missing; with bands, "unknown" can be a band'
                profile = profile.but(kind="categorical", bands=bands)
        return profile.but(missing=rule).checked(doubt)

    def _uneven(self, name: str) -> Iterator[str]:
        """Yield a doubt on a column that is missing more often with one of other outcomes."""
        for other, profile in self.profiles.items():
            if profile.why.startswith(_OTHER_OUTCOME):
                meaning = usual_meaning(self.raw[other].dropna().unique())
                answers = self.raw[other].map(meaning.codes)
                uneven = missing_by_answer(self.cells[name].isna(), answers)
                if uneven:
                    yield f"{uneven} in {other}: the rows that stay do not speak of all"

    def _bands(self, profile: ColumnProfile) -> tuple[float, ...]:
        """Limits of bands; none is the number of a mark, since 80+ is not "up to 80"."""
        numbers = self._numbers(profile.name)
        marked = self.cells[profile.name][numbers.index].map(profile.is_marked)
        bounds = numbers[marked]
        return quartiles(numbers[~numbers.isin(bounds)]) or quartiles(numbers)

    def _numbers(self, name: str) -> pd.Series:
        """The numbers of a column, without missing ones."""
        return self.cells[name].dropna().map(self.profiles[name].number)

    def draft(self, folder: Path) -> str:
        """The text of a task file in `folder`."""
        task = parse_taskfile(self._text(folder), self.path)
        doubts = [self.table.sum_rows]
        try:
            table = clean_tables(task, [self.raw]).pool
        except FwcError:  # it cannot be used yet
            pass
        else:
            found = check_table(table, task.columns, self.outcome, self.protected)
            for name, doubt in found.columns.items():
                self.profiles[name] = self.profiles[name].checked(doubt)
            doubts.append(found.repeated)
        lines = [f"# CHECK: {doubt}\n" for doubt in doubts if doubt]
        return "".join([self._text(folder), *lines])

    def _text(self, folder: Path) -> str:
        positive, above, lines = self._answer()
        answer = dict(self.answer)
        if answer.keys() - {"words"}:
            above = answer.get("threshold", {}).get("above")
            yes = answer.get("positive", ())
            if above is None and not yes:
                yes = self._meaning()[0].yes
            answer |= {"positive": yes} if yes else {}
            if "refer" in answer:
                answer.setdefault("negative", self._meaning()[0].no)
            lines = []
            positive = yes[0] if len(yes) == 1 else "…"
        question = draft_question(self.outcome, positive, above)
        data = {"file": os.path.relpath(self.path, folder).replace(os.sep, "/")}
        data |= self.source.model_dump(exclude={"file"}, exclude_defaults=True)
        text = [
            f"# A task for fwc-llm, drafted from {_one_line(self.path.name)} "
            f"({len(self.raw):,} rows). Guesses are marked CHECK.",
            "",
            f"title = {_toml(spoken(self.path.stem))}",
            f"question = {_toml(question)}"
            f"{_check('write it as a person would ask it, as a yes-no question')}",
            'missing = "error" # where a column has no rule of its own; or "drop", "category"',
            *([f"weight = {_toml(self.weight)}"] if self.weight else []),
            "",
            "# role: feature, extra (for templates only, not for the solver), id (unique), or "
            "drop.",
            "columns = [",
            *(profile.line() for profile in self.profiles.values()),
            "]",
            "",
            "[data]",
            *_toml_lines(data),
            "",
            "[outcome]",
            f"column = {_toml(self.outcome)}",
            *_toml_lines(answer),
            *lines,
        ]
        for name in self.protected:
            text += ["", "[[protected]]", *self._protected(name)]
        return "\n".join(text) + "\n"

    def _answer(self) -> tuple[str | None, float | None, list[str]]:
        """(value that means yes, threshold, lines of the task file)."""
        if self.profiles[self.outcome].kind == "numeric":
            middle = float(self._numbers(self.outcome).median())
            doubt = _check("above which number is the answer yes? this is the median")
            return None, middle, [f"# threshold = {{ above = {middle:g} }}{doubt}"]
        meaning, counts = self._meaning()

        def rows(values: Sequence[str]) -> str:
            return listed(
                values, _MOST, lambda text: f"{_one_line(text)} ({counts[text]:,})"
            )

        empty = about_empty(counts, MeaningRule(in_file=True))
        if not (meaning.yes and meaning.no):
            counts.pop("", None)
            named = f"name the values that mean yes, of {rows([*counts])}"
            lines = [
                f"# positive = […]{_check('; '.join(filter(None, [named, empty])))}"
            ]
            if len(counts) > 2:
                lines += [
                    "# negative = […] # and those that mean no",
                    'others = "drop" # or "no": what the values mean that you do not name',
                ]
            one = [*counts] if len(counts) == 1 else ["…"]
            return (*meaning.yes, *one)[0], None, lines
        doubt = f"{rows(meaning.yes)} was taken for yes, {rows(meaning.no)} for no"
        if meaning.unknown:
            doubt += f"; rows with {rows(meaning.unknown)} are left out"
        lines = [
            f"positive = {_toml(meaning.yes)}{_check(doubt)}",
            f"negative = {_toml(meaning.no)}",
        ]
        referred = tuple(filter(is_referral, meaning.dropped))
        if referred:
            doubt = (
                f"{rows(referred)} was taken for a third answer, which a person decides"
            )
            lines.append(f"refer = {_toml(referred)}{_check(doubt)}")
        dropped = [text for text in meaning.dropped if text not in referred]
        if dropped:
            doubt = f'what of {rows(dropped)}? "drop" these rows, or "no"'
            lines.append(f'# others = "drop"{_check(doubt)}')
        return meaning.yes[0], None, lines

    def _meaning(self) -> tuple[Meaning, dict[str, int]]:
        """The meaning of the outcome's values, and the number of rows of each, "" for empty."""
        used = [
            profile
            for profile in self.profiles.values()
            if profile.use == "column" and profile.name != self.outcome
        ]
        cells = self.cells[self.outcome].fillna("")
        counts = counted(cells, complete(used, "error", self.cells))
        keys = "positive", "negative", "refer"
        sides = [tuple(self.answer.get(key, ())) for key in keys]
        return usual_meaning(counts, *sides), counts

    def _protected(self, name: str) -> list[str]:
        """The column, with doubts about its groups, and a threshold for many numbers."""
        cells = self.cells[name].dropna()
        different = cells.nunique()
        numbers = self._numbers(name)
        if different > _FEW and numbers.notna().all():
            doubt = f"a number with {different:,} values; split it with a threshold"
            limit = f"# threshold = {{ above = {numbers.median():g} }}"
            line = f"{limit} # the median; or a map of values"
            return [f"column = {_toml(name)}{_check(doubt)}", line]
        groups, doubts = groups_of(name, counted(cells))
        codes = sorted({*groups.values()} - {UNKNOWN})
        if all(as_number(code) is not None for code in codes):
            doubts.append(
                f"In {name}, {listed(codes, _LISTED)} are codes: say what they mean in "
                '[values], and which mean unknown (missing_marker and missing = "category")'
            )
        if different == 1 and name != self.outcome:
            one = cells.iloc[0]
            line = f"map = {_toml({one: one, '': f'no {one}'})}"
            doubts.append(f"one value, {one}: if an empty cell is a group, too, {line}")
        levels = cells.map(groups).value_counts()
        if len(levels) > _FEW or (levels < _SMALL).any():
            few = "some with few rows; map = { … } can give several one name"
            doubts.append(f"{len(levels)} levels, {few}")
        return [f"column = {_toml(name)}{_check('; '.join(doubts))}"]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "under 1 %"


def draft_question(outcome: str, positive: str | None, above: float | None) -> str:
    """Draft a question; yes means the value `positive`, or above `above`."""
    is_yes = positive is None or means_yes(positive)
    for text in (positive or "", *([outcome] if is_yes and above is None else [])):
        done = re.match(rf"(?i)(?:.*[ _.-])?(?<!not[ _-]){_DONE}", text)
        if done:
            return f"Should this case be {done[1].lower()}ed?"
    value = f"“{positive or 'yes'}”" if above is None else f"above {above:g}"
    return f"Is “{spoken(outcome)}” {value} in this case?"


def spoken(name: str) -> str:
    """A column's name with spaces instead of underscores and hyphens."""
    return " ".join(re.sub(r"[_\-]+", " ", name).split()) or name


def _one_line(text: str, most: int = 40) -> str:
    """A cell or name for a comment: on one line, printable, truncated."""
    return "".join(char if char.isprintable() else " " for char in text)[:most]


def _check(doubt: str) -> str:
    """A doubt as a comment behind a line; "" for none."""
    whole_words = shorten(_one_line(doubt, len(doubt)), _LONGEST, placeholder=" …")
    return f" # CHECK: {whole_words}" if doubt else ""


def _toml_lines(values: Fields) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items()]


def _toml(value: Any) -> str:
    """A text, a list of texts or numbers, or a table of such values, as TOML."""
    if isinstance(value, dict):
        keys = {key if re.fullmatch(r"\w+", key) else _toml(key): key for key in value}
        entries = _toml_lines({name: value[key] for name, key in keys.items()})
        return f"{{ {', '.join(entries)} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
