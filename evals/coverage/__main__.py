"""Measure coverage and false verdicts of every world, and record them: the command line."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from rich.progress import track

from evals.coverage.against_fairlearn import NUMBERS, farthest
from evals.coverage.measure import ERRORS, LEAST, MOST, Count, measure
from evals.coverage.worlds import World, worlds
from evals.record import command_line, describe_machine, markdown, write
from fwc_llm.metrics.sampling_design import REFUSED

RUNS = 300
Found = Mapping[str, Mapping[str, Count]]  # by world and metric


def run(some: Sequence[World], runs: int, seed: int, processes: int) -> Found:
    """Count by world and metric."""
    with ProcessPoolExecutor(processes) as pool:
        tasks = {pool.submit(measure, world, runs, seed): world.name for world in some}
        done = track(
            as_completed(tasks), "worlds", len(tasks), disable=not sys.stderr.isatty()
        )
        found = {tasks[task]: task.result() for task in done}
    return {world.name: found[world.name] for world in some}


def as_json(found: Found, about: dict[str, Any]) -> dict[str, Any]:
    """The record: counts by world and metric."""
    counts = {
        world: {metric: vars(count) for metric, count in by_metric.items()}
        for world, by_metric in found.items()
    }
    return about | {"worlds": counts}


def as_markdown(found: Found, about: dict[str, Any]) -> str:
    """The page of the record: one line a metric, one a world, and the cells that fail."""
    metrics = sorted({metric for counts in found.values() for metric in counts})
    by_metric = [_line(f"`{metric}`", _of_metric(found, metric)) for metric in metrics]
    by_world = [_line(world, counts) for world, counts in found.items()]
    rows = [["metric", *_COLUMNS, "least in"], *by_metric]
    head = ["world", *_COLUMNS, "least of"]
    theirs = about["fairlearn"]
    refused = "; ".join(" × ".join(pair) for pair in sorted(map(sorted, REFUSED)))
    cells = sum(map(len, found.values()))
    lines = {
        f"* {world}, `{metric}`: {_told(count)}": count
        for world, counts in found.items()
        for metric, count in counts.items()
        if count.coverage < LEAST or not count.accepted
    }
    outcome = "\n".join(x for x in lines if not lines[x].accepted) or "None."
    within = "\n".join(x for x in lines if lines[x].accepted) or "None."
    few = about.get("fewer") or {}
    fewer = (
        f", with `--runs {few['runs']}` for {'; '.join(few['worlds'])}" if few else ""
    )
    return f"""# Coverage of intervals, and false verdicts (simulated)

Every interval and verdict of `audit` and `eval`, in {_draws(found)} draws of each of {len(found)}
worlds, beside the truth of the world. A cell is a metric in a world.

{markdown(rows[0], rows[1:])}
{markdown(head, by_world)}
Intervals say 95 %. *Least*: the least coverage of a cell, with its standard error over draws.
*False*: the share of all verdicts that say what is not true; *most*: its largest share in a cell.
Each pair of options that is allowed is in a world. Refused pairs: {refused}.

Of {cells:,} cells, those with a coverage under {LEAST} or more than {MOST} false verdicts, beyond
{ERRORS} standard errors of the simulation:

{outcome}

Those under {LEAST} within this error, of which chance makes some:

{within}

Of {theirs["numbers"]} point values, the farthest from fairlearn's differs by {theirs["farthest"]:.1g}.

Command: `{about["command"]}`{fewer}. {about["machine"]}.
"""


def _draws(found: Found) -> str:
    """The numbers of draws of the worlds."""
    draws = [max(one.draws for one in counts.values()) for counts in found.values()]
    return " to ".join(map(str, sorted({min(draws), max(draws)})))


_COLUMNS = "intervals", "coverage", "least", "verdicts", "false", "most"


def _of_metric(found: Found, metric: str) -> dict[str, Count]:
    return {
        world: counts[metric] for world, counts in found.items() if metric in counts
    }


def _line(name: str, counts: Mapping[str, Count]) -> list[Any]:
    """All counts together, and the cells of the least coverage and of most false verdicts."""
    total = sum(counts.values(), Count())
    least = min(counts, key=lambda cell: counts[cell].coverage)
    told = [count for count in counts.values() if count.told]
    false = ["", "", ""]
    if told:
        most = max(count.error for count in told)
        false = [f"{total.told:,}", f"{total.error:.3f}", f"{most:.3f}"]
    of_least = f"{counts[least].coverage:.3f} ± {counts[least].uncertain[0]:.3f}"
    covered = [f"{total.given:,}", f"{total.coverage:.3f}", of_least]
    return [name, *covered, *false, least]


def _told(count: Count) -> str:
    of_coverage, of_error = count.uncertain
    text = f"coverage {count.coverage:.3f} ± {of_coverage:.3f}"
    if count.told:
        text += f", false {count.error:.3f} ± {of_error:.3f}"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when a cell is not accepted."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="draws of each world")
    parser.add_argument(
        "--only", default="", help="worlds by a part of their name, no record"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    some = [world for world in worlds() if given.only in world.name]
    if not some:
        parser.error(f"no world has {given.only!r} in its name")
    found = run(some, given.runs, given.seed, given.processes)
    options = shlex.join(sys.argv[1:] if arguments is None else arguments)
    about = {
        "command": f"python -m evals.coverage {options}".rstrip(),
        "machine": describe_machine("numpy", "scipy"),
        "runs": given.runs,
        "seed": given.seed,
        "fairlearn": {"numbers": NUMBERS, "farthest": farthest()},
    }
    page = as_markdown(found, about)
    print(page, flush=True)
    if not given.only:
        write("coverage", as_json(found, about), page, indent=None)
    cells = (count for counts in found.values() for count in counts.values())
    return 0 if all(count.accepted for count in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
