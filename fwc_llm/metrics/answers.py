"""The answers that every statistic starts from: one arm's, and those of all arms to the same questions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import Cells, Floats, Labels, Strings, count_cells


@dataclass(frozen=True)
class Answers:
    """The answers of one arm, n of them: `answer` 1, 0 or NaN; `reason` why it is NaN; `p_yes` or NaN."""

    repeat: npt.NDArray[np.int64]
    row: Strings
    variant: Strings
    group: Strings
    label: Labels
    answer: Floats
    reason: Strings
    p_yes: Floats

    def __len__(self) -> int:
        return len(self.answer)

    def where(self, chosen: npt.NDArray[Any]) -> "Answers":
        """Return the answers at a mask (n,) or at positions."""
        return Answers(**{name: values[chosen] for name, values in vars(self).items()})

    @property
    def key(self) -> Strings:
        """What tells two questions of an arm apart: repeat and row."""
        return np.char.add(np.char.add(self.repeat.astype(np.str_), "\x1f"), self.row)


@dataclass(frozen=True)
class Answered:
    """What statistics are about: every arm's answers to the same questions.

    `groups` are in the order in which they are shown. `counterfactuals` holds answers to rows told with
    another protected attribute, `attributes` the names of the attributes that " & " joins to a group, and
    `sources` the strategy behind each arm (arms of one strategy differ in the order of their examples).
    """

    answers: Mapping[str, Answers]
    groups: tuple[str, ...]
    counterfactuals: Mapping[str, Answers] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return tuple(self.answers)

    def cells(self, arm: str) -> Cells:
        """Return the arm's answers as counts, over the groups in their order."""
        a = self.answers[arm]
        return count_cells(a.answer, a.label, a.group, self.groups, a.repeat, a.row)


def pairs(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every two items, in order."""
    for place, first in enumerate(items):
        for second in items[place + 1 :]:
            yield first, second
