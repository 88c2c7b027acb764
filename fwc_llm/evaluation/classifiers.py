"""What a fitted classifier needs to know of a task: its rows as they were, and what is yes."""

from collections.abc import Sequence
from typing import Any

from fwc_llm.cell_rules import as_text, title_of
from fwc_llm.errors import FwcError
from fwc_llm.meaning import usual_meaning
from fwc_llm.models import Model, RowContext
from fwc_llm.models.functions import EstimatorModel
from fwc_llm.sanitize import kind_of
from fwc_llm.tasks import Task, given_rows, reverses


def about(model: Model, task: Task) -> Model:
    """The model, which knows the task's rows if it is a classifier.

    `FwcError` for columns that the table lacks, and for classes of which none means yes for sure.
    """
    if not isinstance(model, EstimatorModel):
        return model
    rows = GivenRows(task, model.name, model.names)
    return model.asked_by(rows.of, place_of_yes(model.estimator, task))


class GivenRows:
    """Rows as a classifier was fitted on them; `FwcError` for a column that the table lacks."""

    def __init__(self, task: Task, model: str, names: Sequence[Any] | None) -> None:
        import narwhals as nw

        frame, ids = given_rows(task)
        self._model = model
        self._frame: Any = nw.from_native(frame).lazy().collect()
        self._clean = task.table
        self._positions = {str(row): position for position, row in enumerate(ids)}
        self._sources = {item.name: item.source for item in task.rules.offered}
        self._titles = {title_of(name): name for name in self._frame.columns}
        others = [
            name for name in self._frame.columns if title_of(name) != task.outcome
        ]
        self._names = names or others
        for name in self._names:
            if name not in others:
                raise FwcError(
                    f"{model} needs the column {name!r}; the task has "
                    f"{', '.join(map(str, others))} and the outcome, which no model gets: fit it "
                    f"on columns of the table"
                )

    def of(self, context: RowContext) -> Any:
        """The row of a question, with the changes of its variant, as a frame of one row."""
        position = self._positions[context.row]
        row = self._frame[position : position + 1]
        before = self._clean.loc[context.row]
        for name, value in context.values.items():
            if name in before.index and value != before[name]:
                row = row.with_columns(self._cell(name, value))
        return row.select(self._names).to_native()

    def _cell(self, name: str, value: Any) -> Any:
        """The one cell of the frame that has this value in the clean table, as a column."""
        alike = self._clean.index[self._clean[name] == value]
        source = self._titles.get(self._sources.get(name, name))
        cells = self._frame[[self._positions[row] for row in alike]]
        if source is None or cells[source].n_unique() != 1:
            raise FwcError(
                f"{self._model} cannot be asked with {name} = {value!r}: several cells of the "
                f"table mean it; ask a language model, or leave the variants out"
            )
        return cells[source][:1]


# What to fit on: one of the two means the same in every task.
_LABELS = (
    ('the words np.where(task.labels(frame), "yes", "no")', ["no", "yes"]),
    (
        'the words np.where(task.labels(frame), "granted", "refused")',
        ["refused", "granted"],
    ),
)


def place_of_yes(estimator: Any, task: Task) -> int:
    """The position of the class that means yes in the task, or usually where the task has none."""
    import numpy as np

    if not hasattr(estimator, "classes_"):
        return -1
    classes = np.asarray(estimator.classes_).tolist()
    position = _place_among(classes, task)
    if position is not None:
        return position
    sure = [words for words, labels in _LABELS if _place_among(labels, task) == 1]
    raise FwcError(
        f"{kind_of(estimator)} has the classes {', '.join(map(repr, classes))}, and it is not "
        f"sure which means yes in {task.name!r}: fit it on {sure[0]}"
    )


def _place_among(classes: Sequence[Any], task: Task) -> int | None:
    """The position of yes in two classes; None where the task and usage differ, or know none."""
    import pandas as pd

    texts = [*map(as_text, classes)]
    if {*texts} <= {"0", "1", "false", "true"} and reverses(task):
        return None  # labels of the task, or cells of its outcome
    usual = usual_meaning(texts)
    readings = [[text in usual.yes for text in texts]]
    try:
        labels = task.labels(pd.DataFrame({task.outcome: classes}))
    except FwcError:
        pass  # other classes than the outcome's cells
    else:
        readings.append([*(labels == 1)])
    readings = [reading for reading in readings if sum(reading) == 1]
    if len(texts) != 2 or not readings or readings != readings[:1] * len(readings):
        return None
    return readings[0].index(True)
