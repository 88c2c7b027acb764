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

from fwc_llm.metrics.adverse_impact import AS_DRAWN
from fwc_llm.report.number_format import DASH, day, number
from fwc_llm.report.provenance import ABOUT, FOR_LAW
from fwc_llm.report.table_model import Section
from fwc_llm.report.tidy_csv import head
from fwc_llm.sanitize import replace_invisible
from fwc_llm.words import UNKNOWN

RULE = "Summary of results under 6 RCNY §§ 5-301 to 5-304"
ADVICE = (
    "6 RCNY §§ 5-301 to 5-304, read on 22 Nov 2026 in secondary sources: check that it is in force."
)
COLUMNS = (
    *("run", "task", "model", "arm", "table", "category", "applicants", "no_answer", "selected"),
    *("selection_rate", "impact_ratio", "note", "simulated", "reference", "rates_of"),
    *("above_median", "scoring_rate", "scoring_impact_ratio"),
)
SMALL = ("keep", "exclude")
NOT_STATED = "not stated"
_COUNTS = "applicants", "no_answer", "selected", "above_median"


def summaries(document: Mapping[str, Any]) -> list[dict[str, Any]]:
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
    audit: Mapping[str, Any],
    heading: Mapping[str, Any],
    about: Mapping[str, str | None],
    audited: str | None,
    because: str = "",
) -> dict[str, Any]:
    """The public summary of § 5-303; all its lines share the cells of `heading`.

    The argument `about` has the statements of [about] in a task file, `audited` is the time of the
    audit, and `because` is the reason for leaving out small categories.
    """
    refused = ""
    if audit["basis"]["kind"] != AS_DRAWN:
        refused = (
            f"the test rows of {heading['run']} were drawn in fixed numbers per group and label: "
            f"they are "
            "not applicants, as Local Law 144's table requires; run with --base-parity none, or "
            "use fwc-llm "
            "audit --ll144 on decisions"
        )
    elif not audit["asked_once"]:
        refused = (
            f"{heading['run']} has repeats, weights, several rows of a person or --until-decided, "
            f"and Local "
            "Law 144's table counts every applicant once: run without them"
        )
    views = () if refused else audit["attributes"]
    lines = [
        {**heading, **line}
        for view in views
        for arm in view["arms"]
        for line in _table(view, arm, because)
    ]
    stated = {key: about.get(key) or NOT_STATED for key in ABOUT | FOR_LAW}
    groups = [g for view in views for arm in view["arms"] for g in arm["groups"].values()]
    left_out = any(group["reason"].startswith("left out") for group in groups)
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
    if left_out:
        entries["Why categories under 2 % are left out, § 5-301 (d)"] = because or NOT_STATED
    return {"rule": RULE, "refused": refused, "about": entries, "lines": lines}


def _table(
    view: Mapping[str, Any], arm: Mapping[str, Any], because: str
) -> Iterator[dict[str, Any]]:
    first = {"arm": arm["arm"], "table": view["attribute"]}
    if any("above_median" in group for group in arm["groups"].values()):
        unscored = {}
    else:
        unscored = {"above_median": ""}
    unknown = dict.fromkeys(_COUNTS, 0)
    for name, group in arm["groups"].items():
        counts = {
            "applicants": group["rows"],
            "no_answer": group["unparsed"] + group["no_reply"],
            "selected": group["selected"],
            "above_median": group.get("above_median", ""),
        }
        if not group["known"]:
            unknown = {kind: unknown[kind] + (count or 0) for kind, count in counts.items()}
            continue
        rates = "selection_rate", "impact_ratio", "scoring_rate", "scoring_impact_ratio"
        some = counts["no_answer"] > 0 and group["selection_rate"] is not None
        note = "; ".join(
            filter(None, (_note(group, because), "rate among applicants with an answer" * some))
        )
        rounded = {rate: "" if group.get(rate) is None else round(group[rate], 4) for rate in rates}
        yield {
            **first,
            "category": name,
            **counts,
            **rounded,
            "note": note,
            "rates_of": "those answered" if some else "applicants",
        }
    note = "not in the rates and ratios above: the category is not known"
    yield {**first, "category": UNKNOWN, **unknown, **unscored, "note": note}


def _note(group: Mapping[str, Any], because: str) -> str:
    if group["reason"].startswith("left out"):
        return f"{group['reason']} ({group['share']:.2%}); reason: {because or NOT_STATED}"
    reasons = {"undefined": group["reason"], "score": group.get("scoring_reason") or ""}
    parts = [f"{what}: {reason}" for what, reason in reasons.items() if reason]
    return "; ".join([*parts, *["under 2 % of the rows, kept"] * bool(group["small"])])


def missing(summarized: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes for the publisher: check the law, and entries that are not stated."""
    yield ADVICE
    lacking = [entry for entry, text in summarized["about"].items() if NOT_STATED in text]
    if lacking:
        yield f"Not stated in the summary: {'; '.join(lacking)} (--about KEY=TEXT)."


def sections(summarized: Mapping[str, Any]) -> Section:
    """A summary as a section: statements by § 5-303, then the table of each attribute."""
    stated = [
        (name.replace("§ 5-", "§\u00a05\u2011").replace(" (", "\u00a0("), text)
        for name, text in summarized["about"].items()
    ]
    parts = [Section("What is published, § 5-303", ["Entry", "Stated"], stated, name="stated")]
    tables: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
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
        shown = [key for key in headings if any(line.get(key, "") != "" for line in lines)]
        rows = [[_cell(line.get(key, "")) for key in shown] for line in lines]
        for line in lines:
            by_note.setdefault(line["note"], {})[line["category"]] = None
        parts.append(
            Section(f"By {name}{f', {arm}' * several}", [headings[key] for key in shown], rows)
        )
    notes = [f"{', '.join(names)}: {text}." for text, names in by_note.items() if text]
    if summarized["refused"]:
        why = f" No table: {summarized['refused']}."
    else:
        why = ""
    return Section(
        "New York City Local Law 144",
        intro=f"{summarized['rule']}.{why}",
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
