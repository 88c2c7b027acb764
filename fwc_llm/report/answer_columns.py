"""answers.csv by columns, each text of a column once: what is held of a million answers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import Answers, names_of, one_name
from fwc_llm.runs.folder import THRESHOLD_COLUMN, RunFolder

if TYPE_CHECKING:
    from fwc_llm.metrics.answers import Names

_NAMED = frozenset(("arm", "row", "variant", "group", "label", "answer", "reason", THRESHOLD_COLUMN))
_BLOCK = 10_000  # lines that are held as texts


def answers_by_arm(folder: RunFolder, arms: Sequence[str]) -> tuple[dict[str, Answers], dict[str, Answers]]:
    """Every arm's answers as they were given, and those at the threshold where the run has one."""
    where = folder.path / "answers.csv"
    columns = _Columns(folder)
    if not len(columns.repeat):
        raise FwcError(f"{where} is empty: the run never began")
    named = columns.names["arm"]
    if strangers := [arm for arm in named.unique() if arm not in arms]:
        line = int((named == strangers[0]).argmax()) + 2
        raise damaged(where, f"line {line} names the arm {strangers[0]!r}, which run.json does not")
    if silent := [arm for arm in arms if not (named == arm).any()]:
        raise damaged(where, f"the arm {silent[0]!r} of run.json has no row")
    answers, by_threshold = columns.answers(), columns.names.get(THRESHOLD_COLUMN)
    given = {str(arm): answers.where(named == arm) for arm in arms}
    if by_threshold is None:
        return given, {}
    moved = _numbers(by_threshold)
    return given, {arm: replace(a, answer=moved[named == arm]) for arm, a in given.items()}


class _Columns:
    """answers.csv by columns: texts as names, `repeat` and `p_yes` as numbers."""

    def __init__(self, folder: RunFolder) -> None:
        lines = folder.read_cells()
        titles = list(next(lines))
        known: dict[str, dict[str, int]] = {name: {} for name in titles if name in _NAMED}
        codes: dict[str, list[npt.NDArray[np.int32]]] = {name: [] for name in known}
        repeat, p_yes = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        while block := list(islice(lines, _BLOCK)):
            by_name = dict(zip(titles, zip(*block, strict=True), strict=True))
            for name, own in known.items():
                codes[name].append(
                    np.array([own.setdefault(text, len(own)) for text in by_name[name]], dtype=np.int32)
                )
            repeat.append(np.array(by_name["repeat"], dtype=np.int64))
            p_yes.append(np.array([float(p) if p else np.nan for p in by_name["p_yes"]]))
        none = np.zeros(0, dtype=np.int32)
        self.repeat, self.p_yes = np.concatenate(repeat), np.concatenate(p_yes)
        self.names = {
            name: names_of(np.concatenate([none, *codes[name]]), list(own)) for name, own in known.items()
        }

    def answers(self) -> Answers:
        texts = {name: self.names[name] for name in ("row", "variant", "group", "reason")}
        return Answers(
            repeat=self.repeat,
            label=(self.names["label"] == "yes").astype(np.int8),
            answer=_numbers(self.names["answer"]),
            p_yes=self.p_yes,
            examples=one_name("", len(self.repeat)),
            **texts,
        )


def _numbers(answers: "Names") -> npt.NDArray[np.float64]:
    return np.where(answers == "", np.nan, answers == "yes")


def damaged(path: Path, why: str) -> FwcError:
    """Return the error for a file of a run's folder that no run writes."""
    return FwcError(f"{path} is damaged: {why}")
