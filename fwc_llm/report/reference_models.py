"""Reference lines: answers of table models about a run's rows (reference.json).

The models are trained on the pool's rows, without test rows and rows that equal a test row
(docs/statistics.md, "Reference lines"). Reference lines are not arms: they are not part of the
comparisons of arms, and do not affect the correction of these comparisons.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, StrictBool, ValidationError

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.metrics.arm_comparison import adjust, compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, METRICS
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import RunAnswers, one_name, samples_of
from fwc_llm.models.baseline import BOOSTING, LOGISTIC, TableModel
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.recorded_run import Run, read_run

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task

FILE_NAME = "reference.json"
_MOST_ROWS = 100_000  # most training rows: more take time and change nothing
# fit once for all repeats if this share of the pool is left without all their test rows
_ONE_FIT = 0.9


class _About(BaseModel):
    trained_on: tuple[int, int]
    left_out: int
    one_fit: bool
    protected: list[str]


class _Line(BaseModel):
    line: str
    model: str
    uses_protected: StrictBool
    answer: list[Literal[0, 1]]


class References(BaseModel):
    """reference.json: `questions` (repeat, row), and each line's answers to them."""

    format: Literal["fwc-llm-reference/1"] = "fwc-llm-reference/1"
    about: _About
    questions: list[tuple[int, str]]
    lines: list[_Line]

    def __call__(
        self, run: RunAnswers, estimates: Mapping[str, ArmEstimates]
    ) -> tuple["ReferenceLines", list[Record]]:
        """The lines' facts, and records: each line's values, and the arms' differences from it."""
        first = run.answers[run.arms[0]]
        none = one_name("", len(first))
        unknown = np.full(len(first), np.nan)
        answers = {
            line.line: replace(
                first,
                answer=np.array(line.answer, np.float64),
                reason=none,
                p_yes=unknown,
                examples=none,
            )
            for line in self.lines
        }
        samples = samples_of({"": first, **answers}, run.groups, run.design)
        found = list[Record]()
        tests = []
        for line in self.lines:
            of_line = ArmEstimates(samples[line.line])
            found += _values(run, line.line, of_line, len(first))
            tests += [
                compare(of_line, estimates[arm], line.line, arm) for arm in run.arms
            ]
        for test in adjust(tests, run.design.margin):
            found += test.records(run.attribute, run.with_examples)
        names = [line.line for line in self.lines]
        return ReferenceLines(names, list(_notes(self.about))), found


@dataclass(frozen=True)
class ReferenceLines:
    """The names of all lines, and notes on them."""

    names: Sequence[str]
    notes: Sequence[str]


def _values(
    run: RunAnswers, line: str, estimates: ArmEstimates, n: int
) -> Iterator[Record]:
    """Yield a line's headline metrics, and each group's rate of yes."""
    of: Any = {"arm": line, "scope": "these rows"}
    for key in METRICS:
        attribute = "" if BY_KEY[key].kind == "share" else run.attribute
        ends: Any = estimates[key].ends
        yield Record(metric=key, attribute=attribute, n=n, **ends, **of)
    of |= {"metric": "selection_rate", "attribute": run.attribute}
    for group, rate in zip(run.groups, estimates.rates(), strict=True):
        ends = rate.ends
        yield Record(group=group, **ends, **of)


def _notes(about: _About) -> Iterator[str]:
    least, most = about.trained_on
    rows = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    how = (
        "once, without the test rows of any repeat"
        if about.one_fit
        else "in each repeat"
    )
    yield (
        f"Trained {how}, on {rows} rows of the pool; {about.left_out:,} further rows are left "
        "out: test rows, and rows equal to a test row. Numbers are standardised; every category "
        "has its own column."
    )
    yield (
        f"Models without {', '.join(about.protected)} do not get these columns; other columns may "
        "still reveal them. An answer is yes if its probability is at least 0.5. Differences are "
        "taken row by row; their verdicts are adjusted for these comparisons alone."
    )


