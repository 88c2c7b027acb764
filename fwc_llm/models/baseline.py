"""`baseline`: a logistic regression on the table itself, to set beside a language model. It reads no prompt.

It answers for every task, without key or network, and with a probability. Each repeat fits it once, on the
rows of the pool that are not test rows, protected attributes included.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Asked, Messages, Reply, Training, Usage

NAME = "baseline"
_PENALTY = 1.0
_SUREST = 1e-6

Probability = Callable[[Mapping[str, Any]], float]


class Baseline:
    """The logistic regression behind the interface of a model; see `Traits.ask_row`."""

    reference = True
    completion_limit = 1

    def __init__(self) -> None:
        self._fitted: WeakKeyDictionary[Training, Probability] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """`baseline`."""
        return NAME

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What besides the rows decides an answer."""
        return {"penalty": _PENALTY}

    async def ask(self, messages: Messages) -> Reply:
        """Refuse: a prompt is not what this model reads."""
        raise FwcError("the baseline answers from a table, not from a prompt: use it with `evaluate`")

    async def ask_row(self, messages: Messages, asked: Asked) -> Reply:
        """Answer at once for the row, with log-probabilities; the messages are not looked at."""
        training = asked.training()
        if training not in self._fitted:
            self._fitted[training] = fit(training)
        p = min(max(self._fitted[training](asked.values), _SUREST), 1 - _SUREST)
        logs = (("yes", math.log(p)), ("no", math.log1p(-p)))
        return Reply(
            text="yes" if p >= 0.5 else "no",
            finish_reason="stop",
            logprobs=logs if p >= 0.5 else logs[::-1],
            usage=Usage(),
            model=f"{NAME} (logistic regression)",
        )

    async def aclose(self) -> None:
        """There is nothing to close."""


def fit(training: Training) -> Probability:
    """Return the probability of yes for a row, given as column names to values, as fitted on `training`."""
    import numpy as np

    from fwc_llm.coreset.problem.encoding import Encoder
    from fwc_llm.coreset.problem.one_hot import frequent, one_hot
    from fwc_llm.metrics.logistic import fit_logistic

    if training.labels.min() == training.labels.max():
        constant = float(training.labels[0])
        return lambda values: constant
    encoder = Encoder.fit(training.rows)[0]
    encoded = one_hot(encoder, training.rows)
    used = frequent(encoded)
    fitted = fit_logistic(encoded[:, used], training.labels, penalty=_PENALTY)
    beta = np.zeros(encoded.shape[1] + 1)  # rarer categories count as the average one
    beta[used], beta[-1] = fitted[:-1], fitted[-1]

    def probability(values: Mapping[str, Any]) -> float:
        # The row that `one_hot` would make, term by term: a frame of one row takes a hundred times as long.
        score, start = float(beta[-1]), 0
        for column in encoder.columns:
            value = values[column.name]
            if column.kind == "categorical":
                place = column.place(value)
                score += 0.5 * float(beta[start + place]) if place >= 0 else 0.0
                start += len(column.values)
                continue
            number = column.place(value) if column.kind == "ordinal" else float(value)
            score += float(beta[start]) * (number - column.mean) / column.scale
            start += 1
        return 0.5 * (1.0 + math.tanh(0.5 * score))

    return probability
