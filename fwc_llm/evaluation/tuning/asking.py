"""Asking the candidates of a tuning about the pool rows: one journal, taken up where it was left."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError, IncompleteRunError
from fwc_llm.evaluation.job import Job
from fwc_llm.evaluation.tuning.candidates import Candidate
from fwc_llm.evaluation.tuning.goal import Floats, Goal
from fwc_llm.evaluation.tuning.race import BALANCED, ZERO, Pool, Standing, race
from fwc_llm.prompts import Prompt
from fwc_llm.report.tuning import FILE_NAME
from fwc_llm.runs.batch import batches_under_way
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import FILE_NAME as JOURNAL
from fwc_llm.runs.journal import Call, Journal, read_records
from fwc_llm.runs.plan import rows_of
from fwc_llm.shots.base import Shots

_VALUES = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True)
class Asking:
    """What the race asks with: the model as planned, the rows, and each candidate's prompts."""

    job: Job
    pool: Pool
    candidates: Mapping[str, Candidate]
    fixed: Mapping[str, Shots]
    template: str
    show: Any

    def run(
        self, folder: RunFolder, asked: Mapping[str, Any], goal: Goal, cancel_batch: bool
    ) -> dict[str, Standing]:
        """Race in `folder`, or take up the race that was interrupted there."""
        budget = self.job.budget()
        self.job.refuse_early()
        if not (folder.path / FILE_NAME).is_file():
            folder.create()
        with Journal(folder.path) as journal:
            _begin(folder, asked)

            def ask(names: Iterable[str], k: int) -> dict[str, tuple[Floats, Floats]]:
                arms = list(names)
                with self.show.asking(len(arms) * k) as state:
                    outcome = self.job.ask(
                        lambda: self._calls(arms, k), len(arms) * k, journal, budget, state, cancel_batch
                    )
                if outcome.stopped or outcome.errors:
                    why = outcome.stopped or f"{outcome.errors} questions have no reply"
                    raise IncompleteRunError(
                        f"tuning is not complete: {why}; the same command with "
                        f"--out {quote(str(folder.path))} continues"
                    )
                return self._answers(journal, arms, k)

            return race(list(self.candidates), self.pool, goal, ask)

    def _calls(self, names: Sequence[str], k: int) -> Iterator[Call]:
        for name in names:
            one = self.candidates.get(name)
            shots = self.fixed[BALANCED if name == BALANCED else ZERO] if one is None else one.shots
            wording, asked = self.template if one is None else one.template, self.job.plan.settings.questions
            prompt = Prompt(self.job.plan.task, shots, wording, questions=asked)
            fixed = len(prompt.prefix)
            for row, values in rows_of(self.pool.rows.iloc[:k]):
                yield Call(f"pool {name}", 0, row, "", prompt.build(values), fixed=fixed)

    def _answers(self, journal: Journal, names: Sequence[str], k: int) -> dict[str, tuple[Floats, Floats]]:
        places = {str(row): place for place, row in enumerate(self.pool.rows.index[:k])}
        arms = {f"pool {name}": name for name in names}
        found = {name: (np.full(k, np.nan), np.full(k, np.nan)) for name in names}
        for record in journal.records():
            name, place = arms.get(str(record.get("arm"))), places.get(str(record.get("row")))
            if name is not None and place is not None and record.get("text") is not None:
                hard, soft = found[name]
                hard[place] = _VALUES.get(str(record.get("answer")), np.nan)
                probability = record.get("p_yes")
                soft[place] = np.nan if probability is None else float(probability)
        return found


def check_same(folder: RunFolder, asked: Mapping[str, Any]) -> None:
    """Refuse a folder in which something else is tuned; where nothing was answered, it begins anew."""
    if not (folder.path / FILE_NAME).is_file() or not _answered(folder.path):
        return
    before, now = folder.read_json(FILE_NAME), json.loads(json.dumps(asked))
    for name, value in now.items():
        if before.get(name) != value:
            raise FwcError(
                f"{folder.path} holds another tuning ({name} differs): repeat its options to continue it, or "
                "name a new folder with --out"
            )


def _answered(folder: Path) -> bool:
    """Whether anything was answered there, or stands in a batch that is under way."""
    path = folder / JOURNAL
    replied = path.exists() and any(record["text"] is not None for _, record in read_records(path))
    return replied or batches_under_way(folder)


def _begin(folder: RunFolder, asked: Mapping[str, Any]) -> None:
    """Write what is tuned, or refuse a folder in which something else was."""
    check_same(folder, asked)
    if not (folder.path / FILE_NAME).is_file() or not _answered(folder.path):
        folder.write_json(FILE_NAME, asked)
