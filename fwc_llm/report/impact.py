"""Audit tables: rows asked, answered and selected, by each attribute and crossed.

Selection rates and impact ratios describe a population only if rows are drawn without a base
parity. For a designed sample, they are reweighted to the table's base rates, or withheld
(docs/statistics.md, "Designed samples").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fwc_llm.metrics.adverse_impact import REWEIGHTED, WITHHELD, impact_tables
from fwc_llm.report.number_format import DASH, defined, interval, number, p_value
from fwc_llm.report.table_model import Row, Scale, Section, TableCell, difference, valued
from fwc_llm.runs.recorded_run import Run
from fwc_llm.runs.splits import population
from fwc_llm.sanitize import listed

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_LAW = (
    "Laws and practices ask for ratios, tests and four fifths; their conclusions may differ from "
    "the "
    "verdict on a gap, which has a margin. Four fifths is a rule of practice (29 CFR 1607.4 (D), "
    "read "
    "2026-11-22 in secondary sources): check that this rule is in force."
)


def is_designed(run: Run) -> bool:
    """Whether the numbers of test rows by group and label were set by design."""
    return bool(
        run.described.get("designed", run.described["settings"].get("base_parity") is not None)
    )


def audit_tables(run: Run, task: "Task | None" = None, of_law: bool = False) -> dict[str, Any]:
    """The `impact_tables` of a run; earlier versions' runs need the `task`'s table."""
    counted = run.described.get("population")
    if counted is None and task is not None:
        counted = population(task)
    lost = (run.results.get("rows") or {}).get("groups", ())
    return impact_tables(run.answered, is_designed(run), counted, lost, of_law)


_CONFUSED = {
    "true_positives": "True yes",
    "false_positives": "False yes",
    "false_negatives": "False no",
    "true_negatives": "True no",
}
_RATES = {
    "true_positive_rate": "True positive rate",
    "false_positive_rate": "False positive rate",
    "precision": "Precision",
}


def who_was_selected(audit: Mapping[str, Any], shown: bool = False) -> Section:
    """The section with `impact_tables`; `shown` leaves out the last one's selection."""
    kind = audit["basis"]["kind"]
    views = audit["attributes"]
    parts = list[Section]()
    for view in views:
        by = f"by {view['attribute']}{', crossed' if view['crossed'] else ''}"
        parts.append(_asked(view, by))
        if kind != WITHHELD:
            parts += [] if shown and view is views[-1] else [selected(view, kind == REWEIGHTED)]
            parts.append(_pairs(view, by))
        if any(group["true_positives"] is not None for _, _, group in _lines(view)):
            parts.append(_confused(view, by))
    intro = f"{audit['basis']['text']} {_LAW}"
    return Section("Who was selected", intro=intro, parts=parts, name="impact")


