"""Predictions of a run's answers, kept in the run's folder (docs/fewer-questions.md, "Assisted").

They are made when somebody asks for them, with the table in memory, and kept, so that no output needs the
table again. They are of these very answers and this table, or are not used.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import read_text
from fwc_llm.metrics.prediction_powered import Predictions, assisted_samples
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.statistics import plain
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.splits import table_of
from fwc_llm.sanitize import parse_json

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FILE_NAME = "assisted.json"
_KINDS: Any = dict.fromkeys(("predicted", "means", "rows", "others"), np.float64)
_KINDS |= dict.fromkeys(("fold", "unit"), np.int64)


class _PredictionsFile(BaseModel):
    """assisted.json: `answers` and `table` are hashes of what the predictions of `arms` are of."""

    format: Literal["fwc-llm-assisted/1"] = "fwc-llm-assisted/1"
    answers: str
    table: str
    arms: dict[str, dict[str, list[Any]]]


def predictions(
    folder: Path, answered: RunAnswers, fingerprint: str | None, task: "Task | None" = None
) -> dict[str, Predictions]:
    """Return the predictions that a run's folder keeps, by arm; with the `task`, they are made if need be.

    None for few rows, answers all alike, weights, rows that were not asked about at random, other answers,
    and another table than that of the `fingerprint`.
    """
    path = folder / FILE_NAME
    if task is None and not path.is_file():
        return {}
    key = _key(answered)
    with suppress(OSError, LookupError, TypeError, ValueError, FwcError):
        content = _PredictionsFile.model_validate(parse_json(read_text(path)))
        if (content.answers, content.table) == (key, fingerprint):
            return {arm: _arrays(lists) for arm, lists in content.arms.items()}
    if task is None or task.disk_table is not None or task.fingerprint != fingerprint:
        return {}
    try:
        samples = assisted_samples(answered, answered.plain_samples, table_of(task))
    except FwcError:  # weights, or rows that were not asked about at random
        return {}
    by_arm = {arm: sample.assist for arm, sample in samples.items()}
    arms = {arm: _lists(found) for arm, found in by_arm.items() if isinstance(found, Predictions)}
    content = _PredictionsFile(answers=key, table=task.fingerprint, arms=arms)
    with suppress(StorageError):
        RunFolder(folder).write_json(FILE_NAME, content.model_dump())
    return {arm: _arrays(lists) for arm, lists in arms.items()}  # the same digits as the file has


def _key(answered: RunAnswers) -> str:
    """A hash of the answers, their order and the groups."""
    digest = hashlib.sha256("\x1f".join([*answered.arms, *answered.groups]).encode())
    for arm, sample in answered.plain_samples.items():
        digest.update(np.nan_to_num(sample.answer, nan=2.0).tobytes())
        digest.update("\x1f".join(answered.answers[arm].row).encode())
        digest.update(sample.unit.tobytes() + sample.repeat.tobytes())
    return digest.hexdigest()


def _lists(assist: Predictions) -> dict[str, list[Any]]:
    return {name: plain(getattr(assist, name).round(6).tolist()) for name in _KINDS}


def _arrays(lists: Mapping[str, list[Any]]) -> Predictions:
    arrays: dict[str, Any] = {n: np.array(lists[n], kind) for n, kind in _KINDS.items() if n in lists}
    return Predictions(**arrays)
