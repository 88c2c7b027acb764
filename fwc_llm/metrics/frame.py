"""From a table of answers, wherever they come from, to what statistics start from; bad input is named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import Answered, Answers

if TYPE_CHECKING:
    import pandas as pd

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
    columns = {
        "arm": _text(frame, "arm", np.full(n, "answers")),
        "repeat": _text(frame, "repeat", np.zeros(n, dtype=np.int64)),
        "row": _text(frame, "row", np.arange(n)),
        "group": _text(frame, "group", None),
        "examples": _text(frame, "examples", np.full(n, "")),
    }
    columns["label"] = _yes_or_no(frame, "label", unknown=False)
    columns["answer"] = _yes_or_no(frame, "answer", unknown=True)
    columns["p_yes"] = _probability(frame)
    columns["reason"] = np.where(
        np.isnan(columns["answer"]), _text(frame, "reason", np.full(n, ""), True), ""
    )
    columns["repeat"] = _in_order(columns["repeat"])
    _check_rows(columns)
    by_arm = {
        str(arm): _arm({name: values[columns["arm"] == arm] for name, values in columns.items()})
        for arm in dict.fromkeys(columns["arm"].tolist())
    }
    _check_arms(by_arm)
    return Answered(
        by_arm, by_base_rate(next(iter(by_arm.values()))), design == DESIGNS[1], attributes=tuple(attributes)
    )


def by_base_rate(answers: Answers) -> tuple[str, ...]:
    """Return the groups in the order of their base rates, lowest first; equal ones by name."""
    names, member = np.unique(answers.group, return_inverse=True)
    rates = np.bincount(member, answers.label) / np.bincount(member)
    return tuple(str(names[place]) for place in np.argsort(rates, kind="stable"))


def _arm(columns: dict[str, Any]) -> Answers:
    return Answers(
        repeat=columns["repeat"],
        row=columns["row"],
        variant=np.full(len(columns["row"]), ""),
        group=columns["group"],
        label=columns["label"].astype(np.int8),
        answer=columns["answer"],
        reason=columns["reason"],
        p_yes=columns["p_yes"],
        examples=columns["examples"],
    )


def _in_order(names: Any) -> Any:
    """Repeats as numbers from 0: by number where all are numbers, else by name."""
    different, code = np.unique(names, return_inverse=True)
    order = np.arange(len(different))
    if all(name.isdecimal() for name in different.tolist()):
        order = np.argsort(np.argsort([int(name) for name in different.tolist()], kind="stable"))
    return order[code].astype(np.int64)


def _text(frame: "pd.DataFrame", name: str, otherwise: Any, empty: bool = False) -> Any:
    """A column as text; a missing value is refused, unless `empty` makes it an empty text."""
    if name not in frame.columns:
        return np.asarray(otherwise).astype(np.str_)
    code, values = _coded(frame, name)
    if (code < 0).any() and not empty:
        raise FwcError(f"line {int(np.argmax(code < 0)) + 1} of the answers has no {name}")
    return np.array([*(str(value) for value in values), ""], dtype=np.str_)[code]


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
    code, different = pd.factorize(column.to_numpy(dtype=object))
    values: list[Any] = different.tolist()
    if "" in values:
        code = np.where(code == values.index(""), -1, np.where(code > values.index(""), code - 1, code))
        values.remove("")
    return code, values


def _probability(frame: "pd.DataFrame") -> Any:
    if "p_yes" not in frame.columns:
        return np.full(len(frame), np.nan)
    try:
        found = np.array(
            [
                np.nan if lost else float(v)
                for v, lost in zip(frame["p_yes"], frame["p_yes"].isna(), strict=True)
            ]
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
    _, first, code = np.unique(columns["row"], return_index=True, return_inverse=True)
    for name in ("label", "group"):
        if (other := columns[name] != columns[name][first][code]).any():
            place = int(np.argmax(other))
            raise FwcError(
                f"the row {str(columns['row'][place])!r} has two {name}s: "
                "a row is one person, with one group and one label"
            )


def _check_arms(by_arm: dict[str, Answers]) -> None:
    """All arms were asked the same questions, each once."""
    names = list(by_arm)
    asked: dict[str, set[str]] = {}
    for arm, answers in by_arm.items():
        keys = answers.key.tolist()
        asked[arm] = set(keys)
        if len(asked[arm]) < len(keys):
            twice = next(key for place, key in enumerate(keys) if key in keys[:place])
            raise FwcError(
                f"the arm {arm!r} has two answers to the row {twice.split(chr(31))[1]!r} in one repeat"
            )
    for arm in names[1:]:
        for lacking, having in ((arm, names[0]), (names[0], arm)):
            if lost := asked[having] - asked[lacking]:
                row = min(lost).split("\x1f")[1]
                raise FwcError(
                    f"the arm {lacking!r} lacks the row {row!r}, which {having!r} has: "
                    "arms are compared on the same questions"
                )
