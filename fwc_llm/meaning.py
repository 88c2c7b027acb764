"""Which values of an outcome, an answer or a label mean yes, no, or refer (to a person).

`read_meaning` is the only place that decides it: for task files, data frames, audits and monitors.
It imports neither pandas nor numpy.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fwc_llm.cell_rules import as_text, is_amount
from fwc_llm.errors import FwcError, near
from fwc_llm.sanitize import Counts, Fields, Texts, listed, replace_invisible
from fwc_llm.words import (
    DENIED_WORDS,
    GRANTED_WORDS,
    NO_WORDS,
    REFERRED_WORDS,
    YES_WORDS,
    as_number,
    folded,
    rejoined,
    unknown_values,
)

Others = Literal["no", "drop"]
_MOST_VALUES = 8  # values that a message lists
ABOVE = "threshold = { above = NUMBER }"  # in a task file
_SAME = {"true": "1", "1": "true", "false": "0", "0": "false"}
_NEGATION = re.compile(r"not|no|non|never|nicht|keine?|do|does|did|don|doesn|didn|t")


@dataclass(frozen=True)
class MeaningRule:
    """What a caller says of values: `positive` mean yes, `negative` no, `refer` a third answer.

    `others`: all other values mean no, or their rows are left out. Messages write these three as
    options (see `notices.spoken`), or as keys of a task file (`in_file`).
    """

    positive: Texts = ()
    negative: Texts = ()
    others: Others | None = None
    refer: Texts = ()
    in_file: bool = False
    above: str = ""  # how a threshold for numbers is written, if there can be one
    column: str = ""  # "answer" or "label", if the other has a meaning of its own

    @property
    def has_both(self) -> bool:
        """Whether the caller names values for yes and for no."""
        return bool(self.positive and self.negative)

    @property
    def of_empty(self) -> bool:
        """Whether empty cells have a meaning."""
        return "" in (*self.positive, *self.negative, *self.refer)

    @property
    def instead(self) -> str:
        """What another value of `others` replaces."""
        return f" in place of {self.written(others=self.others)}" if self.others else ""

    def written(self, **given: str | Sequence[str]) -> str:
        """Options with their values, as the caller writes them."""
        if self.in_file:
            keys = {
                name: json.dumps(of, ensure_ascii=False) for name, of in given.items()
            }
            return " and ".join(f"{name} = {value}" for name, value in keys.items())
        flags = {"positive": f"positive-{self.column}".rstrip("-")}
        typed = {
            name: of if isinstance(of, str) else ",".join(of)
            for name, of in given.items()
        }
        return " ".join(
            f"--{flags.get(name, name)} {text!r}" for name, text in typed.items()
        )


@dataclass(frozen=True)
class Meaning:
    """The values that mean yes, no, refer and none of them, and words for an unknown value.

    Rows with the latter two are left out. An answer that is unknown is no answer.
    """

    yes: Texts
    no: Texts
    dropped: Texts = ()
    unknown: Texts = ()
    refer: Texts = ()

    @property
    def answers(self) -> Texts:
        """The words in the clean table by code (`of`): "no", "yes" and, if any value means it,
        "refer".

        Where the outcome itself has these words and means something else, its own words stay, so
        that a cell means the same in the clean table as in the raw one.
        """
        sides = {"no": self.no, "yes": self.yes}
        if self.refer:
            sides["refer"] = self.refer
        for word, values in sides.items():
            others = {*self.texts}.difference(self.unknown, values)
            if word in map(_key, others):
                return tuple(own[0] for own in sides.values())
        return tuple(sides)

    @property
    def reverses(self) -> bool:
        """Whether a value that usually means yes means no."""
        usual = usual_meaning([*self.yes, *self.no])
        return not {*self.no}.isdisjoint(usual.yes)

    @property
    def texts(self) -> Texts:
        """All values that have a meaning."""
        return (*self.yes, *self.no, *self.refer, *self.dropped, *self.unknown)

    def sentence(self, column: str, counts: Counts) -> str:
        """The values of yes and no with their rows: 'said: yes = "Ja" (12), no = "Nein" (9)'."""
        sides = []
        for side in ("yes", "no", "refer"):
            values = vars(self)[side]
            held = {
                f'"{text}"' if text else "empty": counts.get(text) for text in values
            }
            shown = [f"{text} ({n:,})" for text, n in held.items() if n]
            if shown:
                sides.append(f"{side} = {listed(shown, _MOST_VALUES)}")
        return replace_invisible(f"{column}: {', '.join(sides)}")

    @property
    def codes(self) -> dict[str, int]:
        """What each value means: 0 for no, 1 for yes, 2 for refer."""
        sides = enumerate((self.no, self.yes, self.refer))
        return {value: code for code, side in sides for value in side}

    def also(self, values: Iterable[str]) -> "Meaning":
        """The meaning with those of `values` that are other spellings of its own."""
        sides = {name: dict.fromkeys(texts) for name, texts in vars(self).items()}
        known = {_key(text): side for side in sides.values() for text in side}
        for value in values:
            key = _key(value)
            side = known.get(key, known.get(_SAME.get(key, key), {}))
            side[value] = None
        return Meaning(**{name: tuple(side) for name, side in sides.items()})


def values_of(option: Any) -> Texts:
    """The values of `positive` or `negative` as texts: one value, several, or None. A comma at the
    end of a text stands before an empty value: "nein,".
    """
    if option is None:
        return ()
    if isinstance(option, list | tuple | set):
        values = option
    elif isinstance(option, str) and option.endswith(","):
        values = [option[:-1], ""]
    else:
        values = [option]
    return tuple(map(as_text, values))


def read_meaning(counts: Counts, column: str, rule: MeaningRule) -> Meaning:
    """Decide what each value of a column means; `counts` has the number of rows of each.

    Values are compared without case, surrounding punctuation and forms of numbers: "Yes." is "yes",
    1.0 is 1. Empty cells, in `counts` as "", have a meaning only if the rule names it. Raises
    `FwcError` for a value without a meaning.
    """
    by_key: dict[str, list[str]] = {}
    for value in counts:
        if value or rule.of_empty:
            by_key.setdefault(_key(value), []).append(value)
    positives = _given(rule.positive, by_key)
    negatives = _given(rule.negative, by_key)
    referred = _given(rule.refer, by_key)
    for word, one, others in (
        ("yes and no", positives, negatives),
        ("refer and another answer", referred, positives | negatives),
    ):
        for key in one.keys() & others:
            raise FwcError(
                f"{_held(counts, column)}; {one[key]!r} cannot mean both {word}"
            )
    refer = [key for key in by_key if key in referred]
    named_yes = [key for key in positives if key in by_key]
    named_no = [key for key in negatives if key in by_key]
    known = {*_known({*by_key}), *named_yes, *named_no} - {*refer}
    keys = [key for key in by_key if key in known]
    usual_yes, usual_no = _inferred([*filter(None, keys)])
    yes = named_yes or [key for key in usual_yes if key not in named_no]
    no = [*named_no]
    absent = [text for key, text in positives.items() if key not in by_key]
    if not no and {*keys} != {*named_yes} and not rule.column:
        absent += negatives.values()
    if rule.has_both and {*keys} == {*named_yes, *named_no}:
        absent = []  # all answers may be alike
    for value in absent:
        raise FwcError(
            f"{_held(counts, column)}; {value!r} is none of them{near(value, [*counts])}"
        )
    rest = [key for key in keys if key not in (*yes, *no)]
    if not any(no):
        alone = named_yes and len(rest) == 1
        no += rest if alone else filter(rest.__contains__, usual_no)
        rest = [key for key in rest if key not in no]
    if negatives and not yes and len(rest) == 1:
        yes = [rest.pop()]
    sides = [[by_key[key][0] for key in side] for side in (yes, no, rest)]
    if yes and rule.others == "no":
        no = [*no, *rest]
        rest = []
    if rest and not (yes and no and rule.others == "drop"):
        remedy = _remedy(rule, *sides)
        numbers = all(is_amount(by_key[key][0]) for key in keys)
        if rule.above and not named_yes and numbers and len(keys) > 2:
            split = f"above which number the answer is yes: {rule.above}{rule.instead}"
            many = len(keys) > _MOST_VALUES
            quantities = f"{remedy}; or, if these are no codes, {split}"
            remedy = f"say {split}" if many else quantities
        empty = about_empty(counts, rule)
        raise FwcError("; ".join(filter(None, [_held(counts, column), remedy, empty])))

    doubted = _doubted((named_yes, named_no), (yes, no), keys)
    if doubted:
        words = [by_key[key][0] for key in doubted]
        ways = [
            rule.written(**{side: [text for text in own if text not in words] + words})
            for side, own in (("positive", sides[0]), ("negative", sides[1]))
        ]
        means = f"say what {listed(words, _MOST_VALUES, repr)} means"
        raise FwcError(
            f"{_held(counts, column)}; {means}, a usual word: {' or '.join(ways)}"
        )

    def texts(keys: Sequence[str]) -> Texts:
        return tuple(value for key in keys for value in by_key[key])

    unknown = [key for key in by_key if key not in known and key not in refer]
    return Meaning(texts(yes), texts(no), texts(rest), texts(unknown), texts(refer))


def is_ticked(values: Iterable[str], rule: MeaningRule) -> bool:
    """Whether values are one beside empty cells, as in a column of ticked boxes."""
    keys = _known({_key(value) for value in values if value})
    return len(keys) == 1 or (bool(keys) and keys <= _given(rule.positive, keys).keys())


def about_empty(counts: Counts, rule: MeaningRule) -> str:
    """What to say of empty cells (in `counts` as "") of a column that `is_ticked`."""
    is_settled = rule.of_empty or rule.has_both or not counts.get("")
    if is_settled or not is_ticked(counts, rule):
        return ""
    keys = _known({_key(value) for value in counts if value})
    side, word = ("positive", "yes") if keys <= _NO else ("negative", "no")
    cells = f"{counts['']:,} cell{'s' * (counts[''] > 1)} without a value"
    named = rule.written(**{side: [*vars(rule)[side], ""]})
    return f"{cells}: if an empty cell means {word}, {named}"


def rules_of(options: Fields) -> dict[str, MeaningRule]:
    """The rules of an answer and a label, by the options of an audit."""
    own = {name: values_of(options[f"positive_{name}"]) for name in ("answer", "label")}
    yes_values, no_values = map(values_of, (options["positive"], options["negative"]))
    column = options.get("answer") or "COLUMN"
    above = f"--above NUMBER, or name probabilities: --p-yes {column!r}"
    if options.get("above", 0) is not None:
        above = ""
    referred = values_of(options["refer"])
    rule = MeaningRule(yes_values, no_values, options["others"], referred, above=above)
    return {
        name: replace(
            rule, positive=yes or rule.positive, column=name * any(own.values())
        )
        for name, yes in own.items()
    }


def own_rules(
    rules: Mapping[str, MeaningRule], values: Mapping[str, Iterable[str]]
) -> Mapping[str, MeaningRule]:
    """The rules of columns, which have a meaning each if they share no value, or if the caller
    says so.
    """
    keys = {name: _known({*map(_key, texts)}) for name, texts in values.items()}
    every = set[str]().union(*keys.values())
    sizes = [len(own) for own in keys.values()]
    apart = sum(sizes) == len(every) and min(sizes) > 1
    if not apart and not any(rules[name].column for name in keys):
        return rules
    found = {}
    for name, own in keys.items():
        given = _given(rules[name].positive, every).items()
        positive = [text for key, text in given if key in own or key not in every]
        found[name] = replace(rules[name], positive=tuple(positive), column=name)
    return found


def usual_meaning(
    values: Iterable[str], positive: Texts = (), negative: Texts = (), refer: Texts = ()
) -> Meaning:
    """What the values mean, usually or as is given; nothing means yes if yes and no cannot be told
    apart.
    """
    rule = MeaningRule(positive, negative, "drop", refer)
    try:
        return read_meaning(dict.fromkeys(values, 1), "", rule)
    except FwcError:
        return Meaning((), ())


def means_yes(value: str) -> bool:
    """Whether a value is a usual word for yes."""
    return _key(value) in _YES


def are_decisions(values: Iterable[str]) -> bool:
    """Whether two of the values are usual words for decisions, such as approved and denied."""
    return len({_key(value) for value in values} & (_GRANTED | _DENIED)) > 1


def is_referral(value: str) -> bool:
    """Whether a value is a usual word for a case that a person decides."""
    return _key(value) in _REFERRED


def _key(value: str) -> str:
    """What two spellings of one value have in common."""
    number = as_number(re.sub(r"^(-?\d+),(\d\d?)$", r"\1.\2", value.strip()))
    if number is not None:
        return f"{number:.12g}"
    return " ".join(folded(value).strip(" .,;:!'\"").split())


_GRANTED = {_key(word) for word in GRANTED_WORDS.split()}
_DENIED = {_key(word) for word in DENIED_WORDS.split()}
_REFERRED = {_key(word.replace("_", " ")) for word in REFERRED_WORDS.split()}
_PLAIN = {_key(word) for word in f"{YES_WORDS} {NO_WORDS}".split()}
_YES = _GRANTED.union(map(_key, YES_WORDS.split()))
_NO = _DENIED.union(map(_key, NO_WORDS.split()))


def _given(values: Sequence[str], by_key: Collection[str]) -> dict[str, str]:
    """The given values by their keys; one may be a list, typed with commas."""
    found = {}
    for given in values:
        parts = [given]
        if _key(given) not in by_key:
            parts = rejoined(given.split(","), lambda text: _key(text) in by_key)
        for value in parts:
            key = _key(value)
            found[key if key in by_key else _SAME.get(key, key)] = value
    return found


def _inferred(keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """The keys that usually mean yes, and no."""
    if len(keys) == 2:
        for one, other in (keys, keys[::-1]):
            if _is_opposite(one, other):
                sides = ([one], [other])
                return sides[::-1] if one in _NO else sides
    # Without 0 beside it, 1 is a code: it is good in one file, and denied in another.
    is_code = len(keys) > 1 and "0" not in keys
    yes = [key for key in keys if key in _YES and not (is_code and key == "1")]
    return yes, [key for key in keys if key in _NO]


def _doubted(
    given: tuple[Collection[str], Collection[str]],
    read: tuple[Collection[str], Collection[str]],
    keys: Sequence[str],
) -> list[str]:
    """The usual words that the caller does not name and that get another meaning, or none; `given`
    and `read` are the keys for yes and no, by the caller and at all.

    If the caller's words mean the opposite of the usual, so do the others. Words for decisions may
    be left out; numbers and letters beside 2 or b are codes.
    """
    usual = _inferred([*filter(None, keys)])
    kept, turned = (
        any(not {*own}.isdisjoint(side) for own, side in zip(given, sides, strict=True))
        for sides in (usual, usual[::-1])
    )
    if turned:
        usual = ([], []) if kept else usual[::-1]
    codes = [key for key in keys if len(key) == 1 or as_number(key) is not None]
    named = {*given[0], *given[1], *(codes if not _PLAIN.issuperset(codes) else ())}
    left_out = {*keys}.difference(*read)
    wrong = left_out & _PLAIN
    for expected, others in zip(usual, read[::-1], strict=True):
        wrong |= {*expected}.intersection(others)
    return [key for key in keys if key in wrong - named]


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


def _known(keys: set[str]) -> set[str]:
    """The keys of values that are not unknown."""
    return keys.difference(unknown_values(keys))


def _held(counts: Counts, column: str) -> str:
    held = {value: n for value, n in counts.items() if value}
    keys = _known({*map(_key, held)})
    known = [pair for pair in held.items() if _key(pair[0]) in keys]
    known = known or [*held.items()]
    values = listed(known, _MOST_VALUES, lambda pair: f"{pair[0]!r} ({pair[1]:,})")
    verb = "have" if " and " in column else "has"
    return f"{column} {verb} {len(known)} value{'s' * (len(known) > 1)}: {values}"


def _remedy(
    rule: MeaningRule, yes: Sequence[str], no: Sequence[str], rest: Sequence[str]
) -> str:
    """What to say about values without a meaning; every option works as it is written."""
    if not yes and len(no) + len(rest) < 3:
        options = [rule.written(positive=[value]) for value in rest]
        return f"say which means yes: {' or '.join(options)}"
    if len(yes) + len(no) + len(rest) < 3:
        return f"say what {rest[0]!r} means: {rule.written(negative=rest)}"
    if not yes or not no:
        examples = iter(rest)
        sides = {
            "positive": yes or [next(examples)],
            "negative": no or [next(examples)],
        }
        new = {side: held for side, held in sides.items() if not vars(rule)[side]}
        drop = rule.written(**new, **({} if rule.others else {"others": "drop"}))
        new.pop("negative", None)
        every_no = rule.written(**new, others="no") + rule.instead
        if not yes:
            every_no = f"for example {every_no}"
        return (
            f"say which mean yes and which no, and whether others mean no ({every_no}) "
            f"or neither (for example {drop})"
        )
    ways = [
        f"no ({rule.written(others='no')})",
        f"neither ({rule.written(others='drop')})",
    ]
    if all(map(is_referral, rest)):
        referred = rule.written(refer=[*rule.refer, *rest])
        ways.insert(0, f"a third answer ({referred})")
    if len(rest) <= _MOST_VALUES:
        ways.insert(0, f"yes ({rule.written(positive=[*yes, *rest])})")
    values = listed(rest, _MOST_VALUES, repr)
    return f"say what to take {values} for: {' or '.join(ways)}"
