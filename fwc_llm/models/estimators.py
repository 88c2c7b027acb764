"""Fitted classifiers as models: anything with `predict_proba` answers from rows of the table."""

import asyncio
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import FromTable, Messages, Reply, RowContext, Usage
from fwc_llm.models.functions import read_answer
from fwc_llm.models.identity import digest_of_fitted
from fwc_llm.sanitize import Fields, described, kind_of


class EstimatorModel(FromTable):
    """A classifier that was fitted on columns of the task's table; it reads no prompt.

    It gets a data frame of one row: of the frame that `load_task` got, with its own dtypes, else of
    `task.pool()` and `task.test()`. A model that does not remember its columns gets all but the
    outcome. Which class means yes, the task decides; of a model without `classes_`, P(yes) is the
    last of two columns, or the only one. `raised` is its latest exception.

    Errors: `FwcError` for a classifier that is not fitted, or was fitted on an array, and for
    probabilities that are not those of one row.
    """

    local = True
    _row: Callable[[RowContext], Any]
    _shapes: Collection[tuple[int, ...]] = ((1, 2), (1, 1), (1,))
    _yes: int

    def __init__(self, estimator: Any) -> None:
        kind = type(estimator)
        if hasattr(estimator, "fit") and not hasattr(estimator, "classes_"):
            raise FwcError(
                f"{kind_of(estimator)} is not fitted, or has no classes_: call fit first, or set "
                f"classes_"
            )
        names = getattr(estimator, "feature_names_in_", None)
        if names is None and hasattr(estimator, "n_features_in_"):
            raise FwcError(
                f"{kind_of(estimator)} was fitted on an array, so it is not known which columns it "
                f"needs: fit it on a data frame, such as task.pool()[[…]]"
            )
        if hasattr(estimator, "classes_"):
            self._shapes = ((1, 2),)
        self.estimator = estimator
        self.names = None if names is None else [*names]
        self.name = f"python:{kind.__module__}:{kind.__qualname__}"
        self.parameters: Fields = {"fitted": digest_of_fitted(estimator)}
        self.raised: Exception | None = None

    def asked_by(self, row: Callable[[RowContext], Any], yes: int) -> "EstimatorModel":
        """The model for a task: `row` makes the data frame of one row, `yes` is a class's place."""
        model = copy(self)
        model._row = row
        model._yes = yes
        return model

    async def ask_row(self, messages: Messages, context: RowContext) -> Reply:
        """Answer for the row, with P(yes); the messages are ignored. An exception is an error."""
        import numpy as np

        row = self._row(context)
        try:
            predict = partial(self.estimator.predict_proba, row)
            found = await asyncio.to_thread(predict)
            shape = np.shape(found)
        except Exception as error:
            self.raised = error
            return Reply(text=None, error=f"it raised {described(error)}")
        if hasattr(found, "columns") or shape not in self._shapes:
            raise FwcError(
                f"predict_proba of {self.name} gave {kind_of(found)} of shape {shape} for one "
                f"row: give an array (1, 2) of P(no) and P(yes), in the order of classes_"
            )
        reply = read_answer(np.ravel(found)[self._yes])
        return replace(reply, finish_reason="stop", usage=Usage(), model=self.name)
