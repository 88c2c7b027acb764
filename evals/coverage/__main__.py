"""Measure coverage, type-I error and contradictions, and record them: the command line."""

import json
import os
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import Progress

from evals.coverage.against_fairlearn import NUMBERS, farthest
from evals.coverage.pairs import LOOKS, PAIRS, measure_pair
from evals.coverage.populations import populations, quick_populations
from evals.coverage.report import as_json, as_markdown
from evals.coverage.tally import Tally, measure
from evals.coverage.worlds import World
from evals.record import RESULTS, command_line, describe_machine, write

_PART = 50  # runs drawn from one seed
RUNS = 1550  # a population: a true coverage of 0.93 then nearly always excludes 0.91


def run(
    worlds: Sequence[World],
    runs: int,
    seed: int = 0,
    processes: int = 1,
    bar: Progress | None = None,
    kept: Path | None = None,
) -> dict[str, Tally]:
    """Measure every world with so many runs, rounded up to whole parts of 50.

    Parts are added to the file `kept` as they are done; those that it has are not measured again.
    """
    found = {world.name: Tally(0, {}, {}) for world in worlds}
    size = min(_PART, runs)
    parts = range(-(-runs // _PART))
    missing = {(world.name, part): world for world in worlds for part in parts}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else ():
        record = json.loads(line)
        if (record["seed"], record["tally"]["runs"]) != (seed, size):
            continue
        if missing.pop((record["world"], record["part"]), None):
            found[record["world"]].add(Tally.from_json(record["tally"]))
    with ProcessPoolExecutor(processes) as pool:
        tasks = {
            pool.submit(measure, world, size, seed, part): (name, part)
            for (name, part), world in missing.items()
        }
        for done in _watched(tasks, "all populations", bar):
            (name, part), tally = tasks[done], done.result()
            found[name].add(tally)
            if kept:
                record = {"world": name, "part": part, "seed": seed, "tally": tally.as_json()}
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return found


def _watched(
    tasks: Collection[Future[Any]], title: str, bar: Progress | None
) -> Iterator[Future[Any]]:
    """The tasks as they are done, with a progress bar, or a line now and then where there is no
    terminal.
    """
    if bar:
        task = bar.add_task(title, total=len(tasks))
    else:
        task = None
    for number, done in enumerate(as_completed(tasks), start=1):
        if bar and task is not None:
            bar.advance(task)
            if bar.disable and number % max(1, len(tasks) // 20) == 0:
                print(f"{title}: {number} of {len(tasks)}", file=sys.stderr, flush=True)
        yield done


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 when an interval, a test or a value is not accepted."""
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, help=f"runs a population (default {RUNS}; quick: 50)")
    parser.add_argument(
        "--quick", action="store_true", help="a few populations; no record without --out"
    )
    parser.add_argument(
        "--only", default="", help="populations by a part of their name; --out adds them"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--kept", type=Path, default=None, help="file of parts that are done, to go on from"
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="folder of coverage.json and coverage.md"
    )
    given = parser.parse_args(arguments)
    runs = given.runs if given.runs is not None else (50 if given.quick else RUNS)
    if runs < 1 or given.processes < 1:
        parser.error("runs and processes are whole numbers from 1 up")
    if given.quick:
        known = quick_populations()
    else:
        known = list(populations())
    worlds = [world for world in known if given.only in world.name]
    if not given.quick or given.only:
        pairs = [pair for pair in PAIRS if given.only in pair.name]
    else:
        pairs = []
    if not worlds and not pairs:
        parser.error(f"no population has {given.only!r} in its name")
    with Progress(disable=not sys.stderr.isatty()) as bar:
        tallies = run(worlds, runs, given.seed, given.processes, bar, given.kept)
        with ProcessPoolExecutor(given.processes) as pool:
            if given.runs is not None:
                most = min(runs, LOOKS[-1])
            else:
                most = LOOKS[-1]
            tasks = {pool.submit(measure_pair, pair, most, given.seed): pair.name for pair in pairs}
            found = {tasks[done]: done.result() for done in _watched(tasks, "all pairs", bar)}
    about: dict[str, Any] = {
        "command": " ".join(
            [
                "python -m evals.coverage",
                shlex.join(sys.argv[1:] if arguments is None else arguments),
            ]
        ),
        "machine": describe_machine("numpy", "scipy"),
        "seed": given.seed,
        "runs": runs,
        "of": len(list(populations())),
        "fairlearn": {"numbers": NUMBERS, "farthest": farthest()},
    }
    folder = given.out or (None if given.quick or given.only else RESULTS)
    if folder and given.only:
        recorded = folder / "coverage.json"
    else:
        recorded = None
    if recorded and recorded.exists():
        before = json.loads(recorded.read_text(encoding="utf-8"))
    else:
        before = {}
    about |= {name: before[name] for name in ("command", "runs") if name in before}
    result = as_json(about, tallies, {pair.name: found[pair.name] for pair in pairs}, before)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write("coverage", result, as_markdown(result), folder, indent=None)
    print(as_markdown(result))
    return 0 if result["accepted"] else 1


if __name__ == "__main__":
    sys.exit(main())
