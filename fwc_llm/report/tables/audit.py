"""The tables of an audit as text cells, for the page, Markdown and the terminal alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fwc_llm.report.numbers import DASH, defined, interval, number, p_value, signed

UNDEFINED = "undefined"
_ASKED = ("Rows asked", "Answered", "Not parsed", "No reply")
_SELECTED = ("Selected", "Selection rate", "Impact ratio", "Four-fifths", "Shortfall", "p (adjusted)")
_REWEIGHTED = ("Yes, test rows", "Selection rate, re-weighted", "Impact ratio, re-weighted", *_SELECTED[3:])
_CONFUSED = ("True yes", "False yes", "False no", "True no")
_RATES = {
    "true_positive_rate": "True positive rate",
    "false_positive_rate": "False positive rate",
    "precision": "Precision",
}
_PAIRS = ("Rates", "Interval", "Ratio", "Interval", "Test", "p", "p (adjusted)", "Significant")


@dataclass(frozen=True)
class Table:
    """One table: its caption, headings and rows of text cells, the group first, then (of several) the arm."""

    caption: str
    headings: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Section:
    """The tables of one protected attribute, or of all crossed, and the `notes` below them."""

    title: str
    tables: list[Table]
    notes: list[str]


def selection_notes(view: Mapping[str, Any]) -> list[str]:
    """Return how the selection rates are to be read, and why values are undefined."""
    return [*_tests(view, False), *(note for note in _reasons(view, False) if note.startswith("Impact"))]


def selection_cells(view: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the rows' names and the columns of the table of selection rates, as the terminal takes them."""
    table = _selected(view)
    width = len(_first_headings(view))
    names = [", ".join(reversed(row[:width])) for row in table.rows]
    return names, [
        (heading, [row[place] for row in table.rows])
        for place, heading in enumerate(table.headings)
        if place >= width
    ]


def sections(audit: Mapping[str, Any]) -> list[Section]:
    """Return a section for every grouping of `impact_tables`."""
    return [_section(view, audit) for view in audit["attributes"]]


def _section(view: Mapping[str, Any], audit: Mapping[str, Any]) -> Section:
    tables = [_asked(view)]
    withheld = audit["basis"]["kind"] == "withheld"
    if not withheld:
        tables.append(_selected(view, audit["basis"]["kind"] == "re-weighted"))
        if any(len(arm["pairs"]) > 1 for arm in view["arms"]):
            tables.append(_pairs(view))
    tables.append(_confused(view))
    title = f"By {view['attribute']}{', crossed' if view['crossed'] else ''}"
    return Section(title, tables, [*_tests(view, withheld), *_reasons(view, withheld)])


