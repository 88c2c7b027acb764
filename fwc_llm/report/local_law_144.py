"""New York City's Local Law 144 (6 RCNY §§ 5-301 to 5-304): public summary.

§ 5-301 requires, for each sex category, each race/ethnicity category and each intersection of both:
the number of applicants, the selection rate and the impact ratio. For a score, the scoring rate
(the share above the median of the full sample, § 5-301 (c)) replaces the selection rate. The number
of people with an unknown category is also required. § 5-301 (d): a category with less than 2 % of
the data may be left out of the impact ratios; its number, its rate and the reason are listed. §
5-302: historical or test data. § 5-303: published information. This is no legal advice.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.metrics.adverse_impact import AS_DRAWN, Impact, is_left_out, is_small
from fwc_llm.metrics.records import Record, Records
from fwc_llm.number_format import DASH, day, number, percent
from fwc_llm.report.impact import ImpactTables
from fwc_llm.report.provenance import ABOUT, FOR_LAW
from fwc_llm.report.records_csv import head
from fwc_llm.report.table_model import Section
from fwc_llm.sanitize import Fields, Json, listed, replace_invisible
from fwc_llm.words import UNKNOWN, is_known

RULE = "Summary of results under 6 RCNY §§ 5-301 to 5-304"
ADVICE = (
    "6 RCNY §§ 5-301 to 5-304, read on 22 Nov 2026 in secondary sources: check "
    "that it is in force."
)
COLUMNS = (
    *(
        "run",
        "task",
        "model",
        "arm",
        "table",
        "category",
        "applicants",
        "no_answer",
        "selected",
    ),
    *("selection_rate", "impact_ratio", "note", "simulated", "reference", "rates_of"),
    *("above_median", "scoring_rate", "scoring_impact_ratio"),
)
SMALL = ("keep", "exclude")
NOT_STATED = "not stated"
_COUNTS = {
    "applicants": ("rows",),
    "no_answer": ("without_answer", "no_reply"),
    "selected": ("selected",),
    "above_median": ("above_median",),
}


def summaries(document: Fields) -> list[Json]:
    """The summary of every run of a document (`make_document`)."""
    return [
        summary(
            run["audit"],
            head(document, run),
            run["provenance"]["about"],
            run["about"].get("created"),
        )
        for run in document["runs"]
    ]


def summary(
    impact: Impact,
    heading: Fields,
    about: Mapping[str, str | None],
    audited: str | None,
    because: str = "",
) -> Json:
    """The public summary of § 5-303; all its lines share the cells of `heading`.

    The argument `about` has the statements of [about] in a task file, `audited` is the time of the
    audit, and `because` is the reason for leaving out small categories.
    """
    causes = [
        *["rows drawn in fixed numbers per group and label, which are not applicants"]
        * (impact.kind != AS_DRAWN)
    ]
    causes += impact.asked_again
    refused = ""
    if causes:
        refused = (
            f"{heading['run']} has {listed(causes, len(causes))}, and Local Law 144's table counts "
            "every applicant once: give it one row for each applicant, asked about once"
        )
    views = () if refused else impact.views
    records = impact.records if views else Records([])
    lines = [
        {**heading, **line}
        for view in views
        for arm in impact.arms
        for line in _table(ImpactTables(impact, view, records), arm, because)
    ]
    published = [key for key in ABOUT | FOR_LAW if key != "intended_use"]
    stated = {key: about.get(key) or NOT_STATED for key in published}
    entries = {
        "Date of the bias audit, § 5-303 (a)": day(audited) if audited else NOT_STATED,
        "Date of distribution of the tool, § 5-303 (a)": stated["distributed"],
        "Independent auditor, § 5-301 (a)": stated["auditor"],
        "Historical or test data, § 5-302": stated["data_kind"],
        "Source of the data, § 5-303 (a)": stated["source"],
        "Explanation of the data, § 5-303 (a)": "; ".join(
            f"{ABOUT[key]}: {stated[key]}"
            for key in ("population", "collected", "left_out", "limits")
        ),
        "How categories are known": stated["categories"],
    }
    if any(map(is_left_out, records.where(metric="impact_ratio"))):
        entries["Why categories under 2 % are left out, § 5-301 (d)"] = (
            because or NOT_STATED
        )
    return {
        "rule": RULE,
        "refused": refused,
        "lacking": [key for key in published if not about.get(key)],
        "differs": _difference(records),
        "about": entries,
        "lines": lines,
    }


def _difference(records: Records) -> str:
    """A sentence on small categories, which this page and the rest of an audit judge apart."""
    if not any(map(is_small, records.where(metric="share_of_rows"))):
        return ""
    return (
        "Local Law 144's page keeps all categories under 2 % of the rows in its ratios, or leaves "
        "all of them out; elsewhere the audit treats them like all groups, and judges those with "
        "enough rows."
    )


def _table(tables: ImpactTables, arm: str, because: str) -> Iterator[Json]:
    view = tables.view
    first = {"arm": arm, "table": view.name}
    unknown = dict.fromkeys(_COUNTS, 0)
    scored = any(tables.of("above_median", arm, level).known for level in view.levels)
    for level in view.levels:
        counts: Json = {}
        for name, metrics in _COUNTS.items():
            found = [tables.of(metric, arm, level) for metric in metrics]
            counts[name] = sum(int(record.value) for record in found if record.known)
        if not is_known(level):
            unknown = {name: unknown[name] + counts[name] for name in unknown}
            continue
        if not scored:
            del counts["above_median"]
        rates = {
            "selection_rate": tables.of("selection_rate", arm, level),
            "impact_ratio": tables.ratio(arm, level),
            "scoring_rate": tables.of("scoring_rate", arm, level),
            "scoring_impact_ratio": tables.ratio(arm, level, "scoring_impact_ratio"),
        }
        some = counts["no_answer"] > 0 and rates["selection_rate"].known
        notes = [_note(tables, arm, level, rates, because)]
        notes += ["rate among applicants with an answer"] * some
        referred = tables.of("referred", arm, level).value
        if referred > 0:
            notes.append("those referred to a person count as not selected")
        rounded = {
            name: round(record.value, 4) if record.known else ""
            for name, record in rates.items()
        }
        yield {
            **first,
            "category": level,
            **counts,
            **rounded,
            "note": "; ".join(filter(None, notes)),
            "rates_of": "those answered" if some else "applicants",
        }
    note = "not in the rates and ratios above: the category is not known"
    if not scored:
        del unknown["above_median"]
    yield {**first, "category": UNKNOWN, **unknown, "note": note}


def _note(
    tables: ImpactTables,
    arm: str,
    level: str,
    rates: Mapping[str, Record],
    because: str,
) -> str:
    reason = rates["impact_ratio"].reason
    share = tables.of("share_of_rows", arm, level)
    if is_left_out(rates["impact_ratio"]):
        return f"{reason} ({percent(share.value, 2)}); reason: {because or NOT_STATED}"
    of_score = rates["scoring_impact_ratio"].reason
    parts = [f"undefined: {reason}"] * bool(reason) + [f"score: {of_score}"] * bool(
        of_score
    )
    kept = ["under 2 % of the rows, kept"] * is_small(share)
    return "; ".join([*parts, *kept])


def missing(summarized: Fields) -> Iterator[str]:
    """Yield notes for the publisher: check the law, and entries that are not stated."""
    yield ADVICE
    names = ABOUT | FOR_LAW
    words = [f"{key} ({names[key]})" for key in summarized["lacking"]]
    if words:
        yield f"Not stated in the summary (--about KEY=TEXT): {'; '.join(words)}."


def sections(summarized: Fields) -> Section:
    """A summary as a section: statements by § 5-303, then the table of each attribute."""
    stated = [
        (name.replace("§ 5-", "§\u00a05\u2011").replace(" (", "\u00a0("), text)
        for name, text in summarized["about"].items()
    ]
    parts = [
        Section(
            "What is published, § 5-303", ["Entry", "Stated"], stated, name="stated"
        )
    ]
    tables: dict[tuple[str, str], list[Fields]] = {}
    for line in summarized["lines"]:
        tables.setdefault((line["arm"], line["table"]), []).append(line)
    headings = {
        "category": "Category",
        "applicants": "Applicants",
        "no_answer": "No answer",
        "selected": "Selected",
        "selection_rate": "Selection rate",
        "impact_ratio": "Impact ratio",
        "above_median": "Above the median",
        "scoring_rate": "Scoring rate",
        "scoring_impact_ratio": "Impact ratio of scores",
    }
    several = len({arm for arm, _ in tables}) > 1
    by_note = dict[str, dict[str, None]]()
    for (arm, name), lines in tables.items():
        columns = [
            key for key in headings if any(line.get(key, "") != "" for line in lines)
        ]
        rows = [[_cell(line.get(key, "")) for key in columns] for line in lines]
        for line in lines:
            by_note.setdefault(line["note"], {})[line["category"]] = None
        parts.append(
            Section(
                f"By {name}{f', {arm}' * several}",
                [headings[key] for key in columns],
                rows,
            )
        )
    notes = [f"{', '.join(names)}: {text}." for text, names in by_note.items() if text]
    if summarized["refused"]:
        why = f" No table: {summarized['refused']}."
    else:
        why = ""
    return Section(
        "New York City Local Law 144",
        intro=f"{summarized['rule']}.{why} {summarized['differs']}".rstrip(),
        parts=parts,
        notes=notes,
        name="ll144",
    )


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value, 3)
    return replace_invisible(str(value)) or DASH
