"""`fwc-llm gate`: conditions that fail CI; also for `eval` and `audit`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fwc_llm.cli.console import lines
from fwc_llm.cli.flags import JSON, argument, command, option, print_json
from fwc_llm.errors import (
    FwcError,
    GateFailedError,
    GateUndecidedError,
    IncompleteRunError,
)
from fwc_llm.files import in_shell, is_file, write_whole
from fwc_llm.options import UNREAD_HELP, VERDICT
from fwc_llm.runs.folder import RunFolder, expanded, without_reply
from fwc_llm.sanitize import Json

if TYPE_CHECKING:
    from fwc_llm.gates import Check, GateCondition
    from fwc_llm.report.narrative import Subject
    from fwc_llm.runs.recorded_run import Run

_PANEL = "Gates"
FAIL_IF: list[str] | None = option(
    'Condition that fails the command, such as "dp_gap[fwc] - dp_gap[zero] > 0"; repeatable.',
    "--fail-if",
    panel=_PANEL,
    metavar="CONDITION",
)
Undecided: TypeAlias = Literal["fail", "pass"] | None
UNDECIDED: Undecided = option(
    "Count undecided conditions as fail or pass. [default: exit code 6]", panel=_PANEL
)
Unread: TypeAlias = Literal["worst", "as-no", "ignore"] | None
UNREAD: Unread = option(
    f"{UNREAD_HELP} [default: the run's setting]", "--unread", panel=VERDICT
)
JUNIT: Path | None = option(
    "Write the checks as JUnit XML to this file.", "--junit", panel=_PANEL
)


@dataclass(frozen=True)
class Gates:
    """The gates of one command, and how their outcomes are reported."""

    conditions: "Sequence[GateCondition]"
    undecided: Undecided
    junit: Path | None

    @classmethod
    def read(
        cls,
        fail_if: Sequence[str] | None,
        undecided: Undecided,
        junit: Path | None,
        dry_run: bool = False,
    ) -> "Gates":
        """Parse the options; the JUnit file first says that the run is not finished."""
        if (
            junit is not None and not dry_run and not junit.is_fifo()
        ):  # a pipe can be written only once
            from fwc_llm.gates.decide import write_stopped

            write_stopped(junit)
        if not fail_if:
            if junit is not None or undecided is not None:
                raise FwcError(
                    "--junit and --undecided need a condition: --fail-if 'dp_gap > 0.1'"
                )
            return cls((), None, None)
        from fwc_llm.gates import parse_condition

        conditions = {
            replace(condition, text=""): condition
            for condition in map(parse_condition, fail_if)
        }  # unique
        return cls(list(conditions.values()), undecided, junit)

    def begin(self, arms: Sequence[str]) -> None:
        """Raise `FwcError` for unknown arms."""
        for condition in self.conditions:
            condition.check_arms(arms)

    def settle(
        self,
        several: "Sequence[Subject]",
        marks: Sequence[str] = (),
        document: Json | None = None,
    ) -> None:
        """Decide every condition for every subject, or the default; print the outcomes of
        conditions, or the `document`.
        """
        from fwc_llm.gates.decide import checked, error_of

        texts = [condition.text for condition in self.conditions]
        suites = {one.name: checked(one.stats, texts) for one in several}
        remedy = ""
        if self.conditions:
            from fwc_llm.gates.sentences import of_either_kind
            from fwc_llm.report.narrative import step_of

            judged = [subject._replace(conditions=texts) for subject in several]
            every = {check for checks in suites.values() for check in checks}
            error = error_of(len(every))
            odds = of_either_kind([one.metric for one in self.conditions])
            marks = [*filter(None, [error]), *odds, *marks]
            remedy = ": ".join(filter(None, step_of(judged)))
        self.show(suites, marks, document)
        self.conclude(suites, remedy)

    def show(
        self,
        suites: "Mapping[str, Sequence[Check]]",
        marks: Sequence[str],
        document: Json | None,
    ) -> None:
        """Print the outcomes, or the `document` with them."""
        if document is not None:
            from fwc_llm.gates.decide import as_gates

            of_runs = (as_gates(name, checks) for name, checks in suites.items())
            document["gates"] = [gate for gates in of_runs for gate in gates]
            document["gate_notes"] = list(marks)
            print_json(document)
        elif self.conditions:
            for name, checks in suites.items():
                if len(suites) > 1:
                    run = f"{name}: "
                else:
                    run = ""
                for check in checks:
                    line = " ".join(
                        f"{run}{check.reason}".split()
                    )  # names of arms may contain line ends
                    lines(f"{check.outcome}  {line}")
            lines(*marks)

    def conclude(
        self, suites: "Mapping[str, Sequence[Check]]", remedy: str = ""
    ) -> None:
        """Write the outcomes; raise the error that fails the command, if any.

        `remedy` is the next step where a check cannot say.
        """
        if not self.conditions:
            return
        from fwc_llm.gates.decide import counted, junit_xml, worst

        if self.junit is not None:
            undecided_as: Any = {
                "fail": "outside",
                "pass": "within",
                None: "cannot say",
            }
            text = junit_xml(suites, undecided_as[self.undecided])
            write_whole(text, self.junit, "the JUnit file ")

        every = [check for checks in suites.values() for check in checks]
        outcome = worst(every)
        counts = counted(every)
        if outcome == "outside" or (
            outcome == "cannot say" and self.undecided == "fail"
        ):
            raise GateFailedError(counts)
        if outcome == "cannot say" and self.undecided is None:
            count_as = "say how such checks count with --undecided fail or pass"
            steps = "; or ".join(filter(None, (remedy, count_as)))
            raise GateUndecidedError(f"{counts}: {steps}")


def settle_runs(
    gates: Gates, runs: "Sequence[Run]", document: Json | None = None
) -> None:
    """Decide the gates for runs, all complete (`check_whole`); see `Gates.settle`."""
    from fwc_llm.gates.sentences import points
    from fwc_llm.metrics.adverse_impact import NO_PEOPLE
    from fwc_llm.metrics.records import TRUTH
    from fwc_llm.report.document import subject_of
    from fwc_llm.report.narrative import caveats

    if not gates.conditions:
        runs = ()
    subjects = [subject_of(run)._replace(name=run.label) for run in runs]
    marks = caveats(
        any(run.simulated for run in runs), any(run.reference for run in runs)
    )
    if any(condition.metric == "dp_ratio" for condition in gates.conditions) and any(
        run.answered.design.labels_fixed for run in runs
    ):
        marks.append(f"{NO_PEOPLE} dp_ratio is not an impact ratio.")
    for run, subject in zip(runs, subjects, strict=True):
        parity = run.described["settings"]["base_parity"]
        if parity:
            where = f"{subject.name}: " * (len(runs) > 1)
            gap = points(subject.stats.of("dp_gap", TRUTH).value)
            marks.append(
                f"{where}rows drawn with base parity {parity:g}: true answers have a DP "
                f"gap of {gap}"
            )
    gates.settle(subjects, marks, document)


def check_whole(folder: RunFolder) -> None:
    """Raise `IncompleteRunError` for an incomplete run: gates need all replies."""
    path = folder.path
    if not is_file(path / "results.json"):
        raise IncompleteRunError(
            f"{path}: the run is not finished; no gate was decided"
        )
    missing = without_reply(folder.results)
    if missing:
        raise IncompleteRunError(
            f"{path}: {missing}; no gate was decided. The same `fwc-llm eval` command with --out "
            f"{in_shell(path)} sends them"
        )


@command("gate")
def gate(
    runs: list[Path] = argument(
        "Folders of runs, or logs of Inspect (.eval, .json).", metavar="RUN"
    ),
    fail_if: list[str] | None = FAIL_IF,
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    unread: Unread = UNREAD,
    as_json: bool = JSON,
) -> None:
    """Check a finished run against conditions, by intervals, without requests.

    A condition tests accuracy, dp_gap, label_gap or another metric (a wrong name lists them) of
    every arm, of one arm, or between two: "dp_gap > 0.1", "dp_gap[a] > 0.1",
    "dp_gap[a] - dp_gap[b] > 0", "abs(dp_gap[a] - dp_gap[b]) > 0.05".
    """
    from fwc_llm.inspect.log import run_folders
    from fwc_llm.runs.recorded_run import read_runs

    gates = Gates.read(fail_if, undecided, junit)
    if not gates.conditions:
        raise FwcError("name a condition: --fail-if 'dp_gap > 0.1'")
    with run_folders(list(expanded(runs))) as paths:
        folders = [RunFolder.existing(path) for path in paths]
        arms = [arm for folder in folders for arm in folder.describe()["arms"]]
        gates.begin(list(dict.fromkeys(arms)))
        for folder in folders:
            check_whole(folder)
        document: Json | None = {"format": "fwc-llm-gate/1"} if as_json else None
        settle_runs(gates, read_runs(folders, unread), document)
