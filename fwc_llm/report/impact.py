"""Audit tables: rows asked, answered and selected, by each attribute and crossed.

Selection rates and impact ratios describe a population only if rows are drawn without a base
parity. For a designed sample, they are withheld (docs/statistics.md, "Designed samples").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

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
from fwc_llm.sanitize import listed
from fwc_llm.words import is_known

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
_MOST_UNKNOWN = 3  # groups of unknown category in a first table


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

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield (arm, level)."""
        return ((arm, level) for arm in self.impact.arms for level in self.view.levels)

    def name(self, arm: str, level: str) -> str:
        """A level's name, marked if it is under 2 % of the rows."""
        small = is_small(self.of("share_of_rows", arm, level))
        return f"{level} (under 2 %)" if small else level

    def _table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Mapping[tuple[str, str], Sequence[TableCell | str]],
        notes: Iterable[str] = (),
        intro: str = "",
        name: str = "",
        scales: Mapping[int, Scale] = {},
    ) -> Section:
        """A table with a row for each (arm, level), named by level and by arm."""
        keys = [self.view.name, *["Arm"] * self.several]
        named_rows = [
            [self.name(arm, level), *[arm] * self.several, *row]
            for (arm, level), row in rows.items()
        ]
        sizes = [self.of("rows", *line).value for line in rows]
        return Section(
            title,
            [*keys, *columns],
            named_rows,
            list(notes),
            intro,
            len(keys),
            name,
            sizes=sizes,
            scales=scales,
        )

    def asked(self) -> Section:
        """Numbers of rows asked and answered, without uninformative columns."""
        lines = list(self.lines())
        again = any(
            self.of("questions", *at).value != self.of("rows", *at).value
            for at in lines
        )
        counted = {"Rows": "rows"}
        counted |= {"Questions": "questions"} if again else {}
        rest = {"Not parsed": "without_answer", "No reply": "no_reply"}
        rows: dict[tuple[str, str], Row] = {}
        for arm, level in lines:
            counts = [self.count(metric, arm, level) for metric in counted.values()]
            answered = (
                self.of("selected", arm, level).value
                + self.of("not_selected", arm, level).value
            )
            missing = [self.count(metric, arm, level) for metric in rest.values()]
            rows[arm, level] = [*counts, f"{answered:,.0f}", *missing]
        summed = (
            "Counts are sums over repeats and rates are means over repeats: counts need not give "
            "the rates."
        )
        notes = [summed] * again
        unknown = sum(
            self.of("rows", self.impact.arms[0], level).value
            for level in self.view.levels
            if not is_known(level)
        )
        if unknown:
            notes.append(
                f"{unknown:,.0f} rows have no known category: ratios and tests leave them out."
            )
        headings = [*counted, "Answered", *rest]
        return self._table(f"Rows and answers, {self.by}", headings, rows, notes)

    def selected(self, most: int = 0) -> Section:
        """Selection rates and impact ratios; `most` limits the groups and leaves out counts."""
        lines = list(self.lines())
        if most:
            (arm,) = self.impact.arms
            unknown = [level for level in self.view.levels if not is_known(level)]
            levels = dict.fromkeys([*self._lowest(arm, most), *unknown[:_MOST_UNKNOWN]])
            lines = [(arm, level) for level in levels]
        right = {at: self.of("accuracy", *at) for at in lines}
        labelled = any(record.known for record in right.values())
        rows: dict[tuple[str, str], Row] = {}
        for arm, level in lines:
            accuracy = [valued(right[arm, level], 1, 100)] * labelled
            rate = _or_undefined(valued(self.of("selection_rate", arm, level), 3))
            ratio = self.ratio(arm, level)
            cell = _or_undefined(valued(ratio, 2))
            highest = self.references["impact_ratio"].get(arm, "")
            if level == highest:
                cell = replace(cell, note="highest rate")
            if most and not is_known(level):
                n = self.count("rows", arm, level)
                rows[arm, level] = [rate, DASH, f"not judged: {n} rows", *accuracy]
                continue
            if most:
                verdict = ratio.verdict.removesuffix(" four fifths") or DASH
                rows[arm, level] = [rate, cell, verdict, *accuracy]
                continue
            yes = self.of("selected", arm, level).value
            answered = yes + self.of("not_selected", arm, level).value
            shortfall = self.of("shortfall", arm, level, highest)
            lacking = f"{shortfall.value:,.0f}" if shortfall.known else DASH
            chosen = f"{yes:,.0f} of {answered:,.0f}"
            shown: Cells = [
                chosen,
                rate,
                cell,
                ratio.verdict or DASH,
                lacking,
                *accuracy,
            ]
            rows[arm, level] = shown
        title = f"Who was selected, by {self.view.name}"
        headings = [
            "Selected",
            "Selection rate",
            "Impact ratio",
            "Four fifths",
            "Shortfall",
            *["Accuracy %"] * labelled,
        ]
        if self.impact.weighted:
            headings[0] = "Selected, unweighted"
            headings[1:3] = [f"{heading}, weighted" for heading in headings[1:3]]
        if most:
            rest = [at for at in self.lines() if at not in rows]
            more = sum(self.ratio(*at).known for at in rest)
            notes = [f"{more} more groups have ratios between the last two."] * (
                more > 0
            )
            notes += self._reasons(rest, {"impact_ratio": "No ratio"}, 3)
            del headings[4], headings[0]
            return self._table(title, headings, rows, notes)
        notes = [
            *self._reading(),
            *self._reasons(lines, {"impact_ratio": "Impact ratio"}),
        ]
        intro = (
            "Selection rates and impact ratios (rate over the highest rate), with "
            "95 % intervals."
        )
        keys = 1 + self.several
        scales = {keys + 1: Scale(0.0, 1.0), keys + 2: Scale(0.0, 1.0, 0.8)}
        return self._table(title, headings, rows, notes, intro, "selection", scales)

    def _lowest(self, arm: str, most: int) -> list[str]:
        """At most `most` levels: the lowest impact ratios and the highest, if any is known."""
        defined = [level for level in self.view.levels if self.ratio(arm, level).known]
        order = sorted(defined, key=lambda level: self.ratio(arm, level).value)
        order = order or list(self.view.levels)
        return [*order[: most - 1], *order[most - 1 :][-1:]]

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
            cells: Cells = [difference(gap, 3), valued(ratio, 2), p]
            rows.append([name, *[arm] * self.several, *cells])
        all_of_them = len(self.view.levels) * (len(self.view.levels) - 1) // 2
        some = len(rows) < all_of_them and len(self.view.levels) > 30
        intro = (
            "Only pairs with the group of the highest rate are shown, because there are many "
            "groups."
        )
        headings = [
            self.view.name,
            *["Arm"] * self.several,
            "Rates",
            "Ratio",
            "p (adjusted)",
        ]
        notes = [
            "p is adjusted for all pairs of groups; it tests whether rates are equal, not the "
            "ratio of 0.8."
        ]
        title = f"Pairs of groups, {self.by}"
        keys = 1 + self.several
        return Section(title, headings, rows, notes if rows else (), intro * some, keys)

    def confused(self) -> Section:
        """Confusion matrices and their rates."""
        rows: dict[tuple[str, str], Row] = {}
        for arm, level in self.lines():
            counts = [self.count(cell, arm, level) for cell in _CELLS]
            shares = [
                _or_undefined(valued(self.of(rate, arm, level), 2)) for rate in _RATES
            ]
            rows[arm, level] = [*counts, *shares]
        headings = [*_CELLS.values(), *_RATES.values()]
        notes = self._reasons(list(self.lines()), _RATES)
        return self._table(f"Confusion matrix, {self.by}", headings, rows, notes)

    def _reading(self) -> Iterator[str]:
        if not self.named_pairs:
            return
        if any(self.ratio(*at).verdict == CANNOT_SAY for at in self.lines()):
            yield "Cannot say: the interval of the ratio contains 0.8."
        yield (
            "Intervals of ratios hold jointly for all groups, and allow for another group's rate "
            "being the highest. The shortfall is how many more rows with an answer of the group "
            "would have to be selected for a ratio of 1."
        )

    def _reasons(
        self, lines: Sequence[tuple[str, str]], names: Mapping[str, str], most: int = 6
    ) -> list[str]:
        """One sentence per reason for undefined values, with arms and groups."""
        found: dict[tuple[str, str], list[str]] = {}
        for arm, level in lines:
            at = f"{arm}, {level}" if self.several else level
            for metric, title in names.items():
                ratio = metric == "impact_ratio"
                record = (
                    self.ratio(arm, level) if ratio else self.of(metric, arm, level)
                )
                if record.reason:
                    found.setdefault((title, record.reason), []).append(at)
        return [
            f"{title} of {listed(levels, most, by='; ')}: {why}."
            for (title, why), levels in found.items()
        ]


def _or_undefined(cell: TableCell) -> TableCell:
    return TableCell("undefined") if cell.text == DASH else cell


def who_was_selected(
    impact: Impact, records: Records, first_table: bool = False
) -> Section:
    """The section on selection; `first_table` leaves out the last attribute's selection."""
    parts = list[Section]()
    for view in impact.views:
        tables = ImpactTables(impact, view, records)
        parts.append(tables.asked())
        if impact.kind != WITHHELD:
            if not (first_table and view is impact.views[-1]):
                parts.append(tables.selected())
            parts.append(tables.pairs())
        if any(tables.of("true_positives", *at).known for at in tables.lines()):
            parts.append(tables.confused())
    intro = f"{impact.text} {_LAW}"
    return Section("Who was selected", intro=intro, parts=parts, name="impact")


def selected(impact: Impact, records: Records, view: View, most: int = 0) -> Section:
    """The table of one attribute's selection rates and impact ratios."""
    return ImpactTables(impact, view, records).selected(most)
