"""Fitted classifiers as models: anything with `predict_proba` answers from rows of the table."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.meaning import text_of, usual_meaning
from fwc_llm.models.base import Messages, Reply, RowContext, Usage
from fwc_llm.sanitize import described, kind_of


class EstimatorModel:
    """A classifier that was fitted on columns of the task's table; it reads no prompt.

    It gets a data frame of one row, with the columns in its `feature_names_in_`; a model that does
    not remember columns gets the features and the protected columns. Its class 1, True or "yes" means yes, or
    a word that usually does. `raised` is its latest exception.

    Errors: `FwcError` for a classifier that is not fitted, or was fitted on an array, and for
    classes without a meaning.
    """

    reference = True
    local = True
    completion_limit = 1

    def __init__(self, estimator: Any) -> None:
        from joblib import hash as hash_of

        kind = type(estimator)
        if not hasattr(estimator, "classes_"):
            raise FwcError(
                f"{kind_of(estimator)} is not fitted, or has no classes_: call fit first"
            )
        self._estimator = estimator
        self._yes = _place_of_yes(estimator.classes_, kind.__name__)
        self._names = getattr(estimator, "feature_names_in_", None)
        if self._names is None and hasattr(estimator, "n_features_in_"):
            raise FwcError(
                f"{kind_of(estimator)} was fitted on an array, so it is not known which columns it "
                f"needs: fit it on a data frame, such as task.pool()[[…]]"
            )
        self.name = f"python:{kind.__module__}:{kind.__qualname__}"
        self.parameters: Mapping[str, Any] = {"fitted": hash_of(estimator)}
        self.raised: Exception | None = None

    async def ask(self, messages: Messages) -> Reply:
        """Raise `FwcError`: a classifier answers from rows, not from prompts."""
        raise FwcError(
            f"{self.name} answers from a table, not from a prompt: use `evaluate`"
        )

    async def ask_row(self, messages: Messages, context: RowContext) -> Reply:
        """Answer for the row, with P(yes); the messages are ignored. An exception is an error."""
        row = self._row(context)
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

    def _row(self, context: RowContext) -> Any:
        import pandas as pd

        names: Sequence[Any] = self._names if self._names is not None else ()
        columns = list(names) or context.training().rows.columns.tolist()
        lacking = [name for name in columns if name not in context.values]
        if lacking:
            raise FwcError(
                f"{self.name} needs the column {lacking[0]!r}; the task has "
                f"{', '.join(map(str, context.values))}: fit it on columns of task.pool()"
            )
        return pd.DataFrame([{name: context.values[name] for name in columns}])


def _place_of_yes(classes: Sequence[Any], name: str) -> int:
    """The position of the class that means yes."""
    texts = [text_of(value) for value in classes]
    meaning = usual_meaning(texts)
    if len(texts) != 2 or len(meaning.yes) != 1 or len(meaning.no) != 1:
        raise FwcError(
            f"{name} has the classes {', '.join(map(repr, texts))}, and it is not known which "
            f"means yes: fit it on task.labels(rows), where 1 is yes"
        )
    return texts.index(meaning.yes[0])
