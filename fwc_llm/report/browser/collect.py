"""From a run's folder to what the page's browser of rows holds."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.metrics.answers import questions_of
from fwc_llm.report.browser.pack import Pack, chosen
from fwc_llm.report.browser.prompts import Prompts
from fwc_llm.report.read import KEY, Run
from fwc_llm.runs.folder import RunFolder

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


_ANSWERS = {1.0: "yes", 0.0: "no"}


def rows_of_run(
    run: Run, task: "Task | None", without: str = "", template: str | Path | None = None
) -> dict[str, Any] | None:
    """Return every row of a run for the page; None where the run was made to have none shown.

    Keys: `shown` and `of`, how many rows; `prompts`, whether there are any, and `missing`, why an arm lacks
    them; `data`, see `Pack`. `without` says why there is no `task`.
    """
    if run.described.get("no_rows"):
        return None
    first = run.answers[run.arms[0]]
    asked_again = sum(map(len, run.counterfactuals.values()))
    picked = chosen(len(first), len(run.arms) + -(-asked_again // len(first)))
    audit = run.described.get(KEY)
    numbered = isinstance(audit, dict) and bool(audit.get("numbered"))  # the file does not name its rows
    pack, number = Pack(run.arms), dict[tuple[int, str], int]()
    for place in picked:
        repeat, row = int(first.repeat[place]), str(first.row[place])
        label = "yes" if first.label[place] else "no"
        name = f"row {int(row) + 1}" if numbered and row.isdecimal() else row
        number[repeat, row] = pack.question(name, repeat, str(first.group[place]), label)
    prompts = Prompts(run, task, without, template)
    prompts.prepare({row for _, row in number})
    arms, prompted = {arm: place for place, arm in enumerate(run.arms)}, False
    for said in RunFolder(run.folder).read_answers() if audit is None else _decisions(run, picked):
        repeat, row = int(said["repeat"]), said["row"]
        question = number.get((repeat, row))
        if question is None or said["arm"] not in arms:
            continue
        prompt = prompts.of(said["arm"], repeat, row, said["variant"])
        prompted = prompted or prompt is not None
        if said["variant"]:
            told_as = said["variant"].partition(":")[2]
            pack.variant(arms[said["arm"]], question, told_as, said, prompt)
        else:
            pack.answer(arms[said["arm"]], question, said, prompt)
    return {
        "shown": len(picked),
        "of": len(first),
        "prompts": prompted,
        "missing": {} if audit is not None else prompts.missing,
        "data": pack.as_json(),
    }


def _decisions(run: Run, picked: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The decisions about the rows at these places of the first arm, as lines of answers.csv; no replies."""
    asked = questions_of(list(run.answers.values()))
    wanted = asked[0][picked]
    for (arm, a), question in zip(run.answers.items(), asked, strict=True):
        here = a.where(np.isin(question, wanted))
        columns = (here.repeat, here.row, here.answer, here.reason, here.p_yes)
        for repeat, row, answer, reason, p in zip(*(column.tolist() for column in columns), strict=True):
            yield {
                "arm": arm,
                "repeat": repeat,
                "row": row,
                "variant": "",
                "answer": _ANSWERS.get(answer, ""),
                "reason": reason,
                "p_yes": "" if math.isnan(p) else p,
                "reply": "",
            }
