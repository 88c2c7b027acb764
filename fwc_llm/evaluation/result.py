"""`Result`: what a run found, as a value that prints, draws, reports and compares itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError, IncompleteRunError
from fwc_llm.notebook import figure, note, table
from fwc_llm.runs.folder import ANSWER_COLUMNS, THRESHOLD_COLUMN, RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.gates import Check
    from fwc_llm.report.audit import Audit
    from fwc_llm.tasks import Task


@dataclass(frozen=True, repr=False)
class Result:
    """What a run found. `data` is results.json; `folder` holds everything else.

    `task` is the task that the run was made with, where this process made it.
    """

    folder: Path
    data: dict[str, Any]
    task: "Task | None" = field(default=None, repr=False, compare=False)

    @property
    def arms(self) -> list[dict[str, Any]]:
        """One object per arm: its means over repeats, their standard deviations, and each repeat."""
        return list(self.data["arms"])

    @property
    def unanswered(self) -> int:
        """How many requests have no reply at all."""
        return int(self.data["unanswered"])

    def to_frame(self) -> "pd.DataFrame":
        """The arms as a table: a row per arm, a column per metric (mean over repeats; `_sd`: their spread).

        `answers` has one row per answer.
        """
        import pandas as pd

        simple = [{k: v for k, v in arm.items() if not isinstance(v, dict | list)} for arm in self.arms]
        return pd.DataFrame(simple).set_index("arm")

    def answers(self) -> "pd.DataFrame":
        """Every answer of the run (answers.csv)."""
        import pandas as pd

        columns = [*ANSWER_COLUMNS, *[THRESHOLD_COLUMN] * ("threshold" in self.data)]
        # By our own reader: pandas' takes a zero byte, and what stands for a formula, for something else.
        answers = pd.DataFrame(RunFolder(self.folder).read_answers(), columns=columns)
        answers["repeat"] = answers["repeat"].astype("int64")
        answers["simulated"] = answers["simulated"] == "true"
        if (answers["p_yes"] != "").all():
            answers["p_yes"] = answers["p_yes"].astype("float64")
        return answers

    def report(
        self,
        path: str | Path | None = None,
        task: "str | Path | Task | None" = None,
        data_dir: str | Path | None = None,
        rows: bool = True,
        reference: bool = False,
    ) -> Path:
        """Write the report of this run to `path`, by default report.html in its folder; return the path.

        The file's ending decides the format: html, md, json or csv. The run knows its task;
        `task` (a task, or the name of one) takes its place, `data_dir` is where its data lies. A page holds
        every row with its prompt and replies, which may be people's records; `rows=False` leaves them out.
        `reference` adds what plain models answer to the same rows; the run keeps it.

        Errors: `FwcError` for an ending that names no format, a run without any reply, a file that cannot
        be written.
        """
        from fwc_llm.files import write_whole
        from fwc_llm.report.write import choose_format, render

        where = self.folder / "report.html" if path is None else Path(path)
        format = choose_format(None, where)
        text = render([self.folder], format, task or self.task, data_dir, rows, reference)
        write_whole(text, where)
        return where

    def compare(self, other: "Result | str | Path") -> "RunComparison":
        """What changed from this run to `other` (a result, or a run's folder), and whether answers differ.

        Errors: `FwcError` for a run of another task, a run without any reply, a folder that is no run.
        """
        from fwc_llm.report.compare import compare_runs
        from fwc_llm.report.read import read_run

        folder = other.folder if isinstance(other, Result) else other
        return RunComparison(compare_runs(read_run(self.folder), read_run(folder)))

    def audit(self) -> "Audit":
        """Values, intervals and comparisons of the arms; see `fwc_llm.audit`.

        Errors: `FwcError` for a run without any reply, and a folder that is gone or damaged.
        """
        from fwc_llm.report.audit import Audit
        from fwc_llm.report.read import read_run
        from fwc_llm.report.reference_models import references_of

        run = read_run(self.folder)
        return Audit(run.answered, references_of(run))

    def check(self, condition: str) -> "Check":
        """Check a condition that must not hold, such as "dp > 0.1" or "dp[fwc] - dp[zero] > 0".

        By the 95 % interval, not the point: `outcome` is "failed" where all of it meets the condition,
        "passed" where none of it does, else "undecided"; `reason` is one line (docs/gates.md).

        Errors: `IncompleteRunError` for a run with missing replies, `FwcError` for a condition that cannot be
        read and an arm that is not there.
        """
        if self.unanswered:
            raise IncompleteRunError(f"{self.folder}: {self._missing}; no gate was decided")
        return self.audit().check(condition)

    @cached_property
    def _statistics(self) -> Mapping[str, Any] | None:
        """The audit's content; None without replies, or when the folder is gone."""
        try:
            return self.audit().to_dict()
        except FwcError:
            return None

    @property
    def _title(self) -> str:
        return f"{self.data['task']} · {self.data['model']}"

    @property
    def _marks(self) -> list[str]:
        """What every print of the result must say of its answers."""
        reference = self.data.get("reference", False)
        return ["SIMULATED"] * self.data["simulated"] + ["REFERENCE, NO LANGUAGE MODEL"] * reference

    @property
    def _missing(self) -> str:
        return f"{self.unanswered:,} of {self.data['requests']:,} requests have no reply"

    def __str__(self) -> str:
        from fwc_llm.metrics.counts import METRICS

        shown = self.to_frame()[["n", "coverage", *METRICS]].round(3)
        label = "".join(f"  ({mark})" for mark in self._marks)
        return f"{self._title}{label}\n{shown.to_string(na_rep='–')}"

    def __repr__(self) -> str:
        names = ", ".join(str(arm["arm"]) for arm in self.arms)
        label = "".join(f", {mark}" for mark in self._marks)
        missing = f"; {self._missing}" if self.unanswered else ""
        return f"<Result {self._title}{label}: {names}{missing}; {self.folder}>"

    def _repr_html_(self) -> str:
        """The arms as a table."""
        from fwc_llm.report.format import interval, number, percent

        found = self._statistics
        ends = {arm["arm"]: arm for arm in found["arms"]} if found else {}
        rows = []
        for arm in self.arms:
            cells = [str(arm["arm"]), f"{arm['n']:,}"]
            for metric, scale, digits in (("accuracy", 100, 1), ("demographic_parity_difference", 1, 3)):
                # The audit's own value: that of results.json is the paper's, and no interval is about it.
                within = ends.get(arm["arm"], {}).get(metric, {"value": arm[metric]})
                wide = f" ({interval((within['low'], within['high']), digits, scale)})" if ends else ""
                cells.append(number(within["value"], digits, scale) + wide)
            rows.append([*cells, percent(arm["coverage"])])
        headings = ("arm", "answers", "accuracy %", "DP gap", "coverage")
        parts = [table(headings, rows)]
        parts += [note(self._missing)] if self.unanswered else []
        parts += [note(f"in brackets 95 % intervals; everything is in {self.folder}")]
        marks = {"simulated": bool(self.data["simulated"]), "reference": bool(self.data.get("reference"))}
        return figure(self._title, *parts, **marks)


class RunComparison(dict[str, Any]):
    """What changed between two runs; see `fwc_llm.report.compare.compare_runs` for the keys."""

    def __str__(self) -> str:
        from fwc_llm.report.compare import comparison_table
        from fwc_llm.report.terminal import as_text

        return as_text(comparison_table(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The changed settings and each metric before and after."""
        from fwc_llm.report.format import interval, number, p_value, signed

        rows = []
        for arm in self["arms"]:
            for metric, name in (("accuracy", "accuracy %"), ("demographic_parity_difference", "DP gap")):
                digits, scale = (1, 100) if metric == "accuracy" else (3, 1)
                test = arm[metric]
                wide = f" ({interval((test['low'], test['high']), digits, scale)})" if "low" in test else ""
                sides = [number(test[side], digits, scale) for side in ("first", "second")]
                change = signed(test["difference"], digits, scale) + wide
                rows.append([f"{arm['arm']}: {name}", *sides, change, p_value(test["p_adjusted"])])
        first, second = (self[side]["label"] for side in ("first", "second"))
        changed = [[one["name"], one["first"], one["second"]] for one in self["changed"]]
        parts = [table(("what changed", first, second), changed)] if changed else []
        parts += [table(("", "first", "second", "difference", "p (adjusted)"), rows)] if rows else []
        return figure(f"{first} → {second}", *parts, *map(note, self["notes"]))
