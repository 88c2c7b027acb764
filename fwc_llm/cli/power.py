"""`fwc-llm power`: the differences that a design detects, or the sample size."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.cli import console, flags
from fwc_llm.errors import FwcError
from fwc_llm.metrics.planning import Assumptions, Design, limit_of, smallest
from fwc_llm.report.narrative import power_lines
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.sample_sizes import needed
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of
from fwc_llm.shots import is_per_row

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_QUESTIONS = {
    "gap": "gaps of two",
    "accuracy": "accuracy of two",
    "gap_of_one": "gap of one",
}


@flags.command(
    "power", Settings, names=("m", "n_test", "base_parity", "repeats", "min_group")
)
def power(
    task: str | None = flags.TASK,
    protected: str | None = flags.PROTECTED,
    shots: str = flags.option(
        "Arms, comma-separated; each gets every row.", default=flags.ARMS
    ),
    detect: float | None = flags.option(
        "Difference in the gap or accuracy (a share) to plan rows for."
    ),
    discordant: float | None = flags.option(
        "Share of rows that two arms answer differently. [default: 0.25]"
    ),
    correlation: float = flags.option(
        "Correlation of an arm's answers to one row in two repeats.", default=1.0
    ),
    examples_sd: float = flags.option(
        "Standard deviation of a difference over sets of examples.", default=0.05
    ),
    data_dir: Path | None = flags.DATA_DIR,
    as_json: bool = flags.JSON,
    **options: Any,
) -> None:
    """Print the differences that a run detects 4 times in 5, without any request.

    With --detect 0.1, print the rows and repeats that detect this difference. An audit of
    decisions says itself what it could miss.
    """
    if detect is not None and not 0.0 < detect < 1.0:
        raise FwcError(
            f"--detect is {detect:g}: give a share above 0 and below 1, such as 0.1"
        )
    assumed: dict[str, Any] = {"correlation": correlation, "examples_sd": examples_sd}
    if discordant is not None:
        assumed |= {"discordant": discordant, "source": "as given"}
    assumptions = Assumptions(**assumed)
    arms = _arms(shots)
    with console.working("reading the table"):
        table = flags.open_task(task, data_dir, protected)
        asked = flags.read(Settings, options)
        settings, notes = fit_defaults(table, asked)
    console.notes(*notes)
    study = _Study(table, arms, settings, assumptions, detect)
    if as_json:
        flags.print_json(study.as_json())
    else:
        study.print()


@dataclass(frozen=True)
class _Study:
    """A design, and what `power` says of it."""

    task: "Task"
    arms: list[str]
    settings: Settings
    assumptions: "Assumptions"
    detect: float | None

    @cached_property
    def design(self) -> "Design":
        """The numbers of rows by group, and of requests."""
        settings = self.settings
        drawn = (
            settings.n_test,
            settings.base_parity,
            settings.repeats,
            settings.min_group,
        )
        return design_of(self.task, *drawn)

    @cached_property
    def needed(self) -> list[dict[str, Any]]:
        """The designs that detect the difference."""
        if self.detect is None:
            return []
        several = len(self.arms)
        return list(
            needed(self.task, self.detect, self.settings, several, self.assumptions)
        )

    @property
    def requests(self) -> int:
        """The number of requests of all arms."""
        return self.design.requests * len(self.arms)

    def as_json(self) -> dict[str, Any]:
        """All numbers, as plain values."""
        settings = self.settings
        return {
            "format": "fwc-llm-power/1",
            "task": self.task.name,
            "protected": list(self.task.protected),
            "n_test": settings.n_test,
            "repeats": settings.repeats,
            "base_parity": settings.base_parity,
            "min_group": settings.min_group,
            "arms": self.arms,
            "requests": self.requests,
            "assumptions": asdict(self.assumptions),
            "smallest": smallest(self.design, self.assumptions),
            "limit": {
                name: limit_of(name, self.design, self.assumptions)
                for name in _QUESTIONS
            },
            "detect": self.detect,
            "needed": self.needed,
        }

    def print(self) -> None:
        """Print sentences, and a table of the designs that are needed."""
        repeats = self.settings.repeats
        plural = "s" * (repeats > 1)
        console.lines(
            f"{self.task.name}: {self.settings.n_test:,} test rows, {repeats} repeat{plural}, "
            f"asked with {', '.join(self.arms)}: {self.requests:,} requests",
            *power_lines(self.design, self.assumptions),
        )
        if self.detect is not None:
            _print_needed(self.detect, self.needed)


def _arms(shots: str) -> list[str]:
    """The arms of --shots."""
    arms = list(flags.words(shots))
    if not arms:
        raise FwcError("no arm is named: pass --shots, for example zero,balanced,fwc")
    for arm in arms:
        if not arm.endswith(".json"):
            is_per_row(arm)  # raises for an unknown strategy
    return arms


def _print_needed(detect: float, designs: Sequence[Mapping[str, Any]]) -> None:
    from fwc_llm.report.table_model import Section, terminal

    rows = []
    notes = []
    for design in designs:
        counts = (
            "–" if design[key] is None else f"{design[key]:,}"
            for key in ("n_test", "requests")
        )
        rows.append(
            (
                _QUESTIONS[design["question"]],
                design["of"],
                f"{design['repeats']}",
                *counts,
            )
        )
    if any(design["n_test"] is None for design in designs):
        notes.append("–: the table has too few rows for any such design")
    headings = (
        f"to find {100 * detect:g} points in the",
        "of",
        "repeats",
        "rows",
        "requests",
    )
    console.out.print(terminal(Section("", headings, rows, notes, keys=2)))
