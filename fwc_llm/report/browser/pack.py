"""Rows with their answers as compact JSON: columns instead of records, every text once.

The page holds this as a block of data. `templates/rows.js` unpacks it, and has the same names.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fwc_llm.models.base import Messages
from fwc_llm.notebook import visible
from fwc_llm.untrusted import shortened, storable

MOST_ROWS = 20_000
_MOST_ANSWERS = 120_000
_MOST_CHARACTERS = 30_000_000  # of all texts together
_LONGEST_REPLY = 2_000
_LONGEST_NAME = 500
_FULL = "[left out: the page would be too large]"
_NO_PROMPT = -1
_NO_PROBABILITY = -1
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
        self._arms = [visible(storable(arm)) for arm in arms]
        self._names: dict[str, int] = {}  # groups
        self._reasons: dict[str, int] = {"": 0}
        self._texts: dict[str, int] = {}
        self._fixed: dict[tuple[Any, ...], int] = {}
        self._queries: dict[tuple[Any, ...], int] = {}
        self._left = _MOST_CHARACTERS
        self._rows: list[str] = []
        self._repeat: list[int] = []
        self._group: list[int] = []
        self._label: list[str] = []
        self._answers: list[dict[int, list[Any]]] = [{} for _ in arms]
        self._variants: list[list[list[Any]]] = [[] for _ in arms]

    def question(self, row: str, repeat: int, group: str, label: str) -> int:
        """Add a question; return its number."""
        self._rows.append(self._short(row))
        self._repeat.append(repeat)
        self._group.append(self._group_number(group))
        self._label.append(_CODES[label])
        return len(self._rows) - 1

    def answer(
        self,
        arm: int,
        question: int,
        said: Mapping[str, Any],
        prompt: tuple[Messages, Messages] | None = None,
    ) -> None:
        """Add an arm's answer; `said` has `answer`, `reason`, `p_yes` and `reply` as answers.csv does."""
        self._answers[arm][question] = self._cells(said, prompt)

    def variant(
        self,
        arm: int,
        question: int,
        told_as: str,
        said: Mapping[str, Any],
        prompt: tuple[Messages, Messages] | None = None,
    ) -> None:
        """Add the answer to the same row told as one of another group."""
        cells = self._cells(said, prompt)
        self._variants[arm].append([question, self._group_number(told_as), *cells])

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        head, tail = self._common()
        nothing = ["-", 0, _NO_PROBABILITY, self._text(""), _NO_PROMPT, _NO_PROMPT]
        answers = [
            list(zip(*(cells.get(q, nothing) for q in range(len(self._rows))), strict=True))
            for cells in self._answers
        ]
        return {
            "arms": self._arms,
            "groups": list(self._names),
            "reasons": list(self._reasons),
            "rows": self._rows,
            "repeat": self._repeat,
            "group": self._group,
            "label": "".join(self._label),
            "answers": [
                {
                    "answer": "".join(column[0]),
                    "reason": column[1],
                    "p": column[2],
                    "reply": column[3],
                    "fixed": column[4],
                    "query": column[5],
                }
                for column in answers
            ],
            "variants": self._variants,
            "texts": list(self._texts),
            "fixed": [list(map(list, messages)) for messages in self._fixed],
            "head": head,
            "tail": tail,
            "queries": [
                [[*part[:2], part[2][len(head) : len(part[2]) - len(tail)]] for part in messages]
                for messages in self._queries
            ],
        }

    def _cells(self, said: Mapping[str, Any], prompt: tuple[Messages, Messages] | None) -> list[Any]:
        p = said["p_yes"]
        return [
            _CODES[said["answer"]],
            self._reasons.setdefault(said["reason"], len(self._reasons)),
            _NO_PROBABILITY if p in ("", None) else round(1e4 * float(p)),
            self._text(said["reply"]),
            *(
                (self._messages(prompt[0], self._fixed), self._messages(prompt[1], self._queries))
                if prompt
                else (_NO_PROMPT, _NO_PROMPT)
            ),
        ]

    def _group_number(self, name: str) -> int:
        return self._names.setdefault(self._short(name), len(self._names))

    def _short(self, text: str) -> str:
        return visible(shortened(storable(text), _LONGEST_NAME))

    def _text(self, text: str) -> int:
        shown = visible(shortened(storable(text), _LONGEST_REPLY))
        if shown not in self._texts and not self._room(len(shown)):
            shown = _FULL
        return self._texts.setdefault(shown, len(self._texts))

    def _messages(self, messages: Messages, known: dict[tuple[Any, ...], int]) -> int:
        shown = tuple(
            (m["role"], visible(m.get("name", "")), visible(shortened(m["content"]))) for m in messages
        )
        if shown not in known and not self._room(sum(len(part[2]) for part in shown)):
            return _NO_PROMPT
        return known.setdefault(shown, len(known))

    def _room(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0

    def _common(self) -> tuple[str, str]:
        """What the text of every query begins and ends with."""
        texts = [part[2] for messages in self._queries for part in messages]
        if not texts:
            return "", ""
        head = _beginning(texts)
        return head, _beginning([text[len(head) :][::-1] for text in texts])[::-1]


def _beginning(texts: Sequence[str]) -> str:
    """What all texts begin with: the first and the last in order differ the earliest."""
    first, last = min(texts), max(texts)
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:same]


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
    return storable(text)
