"""The audit of a file of decisions, for the commands `audit` and `verify`.

`audit_of_file` computes a document from a file and options. A report has the same sections as that
of a run.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.files import sha256
from fwc_llm.meaning import rules_of
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.report.audit_answers import Audit, audit_of_table
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.report.document import document_of, entry
from fwc_llm.report.local_law_144 import summary
from fwc_llm.report.narrative import Subject, what_was_decided
from fwc_llm.report.predictions_reader import HowRead, columns_of, open_file
from fwc_llm.report.provenance import ABOUT, DECISIONS
from fwc_llm.report.rows import rows_of_audit
from fwc_llm.runs.folder import command, versions
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Fields, Json
from fwc_llm.taskfile import LAYOUT
from fwc_llm.words import CROSSING, YES_NO, Words
from fwc_llm.words import named as titles_named

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fwc-llm-audit/2"
_COLUMNS = "answer", "label", "arm", "repeat", "row", "p_yes", "examples", "score"


@dataclass(frozen=True)
class AuditOfFile:
    """An audit of a file."""

    document: Json  # for JSON
    crossed: Audit
    notes: Sequence[str]
    left_out: Sequence[str]  # the notes on rows that are not audited
    ties: str  # a note on rows at the threshold and rows without P(yes)
    # The source of the answers: the file's name (`predictions`), `answer` and `label` (columns),
    # `threshold` (if answers were computed from P(yes)), `numbered` (True if the file has no row
    # ids).
    about: Fields

    @property
    def audits(self) -> dict[str, Audit]:
        """The audits by each attribute alone, then by all crossed."""
        return _by_name(self.crossed)

    @property
    def limits(self) -> Sequence[str]:
        """The conditions that are not to be met."""
        found: Sequence[str] = self.document["asked"].get("fail_if") or ()
        return found

    @property
    def subjects(self) -> list[Subject]:
        """The audits, for answers on all of them."""
        return [
            Subject(f"by {name}", audit.statistics, self.limits)
            for name, audit in self.audits.items()
        ]

    def report(self, with_rows: bool = False, with_law: bool = False) -> Json:
        """The document for reports, as from `make_document`; `runs` has every audit."""
        described = [self._describe(audit) for audit in self.audits.values()]
        known = set[tuple[Any, ...]]()
        # A number of all rows is in the records of the first audit alone.
        for run in described:
            own = run["records"]
            run["records"] = [record for record in own if record.key not in known]
            known |= {record.key for record in own}
        described[-1]["ll144"] = self.document["ll144"] if with_law else None
        if with_rows:  # the last audit, of all attributes crossed, has every row
            described[-1]["browser"] = rows_of_audit(
                self.crossed.answered.answers, self.about["numbered"]
            )
        return document_of(
            self.about["predictions"],
            f"Decisions in {self.about['predictions']}",
            described,
            self.subjects,
            self.left_out,
        )

    def _describe(self, audit: Audit) -> Json:
        names = list(audit.answered.attributes)
        digest = self.document["files"]["predictions"]["sha256"]
        where = {**self.about, "sha256": digest, "protected": names}
        stats = audit.statistics
        label = f"{where['answer']}, by {CROSSING.join(names)}"
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        about = {
            "model": label,
            "created": created,
            "versions": versions(),
            "command": command(),
            DECISIONS: where,
        }
        hashes = {"answers.csv": digest}
        return entry(
            Subject(label, stats, self.limits),
            created,
            self.left_out,
            audit=audit.impact,
            provenance={"about": dict.fromkeys(ABOUT), "task": None, "hashes": hashes},
            about=about,
            paragraph=what_was_decided(where, list(audit.arms), stats),
        )


def audit_of_file(
    predictions: Path,
    audit_options: AuditOptions,
    population: Path | None = None,
    audited: str = "",
) -> AuditOfFile:
    """Audit a file of predictions; `audited` is the document's time, now by default."""
    settings = Settings(**audit_options.settings)
    _check_options(audit_options, population is not None)
    named = {name: getattr(audit_options, name) for name in _COLUMNS}
    named |= {name: getattr(settings, name) for name in ("weight", "cluster", "given")}
    named["answer"] = audit_options.reply or audit_options.answer
    layout = {name: getattr(audit_options, name) for name in LAYOUT}
    rules = rules_of(dict(audit_options))
    raw = open_file(predictions, layout)
    if population is not None:
        raw = raw.joined(open_file(population, layout), str(audit_options.row))
    protected = titles_named(audit_options.protected, raw.titles)
    columns = columns_of(named, protected, raw.titles)
    how = HowRead(
        columns,
        protected,
        rules,
        words=_words_of_replies(audit_options),
        unknown=audit_options.unknown,
        above=audit_options.above,
        threshold=audit_options.threshold,
        missing=audit_options.missing,
    )
    read, audit = audit_of_table(
        raw,
        how,
        against=settings.against,
        min_group=settings.min_group,
        margin=settings.margin,
        unread=settings.unread,
    )
    audited = audited or time.strftime("%Y-%m-%dT%H:%M:%S%z")
    usual = columns.get("p_yes") or f"{columns.get('score')} above its median"
    source = columns.get("answer") or usual
    label = columns.get("label")
    left_out = audit_options.small == "exclude"
    paths = {"predictions": predictions, "population": population}
    document = {
        "format": FORMAT,
        "predictions": predictions.name,
        "protected": list(how.protected),
        "records": plain(audit.records),
        "statistics": {
            name: plain(one.statistics) for name, one in _by_name(audit).items()
        },
        "ll144": summary(
            audit.impact_with(of_law=True, leave_out_small=left_out),
            {"run": predictions.name, "task": label or "", "model": source},
            audit_options.about.model_dump(),
            audited,
            audit_options.because or "",
        ),
        "created": audited,
        "asked": audit_options.model_dump(mode="json", exclude_defaults=True),
        "files": {
            role: {"name": path.name, "sha256": sha256(path)}
            for role, path in paths.items()
            if path
        },
        "versions": versions(),
    }
    about: Json = {
        "predictions": predictions.name,
        "answer": source,
        "label": label,
        "numbered": "row" not in columns,
    }
    ties = ""
    if columns.keys().isdisjoint({"answer", "score"}):
        about["threshold"] = HALF if how.threshold is None else how.threshold
        ties = _at_threshold(read.frame["p_yes"], about["threshold"])
    return AuditOfFile(document, audit, read.notes, read.left_out, ties, about)


