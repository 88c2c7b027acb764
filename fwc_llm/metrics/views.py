"""The groupings under which an audit is read: each protected attribute by itself, and all of them crossed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.metrics.sample import Codes, Sample

CROSSING = " & "
_UNKNOWN = "unknown"  # the level of people whose category is not known


@dataclass(frozen=True)
class View:
    """One grouping: its `name`, its `levels` (L,), and the level of each of the run's groups (G,).

    `crossed` says that it joins several attributes.
    """

    name: str
    levels: tuple[str, ...]
    level_of: Codes
    crossed: bool = False

    @property
    def known(self) -> tuple[bool, ...]:
        """Which levels are categories, and not people whose category is unknown (L,)."""
        parts = ([part.strip().lower() for part in level.split(CROSSING)] for level in self.levels)
        return tuple(_UNKNOWN not in one for one in parts)

    def of(self, sample: Sample) -> Sample:
        """Return the sample with levels in the place of groups."""
        return replace(sample, group=self.level_of[sample.group], groups=len(self.levels))


def views(groups: Sequence[str], attributes: Sequence[str]) -> list[View]:
    """Return every attribute by itself, then (where there are several) the groups as they are, crossed.

    `groups` join the levels of several attributes by " & ". Groups that do not split into as many parts as
    there are attributes are taken as they are.
    """
    names = [str(name) for name in attributes] or ["group"]
    whole = View(CROSSING.join(names), tuple(groups), np.arange(len(groups)), len(names) > 1)
    parts = [group.split(CROSSING) for group in groups]
    if len(names) == 1 or any(len(part) != len(names) for part in parts):
        return [whole]
    found = []
    for place, name in enumerate(names):
        levels = tuple(dict.fromkeys(part[place] for part in parts))
        codes = np.array([levels.index(part[place]) for part in parts], dtype=np.int64)
        found.append(View(name, levels, codes))
    return [*found, whole]
