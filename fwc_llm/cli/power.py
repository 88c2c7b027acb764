"""`fwc-llm power`: the differences that a design detects, or the sample size."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fwc_llm.cli import console, flags
from fwc_llm.errors import FwcError
from fwc_llm.metrics.planning import QUESTIONS, Assumptions, smallest, steps_needed
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, THIS_STRATEGY
from fwc_llm.number_format import DASH, in_points
from fwc_llm.report.narrative import power_lines
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of, whole_step
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import is_per_row
from fwc_llm.tasks import Task

REPEATS = (1, 5, 10, 20, 50)


def needed(
    task: Task,
    difference: float,
    settings: Settings,
    arms: int,
    assumptions: Assumptions,
) -> Iterator[Json]:
    """Yield the sample sizes that detect `difference` with power 80 %.

    `n_test` is the least number of test rows per repeat, None if the table has too few; `requests`
    is the total over all arms.
    """
    base_parity = settings.base_parity
    step = whole_step(task.groups, base_parity)
    for question in QUESTIONS if arms > 1 else ("gap_of_one",):
        for count in sorted({*REPEATS, settings.repeats}):
            strategy = count >= MIN_SETS
            design = design_of(task, step, base_parity, count, settings.min_group)
            steps = steps_needed(difference, question, design, assumptions, strategy)
            n_test = requests = None
            if steps is not None:
                n_test = steps * step
                requests = n_test * count * (1 if question == "gap_of_one" else arms)
            of = THIS_STRATEGY if strategy else THESE_EXAMPLES
            line = {
                "question": question,
                "of": of,
                "repeats": count,
                "n_test": n_test,
                "requests": requests,
            }
            yield line


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
    data_dir: Path | None = flags.DATA_DIR,
    as_json: bool = flags.JSON,
    **options: Any,
) -> None:
    """Print the differences that a run detects 4 times in 5, without any request.

    With --detect 0.1, print the rows and repeats that detect this difference. An audit of decisions
    says itself what it could miss.
    """
    if detect is not None and not 0.0 < detect < 1.0:
        raise FwcError(
            f"--detect is {detect:g}: give a share above 0 and below 1, such as 0.1"
        )
    assumptions = Assumptions()
    if discordant is not None:
        assumptions = Assumptions(discordant=discordant, source="as given")
    arms = _arms(shots)
    with console.working("reading the table"):
        table = flags.open_task(task, data_dir, protected)
        settings, notes = fit_defaults(table, flags.read(Settings, options))
    console.notes(*notes)
    drawn = {
        name: getattr(settings, name)
        for name in ("n_test", "base_parity", "repeats", "min_group")
    }
    design = design_of(table, *drawn.values())
    requests = design.requests * len(arms)
    designs = []
    if detect is not None:
        designs = list(needed(table, detect, settings, len(arms), assumptions))
    if as_json:
        document = {
            "format": "fwc-llm-power/1",
            "task": table.name,
            "protected": list(table.protected),
            **drawn,
            "arms": arms,
            "requests": requests,
            "assumptions": asdict(assumptions),
            "smallest": smallest(design, assumptions),
            "detect": detect,
            "needed": designs,
        }
        flags.print_json(document)
        return
    plural = "s" * (settings.repeats > 1)
    console.lines(
        f"{table.name}: {settings.n_test:,} test rows, {settings.repeats} repeat{plural}, "
        f"asked with {', '.join(arms)}: {requests:,} requests",
        *power_lines(design, len(arms), assumptions),
    )
    if detect is not None:
        _print_needed(detect, designs)


def _arms(shots: str) -> list[str]:
    """The arms of --shots."""
    arms = list(flags.words(shots))
    if not arms:
        raise FwcError("no arm is named: pass --shots, for example zero,balanced,fwc")
    for arm in arms:
        if not arm.endswith(".json"):
            is_per_row(arm)  # raises for an unknown strategy
    return arms


def _print_needed(detect: float, designs: Sequence[Fields]) -> None:
    from fwc_llm.report.table_model import Section, terminal

    rows = []
    notes = ["The price: eval --dry-run with this number of rows."]
    for design in designs:
        counts = [design[name] for name in ("repeats", "n_test", "requests")]
        told = (DASH if count is None else f"{count:,}" for count in counts)
        rows.append((_QUESTIONS[design["question"]], design["of"], *told))
    if any(design["n_test"] is None for design in designs):
        notes = [f"{DASH}: the table has too few rows for any such design"]
    finds = f"to find {in_points(detect)} in the"
    headings = finds, "of", "repeats", "rows", "requests"
    console.out.print(terminal(Section("", headings, rows, notes, keys=2)))