def _at_threshold(shares: "pd.Series[float]", threshold: float) -> str:
    """A note on rows (n,) just at the threshold, and on those without P(yes); "" for none."""
    parts = list[str]()
    ties = int((shares == threshold).sum())
    if ties:
        where = f"lie just at {threshold:g}; they count as yes"
        parts.append(f"{ties:,} of {len(shares):,} rows {where}")
    lost = int(shares.isna().sum())
    if lost:
        parts.append(f"{lost:,} have no P(yes) and count as unparsed")
    return "; ".join(parts)


def _by_name(audit: Audit) -> dict[str, Audit]:
    """The audits by each attribute alone, then by all crossed."""
    several = (*audit.alone, audit)
    return {CROSSING.join(one.answered.attributes): one for one in several}


def _words_of_replies(options: AuditOptions) -> Words | None:
    """The words for yes, no and refer in replies; None if there are no replies."""
    if options.reply is None:
        return None
    words: dict[str, Sequence[str]] = {name: [word] for name, word in YES_NO.items()}
    if options.positive_answer:
        words["yes"] = options.positive_answer.split(",")
        words["no"] = (options.negative or "").split(",")
    if options.refer:
        words["refer"] = options.refer.split(",")
    return words


def _check_options(options: AuditOptions, of_population: bool) -> None:
    no_row = options.row is None
    answers = [column for column in (options.answer, options.reply) if column]
    mistakes = {
        "name at least one protected column": not options.protected,
        "--population needs --key: the column that names rows in both tables": of_population
        and no_row,
        "--small exclude and --because TEXT go together: say why small categories are left out": (
            (options.small == "exclude") != bool((options.because or "").strip())
        ),
        "--reply parses the answers, and --answer gives them: leave out one of them": len(
            answers
        )
        > 1,
        "--reply with --positive-answer needs --negative: the word in which replies say no": (
            options.reply and options.positive_answer and not options.negative
        ),
        (
            f"--label and the answers are the same column, {options.label!r}: name "
            "another"
        ): options.label in answers,
    }
    for mistake, made in mistakes.items():
        if made:
            raise FwcError(mistake)
