"""The report as Markdown: its tables and sentences, for a README, an issue or a paper's draft."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fwc_llm.report import thresholds
from fwc_llm.report.lost import lost_lines, lost_table
from fwc_llm.report.provenance import SIGNED, about_rows, hash_rows
from fwc_llm.report.tables import audit, lines, probability, rows, spread
from fwc_llm.untrusted import visible

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def markdown(document: Mapping[str, Any]) -> str:
    """Return the report as GitHub-flavoured Markdown; text from the data is escaped."""
    lines = [f"# {_text(document['title'])}", ""]
    for run in document["runs"]:
        lines += _run(run)
    return "\n".join(lines).rstrip() + "\n"


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    found = run["statistics"]
    yield from (f"## {_text(run['label'])}", "")
    if run["simulated"]:
        yield from ("> **Simulated.** Nothing here is a finding about a language model.", "")
    if warning := (run["rows"] or {}).get("warning"):
        yield from (f"> **Warning:** {_text(warning)}.", "")
    if run["reference"]:
        said = f"The answers are those of {_text(run['about']['model'])}, which reads rows and no prompts"
        yield from (f"> **Reference, no language model.** {said}.", "")
    yield from (_text(run["paragraph"]), "")
    yield from (f"- {_finding(finding)}" for finding in run["findings"])
    table = [
        [
            arm,
            *(
                " ".join(part for part in (c.text, c.mark, f"({c.small})" if c.small else "") if part)
                for c in cells
            ),
        ]
        for arm, cells in rows.main_rows(found)
    ]
    yield from ("", *_table(["Arm", *rows.main_headings(found)], table))
    yield "95 % intervals in parentheses. ≠ differs significantly from the first arm, ≈ not, ? cannot be"
    yield "told; ~ within the noise floor."
    yield from ("", *(f"- {_text(note)}" for note in rows.footnotes(found)))
    if paper := rows.paper_rows(found):
        yield from (
            "",
            "### The paper's summary",
            "",
            "Mean ± sd over repeats of each repeat's own value.",
            "",
        )
        yield from _table(rows.PAPER_HEADINGS, paper)
    if found["comparisons"]:
        yield from (
            "",
            "### Arms compared",
            "",
            *_table(rows.COMPARISON_HEADINGS, rows.comparison_rows(found)),
        )
    if found.get("reference_lines"):
        yield from (f"### {lines.TITLE}", "", lines.CAPTION, "")
        yield from _table(lines.HEADINGS, lines.line_rows(found))
        yield from _table(rows.COMPARISON_HEADINGS, lines.line_comparisons(found))
        yield from (*(f"- {_text(note)}" for note in lines.line_notes(found)), "")
    yield from ("### Without a language model", "")
    yield from _table(["Answers", "Accuracy %", "DP gap", "EO gap"], rows.context_rows(found))
    groups = [group["group"] for group in found["groups"]]
    yield from ("### Coverage", "")
    yield from _table(["Arm", "All", *groups, "Not parsed"], rows.coverage_rows(found))
    if run["rows"] and run["rows"]["lost"]:
        yield from ("### Rows lost before the run", "", _text(lost_lines(run["rows"])[0]), "")
        yield from _table(*lost_table(run["rows"]))
    for title, headings, body in (
        ("If only the protected attribute changed", rows.FLIP_HEADINGS, rows.flip_rows(found)),
        ("Each protected attribute by itself", rows.ATTRIBUTE_HEADINGS, rows.attribute_rows(found)),
        ("Probabilities", rows.PROBABILITY_HEADINGS, rows.probability_rows(found)),
        (
            "Is P(yes) right, in each group?",
            probability.CALIBRATION_HEADINGS,
            probability.calibration_rows(found),
        ),
        ("Calibration by tenths of P(yes)", probability.BIN_HEADINGS, probability.bin_rows(found)),
        (
            "What one threshold for all would answer",
            probability.THRESHOLD_HEADINGS,
            probability.threshold_rows(found),
        ),
        ("Thresholds by tenths", probability.TENTH_HEADINGS, probability.tenth_rows(found)),
    ):
        if body:
            yield from (f"### {title}", "", *_table(headings, body))
    if notes := probability.probability_notes(found):
        yield from (*(f"- {_text(note)}" for note in notes), "")
    if threshold := run.get("threshold"):
        yield from ("### At the threshold", "", _text(threshold["words"]), "")
        yield from _table(thresholds.HEADINGS, thresholds.threshold_rows(threshold))
    yield from _audit(run["audit"])
    if spread.was_varied(found):
        yield from (f"### {spread.TITLE}", "", spread.CAPTION, "")
        yield from _table(spread.spread_headings(found), spread.spread_rows(found))
        yield from (*(f"- {_text(note)}" for note in spread.spread_notes(found)), "")
    if body := spread.again_rows(found):
        yield from (
            f"### {spread.AGAIN_TITLE}",
            "",
            *_table(spread.AGAIN_HEADINGS, body),
            spread.AGAIN_NOTE,
            "",
        )
    if tuning := run.get("tuning"):
        yield from ("### How the examples were tuned", "", _text(tuning["verdict"]), "")
        yield from _table(tuning["validation_headings"], tuning["validation"])
        yield from _table(tuning["headings"], tuning["front"])
    for arm, drawn in run["examples"].items():
        if drawn and (certificate := drawn[0]["certificate"]):
            which = f", repeat {drawn[0]['repeat'] + 1}" if len(drawn) > 1 else ""
            yield from (f"### Certificate of the examples: {_text(arm)}{which}", "")
            yield from _table(["", "Value"], rows.certificate_rows(certificate))
    yield from _record(run)


def _audit(found: Mapping[str, Any]) -> Iterator[str]:
    yield from ("### Who was asked, and who was selected", "", _text(found["basis"]["text"]), "")
    for section in audit.sections(found):
        yield from (f"#### {_text(section.title)}", "")
        for table in section.tables:
            yield from (_text(table.caption), "", *_table(table.headings, table.rows))
        yield from (*(f"- {_text(note)}" for note in section.notes), "")


def _record(run: Mapping[str, Any]) -> Iterator[str]:
    yield from ("### Record of this audit", "")
    about = [(name, value) for name, value in rows.provenance(run["about"]) if name != "Data, sha256"]
    command = [("Command", run["about"]["command"] or "not recorded")]
    lines = [*about_rows(run["provenance"]), *command, *about, *hash_rows(run["provenance"])]
    yield from _table(["", "Record"], lines)
    yield from _table(["To be signed", ""], [[name, ""] for name in SIGNED])


def _finding(finding: Mapping[str, str]) -> str:
    return (
        f"**{_text(finding['arm'])}** {_text(finding['text'])}" if finding["arm"] else _text(finding["text"])
    )


def _table(headings: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(_text(heading) for heading in headings) + " |"
    yield "|---" + "|---:" * (len(headings) - 1) + "|"
    for row in body:
        yield "| " + " | ".join(_text(cell) for cell in row) + " |"
    yield ""


def _text(value: str) -> str:
    return _MARKUP.sub(r"\\\1", visible(" ".join(str(value).split())))