def add_references(folders: Sequence[Path], task: "Task") -> None:
    """Compute reference lines, and save them in each run's folder that can be written."""
    content: References | None = None
    for folder in folders:
        run = read_run(folder)
        if content is None or content.questions != _questions(run):
            content = make_references(run, task)
        with suppress(StorageError):
            RunFolder(folder).write_json(FILE_NAME, content.model_dump())


def references_of(run: Run) -> References | None:
    """The saved lines of a run, in the order of its questions; None without any."""
    path = run.folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        content = References.model_validate(RunFolder(run.folder).read_json(FILE_NAME))
        places = {
            question: position for position, question in enumerate(content.questions)
        }
        order = [places.pop(question) for question in _questions(run)]
        if places or any(len(line.answer) != len(order) for line in content.lines):
            raise ValueError("it is about other rows")
        for line in content.lines:
            line.answer = [line.answer[position] for position in order]
    except (KeyError, ValidationError, ValueError) as error:
        again = "remove it, or write it again by a report with --reference"
        raise FwcError(
            f"{path} is damaged, or belongs to other answers ({error}): {again}"
        ) from None
    return content


def make_references(run: Run, task: "Task") -> References:
    """Compute the content of reference.json, deterministically."""
    from fwc_llm.shots.examples import features_frame  # imports parts of the solver

    attributes = ", ".join(task.protected)
    kinds = [
        (model, protected)
        for model in (LOGISTIC, BOOSTING)
        for protected in (True, False)
    ]
    questions = _questions(run)
    answers = np.zeros((len(kinds), len(questions)), np.int64)
    sizes = list[int]()
    left_out = list[int]()
    for in_part, rows, test_rows, dropped in _trainings(run, task):
        sizes.append(len(rows))
        left_out.append(dropped)
        for number, (model, protected) in enumerate(kinds):
            fitted = TableModel(
                model, features_frame(task, rows, protected), task.labels(rows)
            )
            p_yes = fitted.probabilities(features_frame(task, test_rows, protected))
            answers[number, in_part] = p_yes >= 0.5
    lines = list[_Line]()
    lists: Any = answers.tolist()
    for (model, protected), answer in zip(kinds, lists, strict=True):
        name = f"{model}, {'with' if protected else 'without'} {attributes}"
        lines.append(
            _Line(line=name, model=model, uses_protected=protected, answer=answer)
        )
    trained_on = min(sizes), max(sizes)
    about = _About(
        trained_on=trained_on,
        left_out=max(left_out),
        one_fit=len(sizes) == 1,
        protected=list(task.protected),
    )
    return References(about=about, questions=questions, lines=lines)


def _questions(run: Run) -> list[tuple[int, str]]:
    asked = run.answers[run.arms[0]]
    return list(zip(asked.repeat.tolist(), asked.row.tolist(), strict=True))


def _trainings(
    run: Run, task: "Task"
) -> "Iterator[tuple[npt.NDArray[np.bool_], pd.DataFrame, pd.DataFrame, int]]":
    """Yield (mask of questions, training rows, rows to answer, excluded rows)."""
    from fwc_llm.runs.splits import row_values

    asked = run.answers[run.arms[0]]
    pool = task.pool()
    ids = asked.row.tolist()
    try:
        test = task.table.loc[ids]
    except KeyError:
        raise FwcError(
            "the data found here lacks rows that the run asked about"
        ) from None
    values = row_values(task, test)
    equal = row_values(task, pool)

    def others(in_part: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        taken = {values[position] for position in np.flatnonzero(in_part)}
        return np.flatnonzero([key not in taken for key in equal])

    parts = [np.ones(len(asked), bool)]
    if len(others(parts[0])) < _ONE_FIT * len(equal):
        parts = [asked.repeat == repeat for repeat in np.unique(asked.repeat)]
    for in_part in parts:
        free = others(in_part)
        if not len(free):
            raise FwcError(
                "there are no reference lines: every row of the pool is a test row, or equals one"
            )
        chosen = free
        if len(free) > _MOST_ROWS:
            chosen = np.sort(
                np.random.default_rng(0).choice(free, _MOST_ROWS, replace=False)
            )
        yield in_part, pool.iloc[chosen], test[in_part], len(pool) - len(free)
