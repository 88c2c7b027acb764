"""`python -m evals.paper NAME`: run or continue an experiment of the paper, and write its
report.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evals.paper.experiment import DATASETS, NAMES, Experiment, Options, load_experiment
from evals.paper.ledger import Ledger
from evals.paper.runner import run_cells
from evals.record import RESULTS, describe_machine
from fwc_llm.coreset.threads import count_threads
from fwc_llm.errors import FwcError
from fwc_llm.tasks import load_task

QUICK_RUNS = 2
_LIBRARIES = ("fwc-llm", "numpy", "scipy", "pandas", "numba", "scikit-learn", "POT")


def main(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}, or all.")],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Two runs on small parts, to test that all of it works."
        ),
    ] = False,
    runs: Annotated[
        int,
        typer.Option(
            help="Runs with different splits and seeds; on Adult half of them.", min=1
        ),
    ] = 10,
    datasets: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(
        DATASETS
    ),
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results (default evals/results/paper; --quick: none)."
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the tables are.")] = None,
    jobs: Annotated[
        int, typer.Option(help="Processes; 0: one for each core.", min=0)
    ] = 0,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Start nothing new after this time; the same command continues."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget earlier results.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report", help="Measure nothing, write the report.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="For `llm`: the surrogate, or any model with a key.")
    ] = "surrogate",
    base_url: Annotated[
        str | None, typer.Option(help="For `llm`: another provider's address.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="For `llm`: the variable with its key.")
    ] = None,
) -> None:
    """Run an experiment of the paper, continuing where an earlier run stopped, and write its
    report.
    """
    chosen = tuple(dataset for dataset in datasets.split(",") if dataset)
    unknown = [dataset for dataset in chosen if dataset not in DATASETS]
    if unknown:
        raise FwcError(
            f"unknown data set {unknown[0]!r}: choose from {', '.join(DATASETS)}"
        )
    experiments = [
        load_experiment(each) for each in (NAMES if name == "all" else (name,))
    ]
    err = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = out or (Path(temporary) if quick else RESULTS / "paper")
        options = Options(
            quick=quick,
            runs=QUICK_RUNS if quick else runs,
            datasets=chosen,
            data_dir=str(data_dir) if data_dir else None,
            model=model,
            model_options={
                k: v
                for k, v in (("base_url", base_url), ("api_key_env", api_key_env))
                if v
            },
            runs_dir=None if model == "surrogate" else str(folder / "llm-runs"),
        )
        if fresh:
            forget(experiments, options, folder)
        for experiment in experiments:
            text = run(
                experiment,
                options,
                folder,
                jobs or count_threads(),
                minutes,
                report_only,
                err,
            )
            if folder == Path(temporary):
                print(text)
            else:
                err.print(f"{experiment.name}: {folder / experiment.name}.md")


def forget(experiments: Sequence[Experiment], options: Options, folder: Path) -> None:
    """Delete earlier results, after a check that all tables are there; `FwcError` if one is not."""
    cells = [cell for experiment in experiments for cell in experiment.plan(options)]
    for dataset in {cell["dataset"] for cell in cells if "dataset" in cell}:
        _ = load_task(dataset, options.data_dir).table
    for experiment in experiments:
        for suffix in ("csv", "json"):
            (folder / f"{experiment.name}.{suffix}").unlink(missing_ok=True)


def run(
    experiment: Experiment,
    options: Options,
    folder: Path,
    jobs: int,
    minutes: float | None,
    report_only: bool,
    console: Console,
) -> str:
    """Measure what is missing, then write `NAME.csv`, `.md`, `.json` and the figures into
    `folder`.
    """
    ledger = Ledger(folder / f"{experiment.name}.csv", experiment)
    start = time.monotonic()
    used = _processor_seconds()
    try:
        seconds = 0.0 if report_only else None if minutes is None else 60 * minutes
        run_cells(
            experiment, options, ledger, 1 if options.quick else jobs, seconds, console
        )
    finally:
        done = sum(map(ledger.has, cells := experiment.plan(options)))
        planned = len(cells)
        frame = ledger.frame()
        simulated = "simulated" in frame and bool((frame["simulated"] == "yes").any())
        path = folder / f"{experiment.name}.json"
        spent = {
            "seconds": time.monotonic() - start,
            "cpu_seconds": _processor_seconds() - used,
        }
        record = _record(path, options, done, planned, spent, simulated)
    if len(frame):
        body = experiment.report(frame, folder)
    else:
        body = "Nothing measured yet.\n"
    text = f"# {experiment.title}\n\n{_provenance(experiment, options, record)}\n{body}"
    (folder / f"{experiment.name}.md").write_text(text, encoding="utf-8")
    return text


def _provenance(
    experiment: Experiment, options: Options, record: dict[str, Any]
) -> str:
    if record["cells_done"] == record["cells_planned"]:
        state = "complete"
    else:
        state = "**NOT COMPLETE**"
    minutes = record["seconds"] / 60
    own = record["cpu_seconds"] / 60
    lines = [
        f"`{record['command']}`: {record['cells_done']:,} of {record['cells_planned']:,} cells "
        f"measured, "
        f"{state}; {minutes:.1f} minutes ({own:.1f} of processor time) on {record['machine']}."
    ]
    if options.quick:
        lines.append(
            "Two runs on small parts: these numbers show only that everything works."
        )
    return "\n\n".join(lines) + "\n"


def _record(
    path: Path,
    options: Options,
    done: int,
    planned: int,
    spent: dict[str, float],
    simulated: bool,
) -> dict[str, Any]:
    """Command, machine and versions, with the time of all sittings; neither host names nor
    paths.
    """
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
    else:
        before = {}
    record = {
        "command": " ".join(["python -m evals.paper", *_lasting(sys.argv[1:])]),
        "simulated": simulated,
        "cells_done": done,
        "cells_planned": planned,
        **{
            name: round(seconds + before.get(name, 0), 1)
            for name, seconds in spent.items()
        },
        "machine": describe_machine(*_LIBRARIES),
        "runs": options.runs,
    }
    path.write_text(
        json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return record


def _processor_seconds() -> float:
    """Of this process and of those it started, once they have ended: what a shared machine
    hardly changes.
    """
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _lasting(words: list[str]) -> list[str]:
    """The command without options that concern one machine (folders) or one sitting (time,
    --fresh).
    """
    kept = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.partition("=")[0] in ("--out", "--data-dir", "--minutes", "--jobs"):
            skip = "=" not in word
        elif word not in ("--report", "--fresh"):
            kept.append(word)
    return kept


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except FwcError as error:
        print(f"evals.paper: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
