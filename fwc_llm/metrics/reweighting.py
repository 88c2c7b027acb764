"""Rates of a designed sample, re-weighted to a table's own share of each group and label.

A design that fixes how many rows of each group and label are asked makes no sample of people: its rates, gaps
and ratios are those of the design. Within a group and label its rows are drawn as they fall, so that the
shares counted there, weighted as the table has them, speak of the table again (docs/statistics.md, "Designed
samples"). The weights count as known; the uncertainty is that of the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.sample import Codes
from fwc_llm.metrics.shares import Shares
from fwc_llm.metrics.views import View


@dataclass(frozen=True)
class Population:
    """A table's rows per group and label: `rows` (G, 2) in the order of `groups`, label no, then yes."""

    groups: tuple[str, ...]
    rows: Floats

    def in_order(self, groups: Sequence[str]) -> "Population":
        """Return the rows of these groups, 0 for one that the table does not have."""
        place = {name: number for number, name in enumerate(self.groups)}
        held = [self.rows[place[name]] if name in place else np.zeros(2) for name in groups]
        return Population(tuple(groups), np.array(held).reshape(-1, 2))

    def by_level(self, view: View) -> Floats:
        """Return the rows per level and label (L, 2)."""
        found = np.zeros((len(view.levels), 2))
        np.add.at(found, view.level_of, self.rows)
        return found

    def as_json(self) -> list[dict[str, Any]]:
        """Return the counts as run.json holds them."""
        pairs = zip(self.groups, self.rows.tolist(), strict=True)
        return [{"group": group, "no": int(no), "yes": int(yes)} for group, (no, yes) in pairs]


def population_of(counted: Sequence[Mapping[str, Any]]) -> Population:
    """Return the counts that `as_json` wrote."""
    rows = np.array([[one["no"], one["yes"]] for one in counted], dtype=np.float64).reshape(-1, 2)
    return Population(tuple(str(one["group"]) for one in counted), rows)


def rates_of_levels(cells: Shares, view: View, population: Population) -> Shares:
    """Return each level's rate (L,) as the table's people would have it.

    `cells` are the shares of each group and label (2G,), label no and yes of the first group, then the next.
    """
    rows = population.rows.ravel()
    owner = np.repeat(view.level_of, 2)
    return _weighted(cells, owner, rows / _of_owner(rows, owner, len(view.levels)), len(view.levels))


def rates_by_label(cells: Shares, view: View, population: Population) -> Shares:
    """Return the rates among each level's rows with label no and with label yes (2L,)."""
    rows, owner = population.rows.ravel(), _by_label(view)
    return _weighted(cells, owner, rows / _of_owner(rows, owner, 2 * len(view.levels)), 2 * len(view.levels))


def joint_rates(cells: Shares, view: View, population: Population) -> Shares:
    """Return the shares of each level that have label no, or yes, and are answered yes (2L,)."""
    rows = population.rows.ravel()
    weight = rows / _of_owner(rows, np.repeat(view.level_of, 2), len(view.levels))
    return _weighted(cells, _by_label(view), weight, 2 * len(view.levels))


def _by_label(view: View) -> Codes:
    return np.asarray((2 * view.level_of[:, None] + np.arange(2)).ravel())


def _of_owner(rows: Floats, owner: Codes, owners: int) -> Floats:
    """The rows of each stratum's owner; 1 for one without any, so that nothing is divided by 0."""
    total = np.bincount(owner, rows, owners)
    return np.asarray(np.where(total > 0, total, 1.0)[owner])


def _weighted(cells: Shares, owner: Codes, weight: Floats, owners: int) -> Shares:
    """Sums of the strata's shares; NaN where the table has rows of a stratum that nobody answered about."""
    held = weight > 0
    empty = np.bincount(owner, weight, owners) == 0

    def total(values: Floats) -> Floats:
        # One by one, so that a stratum without a share leaves only its own share undefined.
        found = np.zeros((*values.shape[:-1], owners))
        for place in np.flatnonzero(held).tolist():
            found[..., owner[place]] += weight[place] * values[..., place]
        return np.where(empty, np.nan, found)

    return replace(
        cells,
        values=total(cells.share),
        per_repeat=total(cells.per_repeat),
        owner=owner,
        coefficient=weight,
        extra=np.zeros(owners),  # weights are the table's, whatever could be parsed
    )