def _lines(view: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    """Yield (arm, name of the group, group)."""
    return ((arm, name, group) for arm in view["arms"] for name, group in arm["groups"].items())


def _table(
    view: Mapping[str, Any], title: str, columns: Sequence[str], rows: Iterable[Row], **more: Any
) -> Section:
    """A table with a row for each of `_lines`, named by group and by arm."""
    several = len(view["arms"]) > 1
    keys = [view["attribute"], *["Arm"] * several]
    named = [
        [_marked(name, group), *[arm["arm"]] * several, *row]
        for (arm, name, group), row in zip(_lines(view), rows, strict=True)
    ]
    sizes = [group["rows"] for _, _, group in _lines(view)]
    return Section(title, [*keys, *columns], named, keys=len(keys), sizes=sizes, **more)


def _marked(name: str, of: Mapping[str, Any]) -> str:
    return f"{name} (under 2 %)" if of["small"] else name


def _asked(view: Mapping[str, Any], by: str) -> Section:
    """Numbers of rows lost, asked and answered, without uninformative columns."""
    groups = [(n, {**g, "answered": g["selected"] + g["not_selected"]}) for _, n, g in _lines(view)]
    before = {n: f"{of['lost']:,} of {of['read']:,}" for n, of in view["lost"].items()}
    lost = any(losses["lost"] for losses in view["lost"].values())
    again = any(group["questions"] != group["rows"] for _, group in groups)
    table = any(group["in_table"] is not None for _, group in groups)
    if table:
        counted = {"Rows of the table": "in_table", "Rows asked": "rows"}
    else:
        counted = {"Rows": "rows"}
    counted |= {"Questions": "questions"} if again else {}
    counted |= {"Answered": "answered", "Not parsed": "unparsed", "No reply": "no_reply"}
    headings = [*["Lost before the run"] * lost, *counted]
    rows = [
        [*[before.get(name, DASH)] * lost, *(_count(group[key]) for key in counted.values())]
        for name, group in groups
    ]
    summed = (
        "Counts are sums over repeats and rates are means over repeats: counts need not give the "
        "rates."
    )
    notes = [summed] * again
    if view["unknown"]:
        notes.append(
            f"{view['unknown']:,} rows have no known category: ratios and tests leave them out."
        )
    return _table(view, f"Rows and answers, {by}", headings, rows, notes=notes)


def selected(view: Mapping[str, Any], reweighted: bool = False, most: int = 0) -> Section:
    """Selection by an attribute; `most` limits the groups and leaves out counts."""
    whole = view
    if most:
        view = {
            **view,
            "arms": [arm | {"groups": _lowest(arm["groups"], most)} for arm in view["arms"]],
        }
    rows: list[Row] = []
    for arm, name, group in _lines(view):
        ratio = _with_ends(group, "impact_ratio", "impact_ratio_", 2)
        if name == arm["reference"]:
            ratio = replace(ratio, note="" if most else "highest rate")
        rule = group["four_fifths"]
        verdict = TableCell(DASH)
        if rule is not None:
            below = "below" if rule["below"] else "not below"
            verdict = TableCell(below, "" if rule["settled"] else "undecided")
            if most and verdict.note:
                verdict = TableCell(verdict.note)
        chosen = (
            f"{_count(group['selected'])} of {_count(group['selected'] + group['not_selected'])}"
        )
        rate = _with_ends(group, "selection_rate", "", 3)
        rows.append([chosen, rate, ratio, verdict, _count(group["shortfall"])])
    headings = ["Selected", "Selection rate", "Impact ratio", "Four fifths", "Shortfall"]
    if reweighted:
        headings[:3] = ["Yes, test rows", "Selection rate, reweighted", "Impact ratio, reweighted"]
    elif view["weighted"]:
        headings[:3] = [
            "Selected, unweighted",
            "Selection rate, weighted",
            "Impact ratio, weighted",
        ]
    title = f"Who was selected, by {view['attribute']}"
    if most:
        (arm,) = whole["arms"]
        rest = {
            name: group
            for name, group in arm["groups"].items()
            if name not in view["arms"][0]["groups"]
        }
        more = sum(group["impact_ratio"] is not None for group in rest.values())
        notes = [f"{more} more groups have higher ratios."] * (more > 0)
        notes += _reasons({"arms": [arm | {"groups": rest}]}, {"impact_ratio": "No ratio"}, 3)
        return _table(view, title, headings[1:4], [row[1:4] for row in rows], notes=notes)
    notes = [*_reading(view), *_reasons(view, {"impact_ratio": "Impact ratio"})]
    intro = "Selection rates and impact ratios (rate over the highest rate), with 95 % intervals."
    keys = 1 + (len(view["arms"]) > 1)
    scales = {keys + 1: Scale(0.0, 1.0), keys + 2: Scale(0.0, 1.0, 0.8)}
    return _table(
        view, title, headings, rows, notes=notes, intro=intro, name="selection", scales=scales
    )


def _lowest(groups: Mapping[str, Any], most: int) -> dict[str, Any]:
    """At most `most` groups: the lowest impact ratios and the highest, if any is known."""
    known = [name for name, group in groups.items() if group["impact_ratio"] is not None]
    order = sorted(known, key=lambda name: groups[name]["impact_ratio"]) or list(groups)
    return {name: groups[name] for name in (*order[: most - 1], *order[most - 1 :][-1:])}


def _pairs(view: Mapping[str, Any], by: str) -> Section:
    """Differences, ratios and tests of pairs of groups."""
    several = len(view["arms"]) > 1
    rows: list[Row] = [
        [
            _marked(f"{pair['first']} − {pair['second']}", pair),
            *[arm["arm"]] * several,
            difference(pair, 3),
            TableCell(
                number(pair["ratio"], 2), interval((pair["ratio_low"], pair["ratio_high"]), 2)
            ),
            p_value(pair["p_value"]),
            p_value(pair["p_adjusted"]),
        ]
        for arm in view["arms"]
        for pair in arm["pairs"]
    ]
    some = not all(arm["all_pairs"] for arm in view["arms"])
    intro = (
        "Only pairs with the group of the highest rate are shown, because there are many groups."
        * some
    )
    keys = [view["attribute"], *["Arm"] * several]
    headings = [*keys, "Rates", "Ratio", "p", "p (adjusted)"]
    notes = [
        "p is adjusted for all pairs of groups; it tests whether rates are equal, not the ratio of "
        "0.8."
    ]
    return Section(
        f"Pairs of groups, {by}", headings, rows, notes if rows else (), intro, len(keys)
    )


def _confused(view: Mapping[str, Any], by: str) -> Section:
    rows: list[Row] = [
        [
            *(_count(group[kind]) for kind in _CONFUSED),
            *(_with_ends(group, kind, f"{kind}_", 2) for kind in _RATES),
        ]
        for _, _, group in _lines(view)
    ]
    headings = [*_CONFUSED.values(), *_RATES.values()]
    notes = list(_reasons(view, _RATES))
    return _table(view, f"Confusion matrix, {by}", headings, rows, notes=notes)


def _with_ends(group: Mapping[str, Any], name: str, ends: str, digits: int) -> TableCell:
    if defined(group[name]):
        return valued(group, digits, key=name, ends=ends)
    return TableCell("undefined")


def _reading(view: Mapping[str, Any]) -> Iterator[str]:
    if not any(arm["pairs"] for arm in view["arms"]):
        return
    reweighted = any(group["in_table"] is not None for _, _, group in _lines(view))
    if any(
        group["four_fifths"] and not group["four_fifths"]["settled"] for _, _, group in _lines(view)
    ):
        yield "Undecided: the interval of the ratio contains 0.8."
    yield (
        "Intervals of ratios hold jointly for all groups, and allow for another group's rate being "
        "the "
        f"highest. The shortfall is how many more "
        f"{'people' if reweighted else 'rows with an answer'} of the "
        "group would have to be selected for a ratio of 1."
    )


def _reasons(view: Mapping[str, Any], names: Mapping[str, str], most: int = 6) -> Iterator[str]:
    """Yield one sentence per reason for undefined values, with arms and groups."""
    places: dict[tuple[str, str], list[str]] = {}
    for arm, name, group in _lines(view):
        if len(view["arms"]) > 1:
            where = f"{arm['arm']}, {name}"
        else:
            where = name
        reasons = {**group["reasons"], "impact_ratio": group["reason"]}
        for rate, shown in names.items():
            if reasons.get(rate):
                places.setdefault((shown, reasons[rate]), []).append(where)
    for (shown, why), where_all in places.items():
        yield f"{shown} of {listed(where_all, most, by='; ')}: {why}."


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"
