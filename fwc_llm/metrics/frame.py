"""From a table of answers, wherever they come from, to what statistics start from; bad input is named."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import Answered, Answers, as_names, mapped, names_of, one_name, questions_of
from fwc_llm.metrics.cells import levels_of
from fwc_llm.metrics.views import CROSSING

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names

DESIGNS = ("group", "group and label")
NEEDED = ("group", "label", "answer")


def from_frame(
    frame: "pd.DataFrame", design: str = "group", attributes: Sequence[str] = (), arms: Sequence[str] = ()
) -> Answered:
    """Return the answers of a table with the columns of `audit`, checked.

    Raises `FwcError` for a missing column, labels and answers that are neither yes nor no, a row with two
    labels or two groups, a question that is there twice, and an arm that lacks questions of the others.
    """
    if design not in DESIGNS:
        raise FwcError(f"the design is {design!r}: choose {' or '.join(map(repr, DESIGNS))}")
    if missing := [name for name in NEEDED if name not in frame.columns]:
        raise FwcError(f"the answers have no column {missing[0]!r}: they need {', '.join(NEEDED)}")
    if not len(frame):
        raise FwcError("there are no answers to audit")
    n = len(frame)
    columns: dict[str, Any] = {
        "arm": _text(frame, "arm", "answers"),
        "repeat": _text(frame, "repeat", "0"),
        "row": _text(frame, "row") if "row" in frame.columns else _numbers(n),
        "group": _text(frame, "group"),
        "examples": _text(frame, "examples", ""),
    }
    columns["label"] = _yes_or_no(frame, "label", unknown=False)
    columns["answer"] = _yes_or_no(frame, "answer", unknown=True)
    columns["p_yes"] = _probability(frame)
    columns["reason"] = empty_but(_text(frame, "reason", "", True), np.isnan(columns["answer"]))
    columns["repeat"] = _in_order(columns["repeat"])
    _check_rows(columns)
    asked = columns.pop("arm")
    by_arm = {
        arm: _arm({name: values[asked == arm] for name, values in columns.items()})
        for arm in asked.unique().tolist()
    }
    _check_arms(by_arm)
    return Answered(
        by_arm, by_base_rate(next(iter(by_arm.values()))), design == DESIGNS[1], attributes=tuple(attributes)
    )


def by_base_rate(answers: Answers) -> tuple[str, ...]:
    """Return the groups in the order of their base rates, lowest first; equal ones by name."""
    names, member = levels_of(answers.group)
    rates = np.bincount(member, answers.label) / np.bincount(member)
    return tuple(names[place] for place in np.argsort(rates, kind="stable"))


def by_attribute(crossed: Answered) -> dict[str, Answered]:
    """Return the same answers by each protected attribute, and (of several) by all of them, as given."""
    names = crossed.attributes
    if len(names) < 2:
        return dict.fromkeys(names, crossed)
    found = {}
    for place, name in enumerate(names):
        answers = {arm: replace(a, group=part_of(a.group, place)) for arm, a in crossed.answers.items()}
        groups = by_base_rate(next(iter(answers.values())))
        found[name] = replace(crossed, answers=answers, groups=groups, attributes=(name,))
    return {**found, " & ".join(names): crossed}


def empty_but(names: "Names", mask: Any) -> "Names":
    """Return the names at a mask (n,), and empty texts elsewhere."""
    return as_names(np.where(mask, np.asarray(names, object), ""))


def part_of(groups: "Names", place: int) -> "Names":
    """Return the level of one attribute of crossed groups ("Male & White")."""
    return mapped(groups, lambda group: group.split(CROSSING)[place])


def _arm(columns: dict[str, Any]) -> Answers:
    return Answers(
        repeat=columns["repeat"],
        row=columns["row"],
        variant=one_name("", len(columns["row"])),
        group=columns["group"],
        label=columns["label"].astype(np.int8),
        answer=columns["answer"],
        reason=columns["reason"],
        p_yes=columns["p_yes"],
        examples=columns["examples"],
    )


def _in_order(names: "Names") -> Any:
    """Repeats as numbers from 0: by number where all are numbers, else by name."""
    different, code = levels_of(names)
    order = np.arange(len(different))
    if all(name.isdecimal() for name in different):
        order = np.argsort(np.argsort([int(name) for name in different], kind="stable"))
    return order[code].astype(np.int64)


def _numbers(n: int) -> "Names":
    """Every line as a row of its own, named by its number."""
    return names_of(np.arange(n), list(map(str, range(n))))


def _text(frame: "pd.DataFrame", name: str, otherwise: str = "", empty: bool = False) -> "Names":
    """A column as text; a missing value is refused, unless `empty` makes it an empty text."""
    if name not in frame.columns:
        return one_name(otherwise, len(frame))
    code, values = _coded(frame, name)
    if (code < 0).any():
        if not empty:
            raise FwcError(f"line {int(np.argmax(code < 0)) + 1} of the answers has no {name}")
        code, values = np.where(code < 0, len(values), code), [*values, ""]
    return names_of(code, list(map(str, values)))


def _yes_or_no(frame: "pd.DataFrame", name: str, unknown: bool) -> Any:
    """A column of yes and no as 1 and 0; what is missing (None, NaN or an empty text) is NaN."""
    code, values = _coded(frame, name)
    known = {"yes": 1.0, "no": 0.0}
    meant = [known.get(value) if isinstance(value, str) else None for value in values]
    for place, (value, number) in enumerate(zip(values, meant, strict=True)):
        if number is None:
            line = int(np.argmax(code == place)) + 1
            raise FwcError(f"line {line} of the answers has the {name} {value!r}: it must be 'yes' or 'no'")
    if (code < 0).any() and not unknown:
        raise FwcError(f"line {int(np.argmax(code < 0)) + 1} of the answers has no {name}")
    return np.array([*meant, np.nan], dtype=np.float64)[code]


def _coded(frame: "pd.DataFrame", name: str) -> tuple[Any, list[Any]]:
    """A column as numbers of its different values, -1 where one is missing or an empty text."""
    import pandas as pd

    column = frame[name]
    if isinstance(column, pd.DataFrame):
        raise FwcError(f"the answers have two columns {name!r}")
    if isinstance(column.dtype, pd.CategoricalDtype):
        code, different = pd.factorize(column.array)
    else:
        code, different = pd.factorize(column.to_numpy(dtype=object))
    values: list[Any] = different.tolist()
    if "" in values:
        code = np.where(code == values.index(""), -1, np.where(code > values.index(""), code - 1, code))
        values.remove("")
    return code, values


def _probability(frame: "pd.DataFrame") -> Any:
    if "p_yes" not in frame.columns:
        return np.full(len(frame), np.nan)
    given = frame["p_yes"]
    try:
        found = np.array(
            given
            if given.dtype == np.float64
            else [np.nan if lost else float(v) for v, lost in zip(given, given.isna(), strict=True)]
        )
    except (TypeError, ValueError):
        raise FwcError("p_yes must hold numbers from 0 to 1, or nothing") from None
    if ((found < 0) | (found > 1)).any():
        raise FwcError(
            f"line {int(np.argmax((found < 0) | (found > 1))) + 1} of the answers has a p_yes outside [0, 1]"
        )
    return found


def _check_rows(columns: dict[str, Any]) -> None:
    """A row is one row: one group and one label, in every arm and repeat."""
    row = columns["row"].codes
    if len(columns["row"].categories) == len(row):
        return  # every line is a row of its own
    first = np.zeros(len(columns["row"].categories), dtype=np.int64)
    first[row[::-1]] = np.arange(len(row) - 1, -1, -1)
    for name in ("label", "group"):
        values = columns["group"].codes if name == "group" else columns["label"]
        if (other := values != values[first[row]]).any():
            raise FwcError(
                f"the row {columns['row'][int(np.argmax(other))]!r} has two {name}s: "
                "a row is one person, with one group and one label"
            )


def _check_arms(by_arm: dict[str, Answers]) -> None:
    """All arms were asked the same questions, each once."""
    names = list(by_arm)
    asked = dict(zip(names, questions_of(list(by_arm.values())), strict=True))
    for arm, keys in asked.items():
        order = np.argsort(keys, kind="stable")
        again = order[1:][np.diff(keys[order]) == 0]
        if len(again):
            row = by_arm[arm].row[int(again.min())]
            raise FwcError(f"the arm {arm!r} has two answers to the row {row!r} in one repeat")
    for arm in names[1:]:
        for lacking, having in ((arm, names[0]), (names[0], arm)):
            lost = ~np.isin(asked[having], asked[lacking])
            if lost.any():
                row = min(by_arm[having].where(lost).key.tolist()).split("\x1f")[1]
                raise FwcError(
                    f"the arm {lacking!r} lacks the row {row!r}, which {having!r} has: "
                    "arms are compared on the same questions"
                )