def _lines(view: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    for arm in view["arms"]:
        for name, group in arm["groups"].items():
            yield arm, name, group


def _first_headings(view: Mapping[str, Any]) -> list[str]:
    return [view["attribute"], *(["Arm"] if len(view["arms"]) > 1 else [])]


def _first_cells(
    view: Mapping[str, Any], arm: Mapping[str, Any], name: str, group: Mapping[str, Any]
) -> list[str]:
    marked = f"{name} (under 2 %)" if group["small"] else name
    return [marked, *([arm["arm"]] if len(view["arms"]) > 1 else [])]


def _asked(view: Mapping[str, Any]) -> Table:
    """Who was lost, asked, answered. Columns that would say the same of all are left out."""
    again = any(group["questions"] != group["rows"] for _, _, group in _lines(view))
    lost = any(one["lost"] for one in view["lost"].values())
    table = any(group["in_table"] is not None for _, _, group in _lines(view))
    headings = _first_headings(view)
    headings += ["Lost before the run"] * lost + ["Rows of the table"] * table
    headings += [_ASKED[0], *(["Questions"] * again), *_ASKED[1:]]
    rows = []
    for arm, name, group in _lines(view):
        before = view["lost"].get(name)
        cells = _first_cells(view, arm, name, group)
        if lost:
            cells.append(f"{before['lost']:,} of {before['read']:,}" if before else DASH)
        if table:
            cells.append(DASH if group["in_table"] is None else f"{group['in_table']:,}")
        cells += [_count(group["rows"]), *([_count(group["questions"])] if again else [])]
        cells.append(_count(group["selected"] + group["not_selected"]))
        rows.append([*cells, _count(group["unparsed"]), _count(group["no_reply"])])
    return Table("Who was asked, and what became of it.", headings, rows)


def _selected(view: Mapping[str, Any], reweighted: bool = False) -> Table:
    rows = []
    for arm, name, group in _lines(view):
        answered = group["selected"] + group["not_selected"]
        ratio = _with_ends(group, "impact_ratio", "impact_ratio_low", "impact_ratio_high", 2)
        if name == arm["reference"]:
            ratio = f"{ratio.removesuffix(' (1.00 to 1.00)')}, the highest rate"
        rows.append(
            [
                *_first_cells(view, arm, name, group),
                f"{_count(group['selected'])} of {_count(answered)}",
                _with_ends(group, "selection_rate", "low", "high", 3),
                ratio,
                four_fifths(group),
                DASH if group["shortfall"] is None else _count(group["shortfall"]),
                p_value(group["p_adjusted"]),
            ]
        )
    caption = "Selection rates and impact ratios, with 95 % intervals; a ratio is to the highest rate."
    return Table(caption, [*_first_headings(view), *(_REWEIGHTED if reweighted else _SELECTED)], rows)


def four_fifths(group: Mapping[str, Any]) -> str:
    """Return what the four-fifths rule says of a group, and whether the interval leaves it in doubt."""
    found = group["four_fifths"]
    if found is None:
        return DASH
    return f"{'below' if found['below'] else 'not below'}{'' if found['settled'] else ', may be chance'}"


def _pairs(view: Mapping[str, Any]) -> Table:
    rows = [
        [
            f"{pair['first']} − {pair['second']}{' (under 2 %)' if pair['small'] else ''}",
            *([arm["arm"]] if len(view["arms"]) > 1 else []),
            signed(pair["difference"], 3),
            interval((pair["low"], pair["high"]), 3),
            number(pair["ratio"], 2),
            interval((pair["ratio_low"], pair["ratio_high"]), 2),
            str(pair["test"]),
            p_value(pair["p_value"]),
            p_value(pair["p_adjusted"]),
            {True: "yes", False: "no"}.get(pair["significant"], UNDEFINED),
        ]
        for arm in view["arms"]
        for pair in arm["pairs"]
    ]
    every = all(arm["all_pairs"] for arm in view["arms"])
    which = "All pairs of groups" if every else "Pairs with the highest rate, of many groups"
    caption = f"{which}: differences of selection rates, and the smaller over the larger."
    return Table(caption, [*_first_headings(view), *_PAIRS], rows)


def _confused(view: Mapping[str, Any]) -> Table:
    rows = [
        [
            *_first_cells(view, arm, name, group),
            *(
                _count(group[kind])
                for kind in ("true_positives", "false_positives", "false_negatives", "true_negatives")
            ),
            *(_with_ends(group, kind, f"{kind}_low", f"{kind}_high", 2) for kind in _RATES),
        ]
        for arm, name, group in _lines(view)
    ]
    caption = "Confusion matrix: answers that are rightly and wrongly yes and no; with 95 % intervals."
    return Table(caption, [*_first_headings(view), *_CONFUSED, *_RATES.values()], rows)


def _with_ends(group: Mapping[str, Any], name: str, low: str, high: str, digits: int) -> str:
    if not defined(group[name]):
        return UNDEFINED
    return f"{number(group[name], digits)} ({interval((group[low], group[high]), digits)})"


def _tests(view: Mapping[str, Any], withheld: bool) -> Iterator[str]:
    if any(group["questions"] != group["rows"] for _, _, group in _lines(view)):
        yield "Counts are sums over repeats, rates are means over repeats: one need not give the other."
    if view["unknown"]:
        yield f"{view['unknown']:,} rows have no known category: ratios and tests leave them out."
    if withheld or not any(arm["pairs"] for arm in view["arms"]):
        return
    tests = {pair["test"] for arm in view["arms"] for pair in arm["pairs"]}
    exact = "Fisher's exact test" if tests == {"Fisher's exact"} else "the interval of the difference"
    yield f"p is that of {exact} against the highest rate, adjusted for all pairs of groups."
    reweighted = any(group["in_table"] is not None for _, _, group in _lines(view))
    yield (
        "Intervals of ratios hold for all groups together, and allow for another group's rate being the "
        f"highest. The shortfall is how many more {'people' if reweighted else 'of those answered'} would "
        "have to be selected for a ratio of 1."
    )


def _reasons(view: Mapping[str, Any], withheld: bool) -> Iterator[str]:
    """Why a value is undefined, once for all arms and groups that it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for arm, name, group in _lines(view):
        where = f"{arm['arm']}, {name}" if len(view["arms"]) > 1 else name
        if group["reason"] and not withheld:
            found.setdefault(("Impact ratio", group["reason"]), []).append(where)
        for rate, why in group["reasons"].items():
            found.setdefault((_RATES[rate], why), []).append(where)
    for (what, why), places in found.items():
        shown = "; ".join(places[:6]) + (f" and {len(places) - 6} more" if len(places) > 6 else "")
        yield f"{what} of {shown}: {why}."


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"
