"""Which values of an outcome, an answer or a label mean yes, and which no.

`read_meaning` is the only place that decides it: for task files, data frames, audits and monitors.
It imports neither pandas nor numpy.
"""

import json
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fwc_llm.errors import FwcError, near
from fwc_llm.sanitize import listed
from fwc_llm.words import NO_WORDS, YES_WORDS, as_number, is_unknown

Others = Literal["no", "drop"]
_MOST_VALUES = 8  # values that a message lists
ABOVE = "threshold = { above = NUMBER }"  # in a task file
_SAME = {"true": "1", "1": "true", "false": "0", "0": "false"}
_NEGATION = re.compile(r"not|no|non|never|nicht|keine?|do|does|did|don|doesn|didn|t")


@dataclass(frozen=True)
class MeaningRule:
    """What a caller says of values: `positive` mean yes, `negative` no.

    `others`: all other values mean no, or their rows are left out. `options` is how messages write
    these three: as options of the command line, arguments in Python, or keys of a task file.
    """

    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    others: Others | None = None
    options: Literal["command line", "python", "task file"] = "python"
    above: str = ""  # how a threshold for numbers is written, if there can be one

    def option(self, name: str, values: Sequence[str]) -> str:
        """An option with values, as the caller writes it."""
        if self.options == "task file":
            written = values[0] if name in ("others", "missing") else [*values]
            return f"{name} = {json.dumps(written, ensure_ascii=False)}"
        if self.options == "command line":
            typed = ",".join(values)
            return f"--{name.replace('_', '-')} {shlex.quote(typed) if ' ' in typed else typed}"
        if len(values) == 1:
            return f"{name}={values[0]!r}"
        return f"{name}={[*values]!r}"


@dataclass(frozen=True)
class Meaning:
    """The values that mean yes and no, and those whose rows are left out.

    Values that mean "unknown" are in none of them: they count as empty cells.
    """

    yes: tuple[str, ...]
    no: tuple[str, ...]
    dropped: tuple[str, ...] = ()

    @property
    def answers(self) -> tuple[str, str]:
        """The words for no and yes in the clean table: "no" and "yes".

        Where the outcome itself has these words and means something else, its own words stay, so
        that a cell means the same in the clean table as in the raw one.
        """
        yes = {_key(text) for text in (*self.yes, *self.dropped)}
        no = {_key(text) for text in (*self.no, *self.dropped)}
        if "no" in yes or "yes" in no:
            return self.no[0], self.yes[0]
        return "no", "yes"

    @property
    def texts(self) -> tuple[str, ...]:
        """All values that have a meaning."""
        return (*self.yes, *self.no, *self.dropped)

    def of(self, value: str) -> bool | None:
        """True for yes, False for no, None for neither."""
        if value in self.yes:
            return True
        if value in self.no:
            return False
        return None


def values_of(option: Any) -> tuple[str, ...]:
    """The values of `positive` or `negative` in Python, as texts: one value, several, or None."""
    if option is None:
        return ()
    if isinstance(option, list | tuple | set):
        values = option
    else:
        values = [option]
    return tuple(map(text_of, values))


def text_of(value: Any) -> str:
    """A value as text: True is "true", also of numpy."""
    if type(value).__name__.startswith("bool"):
        return str(value).lower()
    return str(value)


