"""Run the cells of an experiment that are not measured yet, in several processes, with a
progress bar.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from evals.paper.experiment import Cell, Experiment, Options, Row, load_experiment
from evals.paper.ledger import Ledger
from fwc_llm.coreset.threads import count_threads

Done = tuple[Cell, list[Row]]


def run_cells(
    experiment: Experiment,
    options: Options,
    ledger: Ledger,
    jobs: int,
    seconds: float | None,
    console: Console,
) -> tuple[int, int]:
    """Measure the missing cells, until all are done or `seconds` have passed: (cells done, cells
    planned).

    A cell that has begun is finished. An interruption loses nothing measured before: it is in the
    ledger.
    """
    cells = experiment.plan(options)
    missing = [cell for cell in cells if not ledger.has(cell)]
    if seconds is None:
        until = None
    else:
        until = time.monotonic() + seconds
    if experiment.threads:
        jobs = 1
    else:
        jobs = min(jobs, max(1, len(missing)))

    def more() -> bool:
        return until is None or time.monotonic() < until

    work = _one_by_one if jobs == 1 else _in_parallel
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(
            experiment.name, total=len(cells), completed=len(cells) - len(missing)
        )
        for cell, rows in work(experiment, missing, options, jobs, more):
            ledger.add(cell, rows)
            bar.advance(task)
    return sum(ledger.has(cell) for cell in cells), len(cells)


def _one_by_one(
    experiment: Experiment,
    cells: list[Cell],
    options: Options,
    jobs: int,
    more: Callable[[], bool],
) -> Iterator[Done]:
    for cell in cells:
        if not more():
            return
        yield cell, experiment.measure(cell, options)


def _in_parallel(
    experiment: Experiment,
    cells: list[Cell],
    options: Options,
    jobs: int,
    more: Callable[[], bool],
) -> Iterator[Done]:
    # Cores are divided before the workers start, so that their libraries do not use too many
    # threads.
    threads = str(max(1, count_threads() // jobs))
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, threads)
    waiting = iter(cells)
    running: dict[Future[list[Row]], Cell] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            while True:
                while (
                    len(running) < jobs
                    and more()
                    and (cell := next(waiting, None)) is not None
                ):
                    running[pool.submit(_measure, experiment.name, cell, options)] = (
                        cell
                    )
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _measure(name: str, cell: Cell, options: Options) -> list[Row]:
    return load_experiment(name).measure(cell, options)
