"""`Result`: the outcome of a run, with methods for reports, plots and comparisons."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.errors import Ambiguous, FwcError, IncompleteRunError, checked, require
from fwc_llm.metrics.records import Records
from fwc_llm.notebook import badges
from fwc_llm.notices import spoken
from fwc_llm.runs.folder import (
    ANSWER_COLUMNS,
    THRESHOLD_COLUMN,
    RunFolder,
    without_reply,
)
from fwc_llm.sanitize import Json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fwc_llm.gates import Check
    from fwc_llm.report.audit_answers import Audit
    from fwc_llm.report.compare import RunComparison
    from fwc_llm.runs.recorded_run import Run
    from fwc_llm.tasks import Task


@dataclass(frozen=True, repr=False)
class Result(Ambiguous):
    """The outcome of a run.

    `data` is the content of results.json. `task` is the run's task; None if another process made
    the run. `scored` is the run as it was scored; None without any reply.
    """

    instead = (
        "write result.check(condition).passed, or compare result.unanswered with 0"
    )

    folder: Path
    data: Json
    task: "Task | None" = field(default=None, repr=False, compare=False)
    scored: "Run | None" = field(default=None, repr=False, compare=False)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return tuple(RunFolder(self.folder).describe()["arms"])

    @cached_property
    def run(self) -> "Run":
        """The recorded run, read once. Errors: `FwcError` without any reply, and for a missing or
        damaged folder.
        """
        from fwc_llm.runs.recorded_run import read_run

        return self.scored or read_run(self.folder)

    @cached_property
    def records(self) -> Records:
        """All numbers of the run (docs/format.md); none without any reply."""
        found = self.data.get("records", ())
        return Records.read(found, str(self.data.get("attribute", "")))

    @property
    def unanswered(self) -> int:
        """The number of requests without a reply."""
        return int(self.data["unanswered"])

    def to_frame(self) -> "pd.DataFrame":
        """The records as a table, one line per number (docs/format.md)."""
        return self.records.to_frame()

    def answers(self) -> "pd.DataFrame":
        """Every answer of the run (answers.csv); an unknown answer or P(yes) is missing (NA)."""
        import pandas as pd

        columns = [*ANSWER_COLUMNS, *[THRESHOLD_COLUMN] * ("threshold" in self.data)]
        # The package's reader undoes the escape of formulas, and accepts zero bytes; pandas' does
        # not.
        answers = pd.DataFrame(RunFolder(self.folder).read_answers(), columns=columns)
        answers["repeat"] = answers["repeat"].astype("int64")
        answers["simulated"] = answers["simulated"] == "true"
        answers["p_yes"] = answers["p_yes"].replace("", None).astype("float64")
        for name in answers.columns.intersection(["answer", THRESHOLD_COLUMN]):
            answers[name] = answers[name].replace("", None).astype("str")
        return answers

    @checked
    def report(
        self, path: str | Path | None = None, rows: bool = True, force: bool = False
    ) -> Path:
        """Write the report to `path`, by default report.html in the run's folder.

        The file's ending selects the format: html, md, json or csv. An HTML page contains every
        row with prompt and replies, which may be personal data; `rows=False` leaves them out.
        Only the run's own page is overwritten without `force`.

        Errors: `FwcError` for an unknown ending, a run without any reply, or a file that cannot be
        written or exists.
        """
        from fwc_llm.files import new_path, write_whole
        from fwc_llm.report.formats import choose_format, render

        if path is None:
            where = self.folder / "report.html"
        else:
            where = new_path(path, force)
        format = choose_format(None, where)
        text = render([self.folder], format, rows)
        write_whole(text, where)
        return where

    @checked
    def compare(self, other: "Result | str | Path") -> "RunComparison":
        """Compare this run with `other`, a result or a run's folder.

        Errors: `FwcError` for a run of another task, a run without any reply, a folder without a
        run.
        """
        from fwc_llm.report.compare import compare_runs
        from fwc_llm.runs.recorded_run import read_run

        require(
            other,
            (Result, str, Path),
            "the other run",
            "give a result, or a run's folder",
        )
        second = other.run if isinstance(other, Result) else read_run(other)
        return compare_runs(self.run, second)

    def audit(self) -> "Audit":
        """Values, intervals and comparisons of the arms; see `fwc_llm.audit`.

        Errors: `FwcError` for a run without any reply, and a missing or damaged folder.
        """
        from fwc_llm.report.audit_answers import Audit

        return Audit(self.run.answered)

    def plot(self, *others: "Result") -> "Figure":
        """Draw each group's rate of yes by each arm, also of other models' results.

        Errors: `FwcError` without matplotlib (extra `plot`), and as in `audit`.
        """
        from fwc_llm.report.figures import overview

        results = self, *others
        title = self._title if not others else str(self.data["task"])
        marked = {
            name: any(result._marks[name] for result in results) for name in self._marks
        }
        drawn = [(str(one.data["model"]), one.audit().statistics) for one in results]
        return overview(drawn, [title, *badges(**marked)])

    def assisted(self) -> "Audit":
        """Prediction-powered estimates, with predicted answers for unasked rows.

        Intervals are narrower if answers can be predicted from the table's columns
        (docs/running.md, "Assisted"). Errors: `FwcError` if the table is missing or has
        changed.
        """
        from fwc_llm.report.audit_answers import Audit
        from fwc_llm.report.document import find_task
        from fwc_llm.runs.recorded_run import assisted

        task, why = find_task(self.run, self.task, None)
        return Audit(assisted(self.run, task, why).answered)

    def check(self, condition: str) -> "Check":
        """Check a gate, a `condition` that must not hold, such as "dp_gap > 0.1".

        The 95 % interval decides: `outcome` is "outside" if all its values meet the condition,
        "within" if no value meets the condition, else "cannot say"; `reason` is one line
        (docs/gates.md).

        Errors: `IncompleteRunError` for a run with missing replies, `FwcError` for an invalid
        condition or an unknown arm.
        """
        if self.unanswered:
            raise IncompleteRunError(
                f"{self.folder}: {self.missing[0]}; no gate was decided"
            )
        return self.audit().check(condition)

    @property
    def _title(self) -> str:
        return f"{self.data['task']} · {self.data['model']}"

    @property
    def _marks(self) -> dict[str, bool]:
        """The marks `simulated` and `reference`, which every output must show if true."""
        return {name: bool(self.data.get(name)) for name in ("simulated", "reference")}

    @property
    def missing(self) -> list[str]:
        """A sentence on requests without a reply, with the most frequent reason, or []."""
        missing = without_reply(self.data)
        first = [reason["reason"] for reason in self.data.get("no_reply", [])[:1]]
        return ["; ".join([missing, *first])] if missing else []

    @property
    def remarks(self) -> list[str]:
        """Sentences on replies without an answer, and on log-probabilities that contradict one."""
        lines = [spoken(self.data["unread"])] if self.data.get("unread") else []
        contradicting = self.data.get("p_yes_contradicts")
        if contradicting:
            lines.append(
                "replies whose log-probabilities contradict their answers: "
                f"{contradicting:,}; their P(yes) counts as unknown"
            )
        return lines

    def __str__(self) -> str:
        import pandas as pd

        from fwc_llm.metrics.counts import METRICS

        label = "".join(f"  ({mark})" for mark in badges(**self._marks))
        metrics = ("coverage", *METRICS)
        values = {
            arm: [self.records.find(m, arm).value for m in metrics] for arm in self.arms
        }
        table = pd.DataFrame.from_dict(values, "index", columns=list(metrics)).round(3)
        return f"{self._title}{label}\n{table.to_string(na_rep='–')}"

    def __repr__(self) -> str:
        names = ", ".join(self.arms)
        label = "".join(f", {mark}" for mark in badges(**self._marks))
        parts = [f"{self._title}{label}: {names}", *self.missing, str(self.folder)]
        return f"<Result {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The arms with intervals, or the reason why they are missing."""
        from fwc_llm.report.sections import first, rates
        from fwc_llm.report.table_model import Section, notebook

        notes = self.missing
        tables = []
        try:
            audited = self.audit().statistics
            tables = [first(audited), rates(audited)]
        except FwcError as error:
            notes.append(str(error))
        notes.append(f"everything is in {self.folder}")
        return notebook(
            self._title, *tables, Section("", notes=notes, intro=" "), **self._marks
        )
