"""The rows of a run or an audit, with answers and prompts, for the page's browser: compact JSON.

Columns instead of records, every text once. `templates/rows_model.js` unpacks it, and has the same names.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fwc_llm.files import is_file
from fwc_llm.metrics.run_answers import ArmAnswers, questions_of
from fwc_llm.models.base import Messages
from fwc_llm.models.recorded import FILE_NAME, read_records
from fwc_llm.notebook import visible
from fwc_llm.runs.folder import COUNTERFACTUAL, RunFolder
from fwc_llm.runs.journal import Key, key_of
from fwc_llm.runs.recorded_run import Run
from fwc_llm.sanitize import truncate, utf8_safe

_ANSWERS = {1.0: "yes", 0.0: "no"}


def rows_of_run(run: Run) -> dict[str, Any] | None:
    """Return every row of a run for the page; None where the run was made to have none shown.

    Keys: `shown` and `of`, how many rows; `prompts`, whether there are any, and `missing`, why an arm lacks
    them; `data`, see `Pack`.
    """
    if run.described.get("no_rows"):
        return None
    pack, number, picked = _questions(run.answers, run.counterfactuals)
    prompts, prefixes = _prompts(run, {row for _, row in number})
    arms, prompted = {arm: place for place, arm in enumerate(run.arms)}, False
    for line in RunFolder(run.folder).read_answers():
        repeat, row = int(line["repeat"]), line["row"]
        question = number.get((repeat, row))
        shown = not line["variant"] or line["variant"].startswith(COUNTERFACTUAL)
        if question is None or line["arm"] not in arms or not shown:
            continue
        query = prompts.get((line["arm"], repeat, row, line["variant"]))
        prompt = None if query is None else (prefixes.get((line["arm"], repeat), []), query)
        prompted = prompted or prompt is not None
        told_as = line["variant"].partition(":")[2] if line["variant"] else None
        pack.answer(arms[line["arm"]], question, line, prompt, told_as)
    of = len(run.answers[run.arms[0]])
    why, recorded = "an earlier version made this run and kept no prompts", {arm for arm, *_ in prompts}
    missing = {arm: why for arm in run.arms if arm not in recorded}
    counted = {"shown": len(picked), "of": of, "prompts": prompted, "missing": missing}
    return {**counted, "data": pack.as_json()}


def rows_of_audit(answers: Mapping[str, ArmAnswers], numbered: bool) -> dict[str, Any]:
    """Return every row of an audit for the page, as `rows_of_run` does; `numbered`: rows have no names."""
    pack, number, picked = _questions(answers, {}, numbered)
    asked = questions_of(list(answers.values()))
    wanted = asked[0][picked]
    for place, (a, question) in enumerate(zip(answers.values(), asked, strict=True)):
        here = a.where(np.isin(question, wanted))
        columns = (here.repeat, here.row, here.answer, here.reason, here.p_yes)
        for repeat, row, answer, reason, p in zip(*(column.tolist() for column in columns), strict=True):
            line = {"answer": _ANSWERS.get(answer, ""), "reason": reason, "reply": ""}
            pack.answer(place, number[repeat, row], {**line, "p_yes": "" if math.isnan(p) else p})
    of = len(next(iter(answers.values())))
    return {"shown": len(picked), "of": of, "prompts": False, "missing": {}, "data": pack.as_json()}


def _questions(
    answers: Mapping[str, ArmAnswers], counterfactuals: Mapping[str, ArmAnswers], numbered: bool = False
) -> tuple["Pack", dict[tuple[int, str], int], list[int]]:
    """A pack of the rows that the page holds, their numbers in it by repeat and row, and their places."""
    first = next(iter(answers.values()))
    again = sum(map(len, counterfactuals.values()))
    picked = chosen(len(first), len(answers) + -(-again // len(first)))
    pack, number = Pack(list(answers)), dict[tuple[int, str], int]()
    for place in picked:
        repeat, row = int(first.repeat[place]), str(first.row[place])
        name = f"row {int(row) + 1}" if numbered and row.isdecimal() else row
        label = "yes" if first.label[place] else "no"
        number[repeat, row] = pack.question(name, repeat, str(first.group[place]), label)
    return pack, number, picked


def _prompts(run: Run, rows: set[str]) -> tuple[dict[Key, Messages], dict[tuple[str, int], Messages]]:
    """The questions about some `rows`, and by arm and repeat the system message and examples before them."""
    questions, prefixes = dict[Key, Messages](), dict[tuple[str, int], Messages]()
    path = run.folder / FILE_NAME
    for record in read_records(path) if is_file(path) else ():
        key = key_of(record)
        if record.get("prefix"):
            prefixes[key[:2]] = record["prefix"]
        if record.get("prompt") and key[2] in rows:
            questions[key] = record["prompt"]
    return questions, prefixes


MOST_ROWS = 20_000
_MOST_ANSWERS = 120_000
_MOST_CHARACTERS = 30_000_000  # of all texts together
_LONGEST_REPLY = 2_000
_LONGEST_NAME = 500
_FULL = "[left out: the page would be too large]"
_NONE = -1  # no prompt, no P(yes)
_NOTHING = {"answer": "-", "reason": 0, "p": _NONE, "reply": 0, "fixed": _NONE, "query": _NONE}
_CODES = {"yes": "1", "no": "0", "": "-"}
# HTML gives these a meaning inside of a script element; JSON writes them as escapes as well.
_ESCAPED = "<>&\u2028\u2029"


class Pack:
    """Collects questions and their answers; `as_json` is what the page holds.

    `rows`, `repeat`, `group` and `label` have an entry a question, and so has each column of `answers`, which
    has an entry an arm. `variants` holds, per arm, what was answered to a row told with another protected
    attribute. Replies and prompts are numbers into `texts`, `fixed` and `queries`.
    """

    def __init__(self, arms: Sequence[str]) -> None:
        self._arms = [visible(utf8_safe(arm)) for arm in arms]
        self._groups, self._reasons, self._texts = dict[str, int](), {"": 0}, {"": 0}
        self._fixed, self._queries = dict[tuple[Any, ...], int](), dict[tuple[Any, ...], int]()
        self._left = _MOST_CHARACTERS
        self._questions: dict[str, list[Any]] = {name: [] for name in ("rows", "repeat", "group", "label")}
        self._answers: list[dict[str, list[Any]]] = [{name: [] for name in _NOTHING} for _ in arms]
        self._variants: list[list[list[Any]]] = [[] for _ in arms]

    def question(self, row: str, repeat: int, group: str, label: str) -> int:
        """Add a question; return its number."""
        cells = self._short(row), repeat, _number(self._groups, self._short(group)), _CODES[label]
        for column, cell in zip(self._questions.values(), cells, strict=True):
            column.append(cell)
        for columns in self._answers:
            for name, nothing in _NOTHING.items():
                columns[name].append(nothing)
        return len(self._questions["rows"]) - 1

    def answer(
        self,
        arm: int,
        question: int,
        line: Mapping[str, Any],
        prompt: tuple[Messages, Messages] | None = None,
        told_as: str | None = None,
    ) -> None:
        """Add an arm's answer; `line` has `answer`, `reason`, `p_yes` and `reply` as answers.csv does.

        `told_as` is the group of a variant, if it differs from the row's own.
        """
        fixed, query = prompt or (None, None)
        cells = [
            _CODES[line["answer"]],
            _number(self._reasons, line["reason"]),
            _NONE if line["p_yes"] in ("", None) else round(1e4 * float(line["p_yes"])),
            self._text(line["reply"]),
            self._messages(fixed, self._fixed),
            self._messages(query, self._queries),
        ]
        if told_as is None:
            for column, cell in zip(self._answers[arm].values(), cells, strict=True):
                column[question] = cell
        else:
            self._variants[arm].append([question, _number(self._groups, self._short(told_as)), *cells])

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "arms": self._arms,
            "groups": list(self._groups),
            "reasons": list(self._reasons),
            **self._questions,
            "label": "".join(self._questions["label"]),
            "answers": [columns | {"answer": "".join(columns["answer"])} for columns in self._answers],
            "variants": self._variants,
            "texts": list(self._texts),
            "fixed": [list(map(list, messages)) for messages in self._fixed],
            "queries": [list(map(list, messages)) for messages in self._queries],
        }

    def _short(self, text: str) -> str:
        return visible(truncate(utf8_safe(text), _LONGEST_NAME))

    def _text(self, text: str) -> int:
        shown = visible(truncate(utf8_safe(text), _LONGEST_REPLY))
        return _number(self._texts, shown if shown in self._texts or self._room(len(shown)) else _FULL)

    def _messages(self, messages: Messages | None, numbers: dict[tuple[Any, ...], int]) -> int:
        if messages is None:
            return _NONE
        shown = tuple(
            (m["role"], visible(m.get("name", "")), visible(truncate(m["content"]))) for m in messages
        )
        if shown not in numbers and not self._room(sum(len(part[2]) for part in shown)):
            return _NONE
        return _number(numbers, shown)

    def _room(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0


def _number(numbers: dict[Any, int], value: Any) -> int:
    return numbers.setdefault(value, len(numbers))


def chosen(rows: int, answers_of_each: int) -> list[int]:
    """Return which of `rows` rows the page holds: all of them, or a sample that depends on nothing else."""
    most = max(1, min(MOST_ROWS, _MOST_ANSWERS // max(answers_of_each, 1)))
    if rows <= most:
        return list(range(rows))
    picked: list[int] = np.sort(np.random.default_rng(0).choice(rows, most, replace=False)).tolist()
    return picked


def json_block(value: Any) -> str:
    """Return JSON that can stand in a script element of a page: nothing in it ends or begins markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in _ESCAPED:  # faster than translate() on a text of megabytes
        text = text.replace(character, f"\\u{ord(character):04x}")
    return utf8_safe(text)
