"""Fitted classifiers as models: anything with `predict_proba` answers from rows of the table."""

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from fwc_llm.cell_rules import as_text, title_of
from fwc_llm.errors import FwcError
from fwc_llm.meaning import usual_meaning
from fwc_llm.models.base import Messages, Reply, RowContext, Usage
from fwc_llm.models.identity import digest_of_fitted
from fwc_llm.sanitize import described, kind_of

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


class EstimatorModel:
    """A classifier that was fitted on columns of the task's table; it reads no prompt.

    It gets a data frame of one row: of the frame that `load_task` got, with its own dtypes, else of
    `task.pool()` and `task.test()`. A model that does not remember its columns gets all but the
    outcome. Which class means yes, the task decides. `raised` is its latest exception.

    Errors: `FwcError` for a classifier that is not fitted, or was fitted on an array.
    """

    reference = True
    local = True
    completion_limit = 1
    _rows: "_Rows"
    _yes: int

    def __init__(self, estimator: Any) -> None:
        kind = type(estimator)
        if not hasattr(estimator, "classes_"):
            raise FwcError(
                f"{kind_of(estimator)} is not fitted, or has no classes_: call fit first"
            )
        names = getattr(estimator, "feature_names_in_", None)
        if names is None and hasattr(estimator, "n_features_in_"):
            raise FwcError(
                f"{kind_of(estimator)} was fitted on an array, so it is not known which columns it "
                f"needs: fit it on a data frame, such as task.pool()[[…]]"
            )
        self._estimator = estimator
        self._names = None if names is None else [*names]
        self.name = f"python:{kind.__module__}:{kind.__qualname__}"
        self.parameters: Mapping[str, Any] = {"fitted": digest_of_fitted(estimator)}
        self.raised: Exception | None = None

    def about(self, task: "Task") -> "EstimatorModel":
        """The model for rows of `task`; `FwcError` for columns or classes that it cannot give."""
        model = copy(self)
        model._rows = _Rows(task, self.name, self._names)
        model._yes = _place_of_yes(self._estimator, task)
        return model

    async def ask(self, messages: Messages) -> Reply:
        """Raise `FwcError`: a classifier answers from rows, not from prompts."""
        raise FwcError(
            f"{self.name} answers from a table, not from a prompt: use `evaluate`"
        )

    async def ask_row(self, messages: Messages, context: RowContext) -> Reply:
        """Answer for the row, with P(yes); the messages are ignored. An exception is an error."""
        row = self._rows.of(context)
        try:
            predict = partial(self._estimator.predict_proba, row)
            p = float((await asyncio.to_thread(predict))[0][self._yes])
        except Exception as error:
            self.raised = error
            return Reply(text=None, error=f"it raised {described(error)}")
        return Reply(
            "yes" if p >= 0.5 else "no", "stop", p_yes=p, usage=Usage(), model=self.name
        )

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class _Rows:
    """Rows as a classifier was fitted on them; `FwcError` for a column that the table lacks."""

    def __init__(self, task: "Task", model: str, names: Sequence[Any] | None) -> None:
        import narwhals as nw

        frame, ids = task.rows_given
        self._model = model
        self._frame = nw.from_native(frame).lazy().collect()
        self._clean = task.table
        self._place = {str(row): place for place, row in enumerate(ids)}
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
        place = self._place[context.row]
        row = self._frame[place : place + 1]
        before = self._clean.loc[context.row]
        for name, value in context.values.items():
            if name in before.index and value != before[name]:
                row = row.with_columns(self._cell(name, value))
        return row.select(self._names).to_native()

    def _cell(self, name: str, value: Any) -> Any:
        """The one cell of the frame that has this value in the clean table, as a column."""
        alike = self._clean.index[self._clean[name] == value]
        source = self._titles.get(self._sources.get(name, name))
        cells = self._frame[[self._place[row] for row in alike]]
        if source is None or cells[source].n_unique() != 1:
            raise FwcError(
                f"{self._model} cannot be asked with {name} = {value!r}: several cells of the "
                f"table mean it; ask a language model, or leave the variants out"
            )
        return cells[source][:1]


def _place_of_yes(estimator: Any, task: "Task") -> int:
    """The position of the class that means yes in the task, or usually where the task has none."""
    import pandas as pd

    classes = [*estimator.classes_]
    texts = [*map(as_text, classes)]
    usual = usual_meaning(texts)
    readings = [[text in usual.yes for text in texts]] if usual.yes else []
    try:
        labels = task.labels(pd.DataFrame({task.outcome: classes}))
    except FwcError:
        pass  # other classes than the outcome's cells
    else:
        readings.append([*(labels == 1)])
    readings = [reading for reading in readings if sum(reading) == 1]
    if len(texts) != 2 or not readings or readings != readings[:1] * len(readings):
        raise FwcError(
            f"{kind_of(estimator)} has the classes {', '.join(map(repr, texts))}, and it is not "
            f"sure which means yes in {task.name!r}: fit it on the words "
            f'np.where(task.labels(frame), "yes", "no")'
        )
    return readings[0].index(True)