def read_meaning(
    counts: Mapping[str, int],
    column: str,
    rule: MeaningRule,
    first: Mapping[str, Any] = {},
) -> Meaning:
    """Decide what each value of a column means; `counts` has the number of rows of each.

    Values are compared without case, surrounding punctuation and forms of numbers: "Yes." is "yes",
    1.0 is 1. `first` has the first row of a value, for errors. Raises `FwcError` for a value
    without a meaning.
    """
    by_key: dict[str, list[str]] = {}
    for value in counts:
        by_key.setdefault(_key(value), []).append(value)
    yes = list(_given(rule.positive, by_key))
    no = [key for key in _given(rule.negative, by_key) if key in by_key]
    for key, value in _given(rule.positive, by_key).items():
        if key not in by_key:
            raise FwcError(
                f"{_held(counts, column)}; {value!r} is none of them{near(value, [*counts])}"
            )
        if key in no:
            raise FwcError(
                f"{_held(counts, column)}; {by_key[key][0]!r} cannot mean both yes and no"
            )
    positive = bool(yes)
    keys = [key for key in by_key if not is_unknown(key) or key in (*yes, *no)]
    usual = _inferred(keys)
    yes = yes or [key for key in usual[0] if key not in no]
    rest = [key for key in keys if key not in yes]
    if not no:
        no = (
            rest
            if positive and len(rest) == 1
            else [key for key in usual[1] if key not in yes]
        )
    rest = [key for key in keys if key not in yes and key not in no]
    if yes and rule.others == "no":
        no = [*no, *rest]
        rest = []
    if rest and not (yes and no and rule.others == "drop"):
        written = [by_key[key][0] for key in rest]
        remedy = _remedy(rule, by_key, yes, no, written, first)
        numbers = all(as_number(key) is not None for key in keys)
        if rule.above and numbers and len(keys) > 2 and not positive:
            split = f"say above which number the answer is yes: {rule.above}"
            many = len(keys) > _MOST_VALUES
            remedy = split if many else f"{remedy}; or {split}"
        raise FwcError(f"{_held(counts, column)}; {remedy}")

    def texts(keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(value for key in keys for value in by_key[key])

    return Meaning(texts(yes), texts(no), texts(rest))


def usual_meaning(values: Iterable[str]) -> Meaning:
    """What the values usually mean; nothing means yes if yes and no cannot be told apart."""
    try:
        return read_meaning(dict.fromkeys(values, 1), "", MeaningRule(others="drop"))
    except FwcError:
        return Meaning((), ())


def means_yes(value: str) -> bool:
    """Whether a value is a usual word for yes."""
    return _key(value) in _YES


def _key(value: str) -> str:
    """What two spellings of one value have in common."""
    number = as_number(value.strip())
    if number is not None:
        return f"{number:.12g}"
    return " ".join(
        unicodedata.normalize("NFKC", value).casefold().strip(" .,;:!'\"").split()
    )


_YES = {_key(word) for word in YES_WORDS.split()}
_NO = {_key(word) for word in NO_WORDS.split()}


def _given(values: Sequence[str], by_key: Collection[str]) -> dict[str, str]:
    """The given values by their keys; one value may be a list, typed with commas."""
    given = [*values]
    if len(given) == 1 and _key(given[0]) not in by_key:
        given = [part.strip() for part in given[0].split(",")]
    found = {}
    for value in given:
        key = _key(value)
        if key not in by_key:
            key = _SAME.get(key, key)
        found[key] = value
    return found


def _inferred(keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """The keys that usually mean yes, and no."""
    if len(keys) == 2:
        for one, other in (keys, keys[::-1]):
            if _is_opposite(one, other):
                return [one], [other]
    # Without 0 beside it, 1 is a code: it is good in one file, and denied in another.
    is_code = len(keys) > 1 and "0" not in keys
    yes = [key for key in keys if key in _YES and not (is_code and key == "1")]
    return yes, [key for key in keys if key in _NO]


def _is_opposite(one: str, other: str) -> bool:
    """Whether `other` is the negation of `one`: "not hired" of "hired", "<=50k" of ">50k"."""
    if one.startswith(">") and other.startswith("<"):
        return one.strip(">= ") == other.strip("<= ")
    words = re.findall(r"\w+", one)
    others = re.findall(r"\w+", other)
    added = [word for word in others if _NEGATION.fullmatch(word) and word not in words]
    return (
        bool(words and added)
        and [word for word in others if word not in added] == words
    )


def _held(counts: Mapping[str, int], column: str) -> str:
    known = [pair for pair in counts.items() if not is_unknown(pair[0])] or [
        *counts.items()
    ]
    values = listed(known, _MOST_VALUES, lambda pair: f"{pair[0]!r} ({pair[1]:,})")
    verb = "have" if " and " in column else "has"
    return f"{column} {verb} {len(known)} value{'s' * (len(known) > 1)}: {values}"


def _remedy(
    rule: MeaningRule,
    by_key: Mapping[str, Sequence[str]],
    yes: Sequence[str],
    no: Sequence[str],
    rest: Sequence[str],
    first: Mapping[str, Any],
) -> str:
    """What to say about values without a meaning."""
    if not yes:
        options = [rule.option("positive", [value]) for value in rest[:2]]
        if len(rest) > 2:
            return f"say which mean yes, such as {options[0]}"
        return f"say which means yes: {' or '.join(options)}"
    yes_texts = [by_key[key][0] for key in yes]
    no_texts = [by_key[key][0] for key in no]
    every_no = rule.option("negative", [*no_texts, *rest])
    ways = [
        f"no ({rule.option('others', ['no']) if len(rest) > _MOST_VALUES else every_no})"
    ]
    if no and len(rest) <= _MOST_VALUES:
        ways.insert(0, f"yes ({rule.option('positive', [*yes_texts, *rest])})")
    if no:
        ways.append(
            f"neither, so that these rows are left out ({rule.option('others', ['drop'])})"
        )
    if len(rest) == 1:
        verb = "means"
    else:
        verb = "mean"
    if rest[0] in first:
        where = f" ({rest[0]!r} is first in row {first[rest[0]]})"
    else:
        where = ""
    return f"say what {listed(rest, _MOST_VALUES, repr)} {verb}: {' or '.join(ways)}{where}"
