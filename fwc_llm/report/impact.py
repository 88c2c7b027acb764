"""Audit tables: rows asked, answered and selected, by each attribute and crossed.

Selection rates and impact ratios describe a population only if rows are drawn without a base
parity. For a designed sample, they are withheld (docs/statistics.md, "Designed samples").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fwc_llm.metrics.adverse_impact import (
    CANNOT_SAY,
    CONFUSION,
    WITHHELD,
    Impact,
    is_small,
    references,
)
from fwc_llm.metrics.records import Record, Records
from fwc_llm.metrics.run_answers import View
from fwc_llm.number_format import DASH, p_value
from fwc_llm.report.table_model import (
    Cells,
    Row,
    Scale,
    Section,
    TableCell,
    difference,
    valued,
)
from fwc_llm.sanitize import Json, listed

_LAW = (
    "Laws and practices ask for ratios, tests and four fifths; their conclusions may differ from "
    "the "
    "verdict on a gap, which has a margin. Four fifths is a rule of practice (29 CFR 1607.4 (D), "
    "read "
    "2026-11-22 in secondary sources): check that this rule is in force."
)


_CELLS = {
    "true_positives": "True yes",
    "false_positives": "False yes",
    "false_negatives": "False no",
    "true_negatives": "True no",
}
_RATES = {rate: rate.replace("_", " ").capitalize() for rate in CONFUSION}


_RATIOS = "impact_ratio", "scoring_impact_ratio"
_MOST_NAMED = 6  # groups in a note


class ImpactTables:
    """The tables of one attribute: pivots of the records by group and by arm."""

    def __init__(self, impact: Impact, view: View, records: Records) -> None:
        self.impact = impact
        self.view = view
        self.records = records
        self.references = {
            metric: references(records, view.name, metric) for metric in _RATIOS
        }
        crossed = ", crossed" * view.crossed
        self.by = f"by {view.name}{crossed}"
        self.several = len(impact.arms) > 1

    def of(self, metric: str, arm: str, level: str, against: str = "") -> Record:
        """Look a level's record up; of several scopes, take that of the impact tables."""
        where = (metric, arm, level, against, self.view.name)
        found = self.records.find(*where, scope=self.impact.scope)
        return found if found.metric else self.records.find(*where)

    def ratio(self, arm: str, level: str, metric: str = "impact_ratio") -> Record:
        """A level's impact ratio, or that of scores."""
        against = self.references[metric].get(arm, "")
        found = self.of(metric, arm, level, against)
        return found if found.metric else self.of(metric, arm, level)

    def count(self, metric: str, arm: str, level: str) -> str:
        """A count as text."""
        record = self.of(metric, arm, level)
        return f"{record.value:,.0f}" if record.known else DASH

    def answered(self, arm: str, level: str) -> float:
        """The number of rows with an answer."""
        chosen = (self.of(name, arm, level) for name in ("selected", "not_selected"))
        return sum(record.value for record in chosen)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Each arm with each level."""
        return [(arm, level) for arm in self.impact.arms for level in self.view.levels]

    def name(self, arm: str, level: str) -> str:
        """A level's name, marked if it is under 2 % of the rows."""
        small = is_small(self.of("share_of_rows", arm, level))
        return f"{level} (under 2 %)" if small else level

    def _table(
        self,
        title: str,
        columns: Mapping[str, Callable[[str, str], TableCell | str]],
        notes: Sequence[str] = (),
        **more: Any,
    ) -> Section:
        """A table with a line for each arm and level; `columns` make its cells."""
        keys = [self.view.name, *["Arm"] * self.several]
        rows: list[Row] = []
        for arm, level in self.lines:
            cells = (cell(arm, level) for cell in columns.values())
            rows.append([self.name(arm, level), *[arm] * self.several, *cells])
        headings = [*keys, *columns]
        return Section(title, headings, rows, notes, keys=len(keys), **more)

    def selected(self, brief: bool = False) -> Section:
        """Selection rates and impact ratios; `brief` leaves out counts, notes and charts."""
        columns: Json = {
            "Selected": self._chosen,
            "Referred": partial(self.count, "referred"),
            "Selected, %": partial(self._rate, "selection_rate"),
            "Impact ratio": self._ratio,
            "Four fifths": self._verdict,
            "Shortfall": self._shortfall,
        }
        if any(self.of("accuracy", *at).known for at in self.lines):
            columns["Accuracy %"] = partial(self._rate, "accuracy")
        if not any(self.of("referred", *at).known for at in self.lines):
            del columns["Referred"]
        if brief:
            del columns["Selected"], columns["Shortfall"]
        if self.impact.weighted:
            weighted = {"Selected": "Selected, unweighted"}
            weighted |= {
                name: f"{name}, weighted" for name in ("Selected, %", "Impact ratio")
            }
            columns = {weighted.get(name, name): cell for name, cell in columns.items()}
        title = f"Who was selected, by {self.view.name}"
        if brief:
            return self._table(title, columns)
        notes = [*self._reading(), *self._reasons({"impact_ratio": "Impact ratio"})]
        intro = (
            "Selection rates in per cent and impact ratios (rate over the highest rate), with "
            "95 % intervals."
        )
        first = 2 + self.several
        first += "Referred" in columns
        scales = {first: Scale(0.0, 1.0, factor=100.0), first + 1: Scale(0.0, 1.0, 0.8)}
        return self._table(
            title, columns, notes, intro=intro, name="selection", scales=scales
        )

    def _chosen(self, arm: str, level: str) -> str:
        return (
            f"{self.count('selected', arm, level)} of {self.answered(arm, level):,.0f}"
        )

    def _rate(self, rate: str, arm: str, level: str) -> TableCell:
        return _or_undefined(valued(self.of(rate, arm, level)))

    def _ratio(self, arm: str, level: str) -> TableCell:
        cell = valued(self.ratio(arm, level), 2, 1)
        if level == self.references["impact_ratio"].get(arm):
            return replace(cell, note="highest rate")
        return cell

    def _verdict(self, arm: str, level: str) -> str:
        ratio = self.ratio(arm, level)
        if not self.of("selection_rate", arm, level).known:
            return "no answer"
        if not ratio.known and self.references["impact_ratio"].get(arm):
            return f"not judged: {self.count('rows', arm, level)} rows"
        return ratio.verdict.removesuffix(" four fifths") or DASH

    def _shortfall(self, arm: str, level: str) -> str:
        highest = self.references["impact_ratio"].get(arm, "")
        lacking = self.of("shortfall", arm, level, highest)
        return f"{lacking.value:,.0f}" if lacking.known else DASH

    @property
    def named_pairs(self) -> Sequence[tuple[str, str, str]]:
        """Arm and levels of each pair."""
        of = {"metric": "selection_rate_difference", "attribute": self.view.name}
        found = self.records.where(**of)
        return [*dict.fromkeys((one.arm, one.group, one.against) for one in found)]

    def pairs(self) -> Section:
        """Differences, ratios and tests of pairs of groups."""
        rows: list[Row] = []
        for pair in self.named_pairs:
            arm, first, second = pair
            gap = self.of("selection_rate_difference", *pair)
            ratio = self.of("selection_rate_ratio", *pair)
            name = f"{self.name(arm, first)} − {self.name(arm, second)}"
            p = p_value(gap.p)
            cells: Cells = [difference(gap), valued(ratio, 2, 1), p]
            rows.append([name, *[arm] * self.several, *cells])
        headings = [
            self.view.name,
            *["Arm"] * self.several,
            "Rates, points",
            "Ratio",
            "p (adjusted)",
        ]
        notes = [
            "p is adjusted for all pairs of groups; it tests whether rates are equal, not the "
            "ratio of 0.8. Of more than 30 groups, each is paired with that of the highest rate."
        ]
        title = f"Pairs of groups, {self.by}"
        keys = 1 + self.several
        return Section(title, headings, rows, notes if rows else (), keys=keys)

    def confused(self) -> Section:
        """Confusion matrices and their rates."""
        columns: Json = {
            title: partial(self.count, cell) for cell, title in _CELLS.items()
        }
        columns |= {
            f"{title}, %": partial(self._rate, rate) for rate, title in _RATES.items()
        }
        return self._table(
            f"Confusion matrix, {self.by}", columns, self._reasons(_RATES)
        )

    def _reading(self) -> Iterator[str]:
        if not self.named_pairs:
            return
        if any(self.ratio(*at).verdict == CANNOT_SAY for at in self.lines):
            yield "Cannot say: the interval of the ratio contains 0.8."
        yield (
            "Intervals of ratios hold jointly for all groups, and allow for another group's rate "
            "being the highest. The shortfall is how many more rows with an answer of the group "
            "would have to be selected for a ratio of 1."
        )

    def _reasons(self, names: Mapping[str, str]) -> list[str]:
        """One sentence per reason for undefined values, with arms and groups."""
        found: dict[tuple[str, str], list[str]] = {}
        for arm, level in self.lines:
            at = f"{arm}, {level}" if self.several else level
            for metric, title in names.items():
                ratio = metric == "impact_ratio"
                record = (
                    self.ratio(arm, level) if ratio else self.of(metric, arm, level)
                )
                if record.reason:
                    found.setdefault((title, record.reason), []).append(at)
        return [
            f"{title} of {listed(levels, _MOST_NAMED, by='; ')}: {why}."
            for (title, why), levels in found.items()
        ]


def _or_undefined(cell: TableCell) -> TableCell:
    return TableCell("undefined") if cell.text == DASH else cell


def who_was_selected(
    impact: Impact, records: Records, after_first: bool = False
) -> Section:
    """The section on selection; `after_first` leaves out the last attribute's selection."""
    parts = list[Section]()
    for view in impact.views:
        tables = ImpactTables(impact, view, records)
        if impact.kind != WITHHELD:
            if not (after_first and view is impact.views[-1]):
                parts.append(tables.selected())
            parts.append(tables.pairs())
        if any(tables.of("true_positives", *at).known for at in tables.lines):
            parts.append(tables.confused())
    intro = f"{impact.text} {_LAW}"
    return Section("Who was selected", intro=intro, parts=parts, name="impact")


def selected(impact: Impact, records: Records, brief: bool = False) -> Section:
    """The first table of selection rates and impact ratios, by all attributes crossed."""
    return ImpactTables(impact, impact.views[-1], records).selected(brief)
