"""The rows of a run or an audit with answers and prompts, for `templates/rows.js`.

The data are `arms`, `rows` and `prompts`. A row has `row`, `repeat`, `group`, `label`, `answers`
(one per arm, in the order of `arms`) and `twins`: answers of an `arm` to the same row with another
`group`. An answer has the known keys of `answer`, `reason`, `p` (P(yes)), `reply` and `prompt`.
`prompt` has two indices into `prompts`: of the messages that all rows of the arm's repeat share,
and of the question.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fwc_llm.files import is_file
from fwc_llm.metrics.run_answers import ArmAnswers
from fwc_llm.models.base import Messages
from fwc_llm.models.recorded import FILE_NAME, Key, key_of, read_records
from fwc_llm.notebook import visible
from fwc_llm.runs.folder import COUNTERFACTUAL, RunFolder
from fwc_llm.runs.recorded_run import Run
from fwc_llm.sanitize import Fields, Json, truncate, utf8_safe
from fwc_llm.words import ANSWERS

MOST_ROWS = 20_000
_MOST_ANSWERS = 120_000
_MOST_CHARACTERS = 30_000_000  # total of all replies and prompts
_LONGEST_REPLY = 2_000
_LONGEST_NAME = 500
_FULL = "[left out: the page would be too large]"


def rows_of_run(run: Run) -> Json | None:
    """The rows of a run for the page; None if the run was made with --no-rows.

    Keys: `shown` (number of rows on the page), `of` (number of all rows), `prompts` (whether there
    are any), `missing` (reason by arm without prompts), and `data` for the script.
    """
    if run.described.get("no_rows"):
        return None
    block = RowBlock(run.answers, sum(map(len, run.counterfactuals.values())))
    arms = list(run.arms)
    questions, prefixes = _prompts(run, {row for _, row in block.rows})
    for line in RunFolder(run.folder).read_answers():
        key = key_of(line)
        arm = arms.index(line["arm"])
        variant = line["variant"]
        row = block.rows.get(key[1:3])
        if row is None:
            continue
        prompt = (prefixes.get(key[:2], []), questions[key]) if key in questions else ()
        if not variant:
            row["answers"][arm] = block.answer(line, *prompt)
        elif variant.startswith(COUNTERFACTUAL):
            told_as = {"arm": arm, "group": _shown(variant.partition(":")[2])}
            row["twins"].append(told_as | block.answer(line, *prompt))
    why = "an earlier version made this run and kept no prompts"
    recorded = {arm for arm, *_ in questions}
    return block.as_json({arm: why for arm in arms if arm not in recorded})


def rows_of_audit(answers: Mapping[str, ArmAnswers], numbered: bool) -> Json:
    """The rows of an audit, as `rows_of_run`; `numbered`: the file has no row ids."""
    block = RowBlock(answers, numbered=numbered)
    for number, a in enumerate(answers.values()):
        columns = (a.repeat, a.row, a.answer, a.reason, a.p_yes)
        for repeat, row, answer, reason, p in zip(*columns, strict=True):
            cells = block.rows.get((repeat, row))
            if cells is not None:
                line = {
                    "answer": "" if np.isnan(answer) else ANSWERS[int(answer)],
                    "reason": reason or ("empty" if np.isnan(answer) else ""),
                    "p_yes": str(p),
                    "reply": "",
                }
                cells["answers"][number] = block.answer(line)
    return block.as_json({})


def _prompts(
    run: Run, rows: set[str]
) -> tuple[dict[Key, Messages], dict[tuple[str, int], Messages]]:
    """Questions about `rows` by key; system messages and examples by (arm, repeat)."""
    questions = dict[Key, Messages]()
    prefixes = dict[tuple[str, int], Messages]()
    path = run.folder / FILE_NAME
    for record in read_records(path) if is_file(path) else ():
        key = key_of(record)
        if record.get("prefix"):
            prefixes[key[:2]] = record["prefix"]
        if record.get("prompt") and key[2] in rows:
            questions[key] = record["prompt"]
    return questions, prefixes


class RowBlock:
    """The rows on the page, by (repeat, row), and the distinct lists of messages."""

    def __init__(
        self, answers: Mapping[str, ArmAnswers], twins: int = 0, numbered: bool = False
    ) -> None:
        first = next(iter(answers.values()))
        self._arms, self._of = list(map(_shown, answers)), len(first)
        self._prompts, self._left = dict[tuple[Any, ...], int](), _MOST_CHARACTERS
        self.rows: dict[tuple[int, str], Json] = {}
        for position in chosen(len(first), len(answers) + -(-twins // len(first))):
            repeat = int(first.repeat[position])
            row = str(first.row[position])
            self.rows[repeat, row] = {
                "row": f"row {row}" if numbered and row.isdecimal() else _shown(row),
                "repeat": repeat,
                "group": _shown(str(first.group[position])),
                "label": ANSWERS[first.label[position]],
                "answers": [{} for _ in answers],
                "twins": [],
            }

    def answer(self, line: Fields, *prompt: Messages) -> Json:
        """An answer for the page, from a `line` with keys of answers.csv."""
        reply = _shown(line["reply"], _LONGEST_REPLY)
        p = float(line["p_yes"] or "nan")
        answer = {
            "answer": line["answer"],
            "reason": line["reason"],
            "p": None if np.isnan(p) else round(p, 4),
            "reply": reply if self._has_room(len(reply)) else _FULL,
            "prompt": [*map(self._place, prompt)],
        }
        return {
            name: value for name, value in answer.items() if value not in ("", None, [])
        }

    def as_json(self, missing: Mapping[str, str]) -> Json:
        """The return value of `rows_of_run`."""
        data = {
            "arms": self._arms,
            "rows": list(self.rows.values()),
            "prompts": list(self._prompts),
        }
        counted = {
            "shown": len(self.rows),
            "of": self._of,
            "prompts": bool(self._prompts),
        }
        return {**counted, "missing": missing, "data": data}

    def _place(self, messages: Messages) -> int:
        """The index of messages in `prompts`; all for which the page has no room have one."""
        texts = tuple(
            (m["role"], visible(m.get("name", "")), visible(truncate(m["content"])))
            for m in messages
        )
        size = sum(len(text) for *_, text in texts)
        if texts not in self._prompts and not self._has_room(size):
            texts = (("", "", _FULL),)
        return self._prompts.setdefault(texts, len(self._prompts))

    def _has_room(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0


def _shown(text: str, longest: int = _LONGEST_NAME) -> str:
    return visible(truncate(utf8_safe(text), longest))


def chosen(rows: int, answers_of_each: int) -> list[int]:
    """Indices of the rows on the page: all of `rows`, or a fixed random sample."""
    most = max(1, min(MOST_ROWS, _MOST_ANSWERS // max(answers_of_each, 1)))
    if rows <= most:
        return list(range(rows))
    picked: list[int] = np.sort(
        np.random.default_rng(0).choice(rows, most, replace=False)
    ).tolist()
    return picked
