"""One arm's answers as plain arrays, and what they speak of (docs/statistics.md, "Two questions")."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import Floats

Codes = npt.NDArray[np.int64]
Of = Literal["these examples", "this strategy"]
THESE_EXAMPLES: Of = "these examples"
THIS_STRATEGY: Of = "this strategy"
LEAST_SETS = 5  # of examples, below which nothing is said about other draws of them


def of_words(of: str, with_examples: bool) -> str:
    """What an interval speaks of, in a sentence: answers without examples speak of their rows."""
    return "these rows" if of == THESE_EXAMPLES and not with_examples else of


@dataclass(frozen=True)
class Sample:
    """The n answers of one arm, as numbers.

    `answer` (n,) is 1, 0 or NaN; `label` (n,) 1 or 0; `group`, `repeat` and `row` (n,) count from 0, and a
    row has one group and one label. `groups` is the number of groups. `labels_fixed` says that the design
    fixed how many rows of each group have the label yes. `examples` (n,) numbers the set of examples under
    which each answer was given; None where all were given under one set, or where it is not known.
    """

    answer: Floats
    label: npt.NDArray[np.integer[Any]]
    group: Codes
    repeat: Codes
    row: Codes
    groups: int
    labels_fixed: bool = False
    examples: Codes | None = None

    @cached_property
    def parsed(self) -> npt.NDArray[np.bool_]:
        """Which answers are yes or no (n,)."""
        return ~np.isnan(self.answer)

    @property
    def yes(self) -> Floats:
        """1 for a yes (n,), 0 for everything else."""
        return np.where(self.parsed, self.answer, 0.0)

    @property
    def read(self) -> Floats:
        """1 for a yes or no (n,), 0 for what could not be parsed."""
        return self.parsed.astype(np.float64)

    @cached_property
    def asked(self) -> npt.NDArray[np.bool_]:
        """True for every question (n,)."""
        return np.broadcast_to(np.bool_(True), len(self.answer))

    @cached_property
    def everyone(self) -> Codes:
        """One group of all (n,)."""
        return np.broadcast_to(np.int64(0), len(self.answer))

    @property
    def cell(self) -> Codes:
        """Twice the group, and one more where the label is yes (n,)."""
        return 2 * self.group + self.label

    @cached_property
    def rows(self) -> int:
        """The number of rows that were asked about."""
        return int(np.count_nonzero(np.bincount(self.row)))

    @cached_property
    def repeats(self) -> int:
        """The number of repeats."""
        return int(self.repeat.max(initial=-1)) + 1

    @cached_property
    def sets(self) -> Codes | None:
        """The set of examples of each repeat (R,); None where it is one set throughout, or one a row."""
        if self.examples is None or self.per_row:
            return None
        found = np.zeros(self.repeats, dtype=np.int64)
        found[self.repeat] = self.examples
        return None if (found == found[0]).all() else found

    @cached_property
    def per_row(self) -> bool:
        """Whether the rows of one repeat were asked under examples of their own."""
        if self.examples is None or not len(self.examples):
            return False
        one = np.zeros(self.repeats, dtype=np.int64)
        one[self.repeat] = self.examples
        return bool((one[self.repeat] != self.examples).any())

    @property
    def of(self) -> Of:
        """What this arm's intervals speak of: these examples, or the strategy that draws them."""
        if self.per_row:
            return THIS_STRATEGY
        enough = self.sets is not None and len(np.unique(self.sets)) >= LEAST_SETS
        return THIS_STRATEGY if enough else THESE_EXAMPLES

    @property
    def redrawn(self) -> Codes | None:
        """The sets (R,) over which intervals must reach as well; None where they are over rows alone."""
        return self.sets if self.of == THIS_STRATEGY else None
