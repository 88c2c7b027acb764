"""`Shots`: the examples chosen for a prompt, and the request that a strategy answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.tasks import Task


@dataclass(frozen=True)
class Example:
    """One real row with its true label.

    `row` is the row's id ("adult.data:17": file and line); `values` maps every column that a prompt may
    show (protected attribute included, outcome not) to its value; `weight` is the exact θ of the coreset
    (summing to m over the shots), or None for unweighted shots.
    """

    row: str
    values: Mapping[str, Any]
    label: Literal["yes", "no"]
    weight: float | None = None


@dataclass(frozen=True)
class Shots:
    """The examples of one prompt, in prompt order, with where they came from and their certificate."""

    strategy: str
    task: str
    fingerprint: str
    seed: int
    examples: tuple[Example, ...]
    certificate: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def m(self) -> int:
        """How many examples were chosen, those with weight zero included."""
        return len(self.examples)

    @property
    def weighted(self) -> bool:
        """Whether the examples carry weights."""
        return any(example.weight is not None for example in self.examples)

    def shown(self) -> tuple[tuple[Example, str | None], ...]:
        """The examples that a prompt shows, each with its displayed weight θ/max θ.

        An example whose θ is 0 is left out; a displayed weight has two decimals and is never "0.00"
        (docs/method.md, "Weights in prompts").
        """
        largest = max((example.weight or 0.0 for example in self.examples), default=0.0)
        if not self.weighted or largest == 0.0:
            return tuple((example, None) for example in self.examples)
        return tuple(
            (example, f"{max((example.weight or 0.0) / largest, 0.01):.2f}")
            for example in self.examples
            if (example.weight or 0.0) > 0.0
        )


@dataclass(frozen=True)
class Request:
    """What a strategy is asked for.

    `pool` (n rows, indexed by row id) is the table; `candidates` (n,) marks the rows that may become
    examples; `query` is the row to be answered, given to strategies that choose per row.
    """

    task: "Task"
    pool: "pd.DataFrame"
    candidates: "np.ndarray"
    m: int = 16
    epsilon: float | None = 0.01
    seed: int = 0
    query: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


Strategy = Callable[[Request], Shots]
