"""The rows of a run or an audit, with their answers and prompts, for the page's browser of rows."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers, questions_of
from fwc_llm.report.browser.pack import Pack, chosen
from fwc_llm.report.browser.prompts import Prompts
from fwc_llm.report.read import Run
from fwc_llm.runs.folder import RunFolder

_ANSWERS = {1.0: "yes", 0.0: "no"}


def rows_of_run(run: Run) -> dict[str, Any] | None:
    """Return every row of a run for the page; None where the run was made to have none shown.

    Keys: `shown` and `of`, how many rows; `prompts`, whether there are any, and `missing`, why an arm lacks
    them; `data`, see `Pack`.
    """
    if run.described.get("no_rows"):
        return None
    pack, number, picked = _questions(run.answers, run.counterfactuals)
    prompts = Prompts(run, {row for _, row in number})
    arms, prompted = {arm: place for place, arm in enumerate(run.arms)}, False
    for line in RunFolder(run.folder).read_answers():
        repeat, row = int(line["repeat"]), line["row"]
        question = number.get((repeat, row))
        if question is None or line["arm"] not in arms:
            continue
        prompt = prompts.of(line["arm"], repeat, row, line["variant"])
        prompted = prompted or prompt is not None
        if line["variant"]:
            told_as = line["variant"].partition(":")[2]
            pack.variant(arms[line["arm"]], question, told_as, line, prompt)
        else:
            pack.answer(arms[line["arm"]], question, line, prompt)
    of = len(run.answers[run.arms[0]])
    shown = {"shown": len(picked), "of": of, "prompts": prompted, "missing": prompts.missing}
    return {**shown, "data": pack.as_json()}


def rows_of_audit(answers: Mapping[str, Answers], numbered: bool) -> dict[str, Any]:
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
    answers: Mapping[str, Answers], counterfactuals: Mapping[str, Answers], numbered: bool = False
) -> tuple[Pack, dict[tuple[int, str], int], list[int]]:
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
