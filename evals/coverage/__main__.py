"""Measure coverage and false verdicts of every world, and record them: the command line."""

import os
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from rich.progress import track

from evals.coverage.against_fairlearn import NUMBERS, farthest
from evals.coverage.measure import Count, measure, together
from evals.coverage.worlds import World, worlds
from evals.record import command_line, describe_machine, markdown, write
from fwc_llm.metrics.sampling_design import REFUSED

RUNS = 200
_LEAST = 0.93
_MOST = 0.06


def run(
    some: Sequence[World], runs: int, seed: int, processes: int
) -> dict[str, dict[str, Count]]:
    """Count by world and metric."""
    with ProcessPoolExecutor(processes) as pool:
        tasks = {pool.submit(measure, world, runs, seed): world.name for world in some}
        done = track(
            as_completed(tasks), "worlds", len(tasks), disable=not sys.stderr.isatty()
        )
        found = {tasks[task]: task.result() for task in done}
    return {world.name: found[world.name] for world in some}


def as_json(
    found: dict[str, dict[str, Count]], about: dict[str, Any]
) -> dict[str, Any]:
    """The record: counts by metric and world."""
    counts = {
        world: {metric: vars(count) for metric, count in by_metric.items()}
        for world, by_metric in found.items()
    }
    return about | {"worlds": counts}


def as_markdown(found: dict[str, dict[str, Count]], about: dict[str, Any]) -> str:
    """The page of the record: one line a metric, one a world."""
    metrics = together(found)
    by_metric = [_line(metric, *metrics[metric]) for metric in metrics]
    by_world = []
    for world, counts in found.items():
        count = sum(counts.values(), Count())
        by_world.append([world, count.given, *_shares(count)])
    theirs = about["fairlearn"]
    refused = "; ".join(f"{first} × {second}" for first, second in map(sorted, REFUSED))
    return f"""# Coverage of intervals, and false verdicts (simulated)

Every interval and verdict of `audit`, in {about["runs"]} draws of each of {len(found)} worlds, beside
one huge draw.

{markdown(["metric", "intervals", "coverage", "verdicts", "false", "least covered in"], by_metric)}
{markdown(["world", "intervals", "coverage", "verdicts", "false"], by_world)}
Intervals say 95 %. *Verdicts*: those that a true difference of 0, or a verdict that was given,
could make false. Refused pairs of options: {refused}.

Of {theirs["numbers"]} point values, the farthest from fairlearn's differs by {theirs["farthest"]:.1g}.

Command: `{about["command"]}`. {about["machine"]}.
"""


def _line(metric: str, total: Count, least: str, _: str) -> list[Any]:
    return [f"`{metric}`", total.given, *_shares(total), least]


def _shares(count: Count) -> tuple[str, int, str]:
    if count.null:
        error = f"{count.error:.3f}"
    else:
        error = ""
    return f"{count.coverage:.3f}", count.null, error


def is_accepted(found: dict[str, dict[str, Count]]) -> bool:
    """Whether each metric covers often enough, and seldom gives a false verdict."""
    totals = [total for total, _, _ in together(found).values()]
    covers = all(total.coverage >= _LEAST for total in totals if total.given)
    return covers and all(total.error <= _MOST for total in totals if total.null)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a metric is not accepted."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="draws of each world")
    parser.add_argument(
        "--quick", action="store_true", help="10 draws of each world, no record"
    )
    parser.add_argument(
        "--only", default="", help="worlds by a part of their name, no record"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    some = [world for world in worlds() if given.only in world.name]
    if not some:
        parser.error(f"no world has {given.only!r} in its name")
    if given.quick:
        runs = 10
    else:
        runs = given.runs
    found = run(some, runs, given.seed, given.processes)
    options = shlex.join(sys.argv[1:] if arguments is None else arguments)
    about = {
        "command": f"python -m evals.coverage {options}".rstrip(),
        "machine": describe_machine("numpy", "scipy"),
        "runs": runs,
        "seed": given.seed,
        "fairlearn": {"numbers": NUMBERS, "farthest": farthest()},
    }
    page = as_markdown(found, about)
    print(page, flush=True)
    if not given.quick and not given.only:
        write("coverage", as_json(found, about), page, indent=None)
    return 0 if is_accepted(found) else 1


if __name__ == "__main__":
    sys.exit(main())
