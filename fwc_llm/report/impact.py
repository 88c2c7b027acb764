"""What an auditor asks first: who was asked and answered, who was selected, by each attribute and crossed.

Selection rates and impact ratios speak of people only where rows are drawn as they fall. Of a designed sample
they are re-weighted to the table's own rates, or withheld (docs/statistics.md, "Designed samples").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.metrics.accounting import accounting, lost_of_levels
from fwc_llm.metrics.answers import Answered
from fwc_llm.metrics.confusion import confusion
from fwc_llm.metrics.estimates import estimate
from fwc_llm.metrics.impact import (
    NOT_SELECTED,
    Selection,
    answers_of_levels,
    answers_once,
    people_of_levels,
    read_of_levels,
)
from fwc_llm.metrics.reweighting import Population, population_of, rates_of_levels
from fwc_llm.metrics.sample import Sample
from fwc_llm.metrics.shares import Shares
from fwc_llm.metrics.statistics import plain
from fwc_llm.metrics.views import View, views
from fwc_llm.report.read import Run
from fwc_llm.runs.population import population

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

AS_DRAWN, REWEIGHTED, WITHHELD = "as drawn", "re-weighted", "withheld"
NO_PEOPLE = "The test rows were drawn so that groups and labels come in set numbers: they are no applicants."
_TEXTS = {
    AS_DRAWN: "Rows were taken as they fall, so that rates and ratios speak of people like them.",
    REWEIGHTED: NO_PEOPLE + " Rates, ratios, precision and shortfall are re-weighted to the {rows} rows "
    "of the table that they were drawn from, whose share of each group and label counts as known; counts are "
    "those of the test rows.",
    WITHHELD: NO_PEOPLE + " {why}, so selection rates, impact ratios and precision are withheld; a run with "
    "--base-parity none, or fwc-llm audit on decisions, has them.",
}
_UNKNOWN_TABLE = "The table's own rates are not known here"


@dataclass(frozen=True)
class _Tables:
    """One run's answers, with the table behind them where a design makes it necessary."""

    answered: Answered
    designed: bool
    table: Population | None

    @property
    def basis(self) -> str:
        """What rates rest on."""
        if not self.designed:
            return AS_DRAWN
        return WITHHELD if self.table is None else REWEIGHTED

    @cached_property
    def cells(self) -> dict[str, Shares]:
        """Each arm's shares of yes by group and label; of a designed sample only."""
        if not self.designed:
            return {}
        return {arm: estimate(one).counted_odds for arm, one in self.answered.samples.items()}

    @cached_property
    def views(self) -> list[View]:
        """Each attribute by itself, then all crossed."""
        return views(self.answered.groups, self.answered.attributes)

    def view(self, view: View, place: int, lost: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """One grouping with all arms. `place` is that of its attribute, `lost` the crossed groups' rows."""
        samples = self.answered.samples
        arms = [self._arm(view, arm, samples[arm]) for arm in self.answered.arms]
        first = arms[0]["groups"]
        return {
            "attribute": view.name,
            "crossed": view.crossed,
            "lost": lost_of_levels(lost, view, len(self.answered.attributes), place),
            "unknown": sum(
                first[name]["rows"] for name, known in zip(view.levels, view.known, strict=True) if not known
            ),
            "arms": arms,
        }

    def _arm(self, view: View, arm: str, sample: Sample) -> dict[str, Any]:
        cells = self.cells.get(arm)
        of_levels = view.of(sample)
        counted = accounting(self.answered.answers[arm], self.answered.groups, view)
        rows = people_of_levels(of_levels).tolist()
        found = confusion(of_levels, view, self.designed, cells, self.table)
        described: dict[str, Any] = {"reference": None, "pairs": [], "all_pairs": True}
        chosen: dict[str, dict[str, Any]] = {name: dict(NOT_SELECTED) for name in view.levels}
        people = None if self.table is None else self.table.by_level(view).sum(1)
        if self.basis != WITHHELD:
            described = self._selection(view, of_levels, cells).described()
            chosen = described.pop("groups")
        groups = {
            name: {
                "rows": int(rows[place]),
                **counted[name],
                "in_table": None if people is None else int(people[place]),
                **chosen[name],
                **found[name],
            }
            for place, name in enumerate(view.levels)
        }
        return {"arm": arm, "of": sample.of, **described, "groups": groups}

    def _selection(self, view: View, sample: Sample, cells: Shares | None) -> Selection:
        if cells is not None and self.table is not None:
            rates = rates_of_levels(cells, view, self.table)
            people = self.table.by_level(view).sum(1)
            return Selection(view, sample, rates, people, np.ones(len(people)))
        counts = answers_of_levels(sample) if answers_once(sample) else None
        rates, people = estimate(sample).counted_rates, people_of_levels(sample)
        return Selection(view, sample, rates, people, read_of_levels(sample), counts)


def impact_tables(
    answered: Answered,
    designed: bool = False,
    table: Population | None = None,
    lost: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the tables of an audit for JSON: undefined is None, with a `reason`.

    Keys: `basis` (`kind`: "as drawn", "re-weighted" or "withheld", and a `text` that says what that means),
    `asked_once`, and `attributes`, one object each protected attribute and, of several, one for all crossed:
    `attribute`, `crossed`, `unknown` (rows whose category is not known), `lost` (rows of each group before
    the run) and `arms`, each with `groups`, `reference` (the group with the highest rate) and `pairs` (of
    many groups, where `all_pairs` is false, those with the reference).

    `designed` says that the number of rows of each group and label was chosen, `table` has those that they
    were drawn from. Groups of it that no row was asked about are there with zeros.
    """
    designed = designed or answered.labels_fixed
    if table is not None:
        more = [name for name in table.groups if name not in answered.groups]
        answered = replace(answered, groups=(*answered.groups, *more))
        table = table.in_order(answered.groups)
    tables = _Tables(answered, designed, table)
    lost = list(lost)
    kind = tables.basis
    rows = 0 if table is None else int(table.rows.sum())
    text = _TEXTS[kind].format(rows=f"{rows:,}", why=_UNKNOWN_TABLE)
    found: dict[str, Any] = plain(
        {
            "basis": {"kind": kind, "text": text},
            "asked_once": all(answers_once(one) for one in answered.samples.values()),
            "attributes": [tables.view(one, place, lost) for place, one in enumerate(tables.views)],
        }
    )
    return found


def is_designed(run: Run) -> bool:
    """Whether the number of test rows of each group and label was chosen: they are no applicants."""
    return bool(run.described.get("designed", run.described["settings"].get("base_parity") is not None))


def audit_tables(run: Run, task: "Task | None" = None) -> dict[str, Any]:
    """Return the tables of a run, see `impact_tables`; a run of earlier versions needs its `task`'s table."""
    counted, table = run.described.get("population"), None
    if counted is not None:
        table = population_of(counted)
    elif task is not None and task.fingerprint == run.described.get("fingerprint"):
        table = population(task)
    return impact_tables(
        run.answered, is_designed(run), table, (run.results.get("rows") or {}).get("groups", ())
    )
