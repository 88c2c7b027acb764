"""The speed of building prompts: rows a second with 16 fixed weighted examples, for every template set.

    python -m evals.bench.prompts [--rows 15000]

Rows are Adult's test rows as records if its data is found, else rows of the simulated census. Best of three
passes, which call `build_prompt` record by record. `python -m evals.packages` measures raw rows.
"""

import argparse
import time

from fwc_llm.cell_rules import Record
from fwc_llm.errors import FwcError
from fwc_llm.prompts import build_prompt, templates
from fwc_llm.shots.base import Example, Shots
from fwc_llm.tasks import Task, load_task


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=15000, help="rows to build prompts for")
    n = parser.parse_args().rows
    task = _task()
    rows = [task.record(row) for row in task.test().head(n).to_dict("records")]
    shots = sixteen(task)
    print(f"{len(rows):,} rows of {task.name}, {shots.m} weighted examples")
    for template in sorted(set(templates()) - {"decision"}):  # its question is asked apart
        rate = max(_pass(task, rows, shots, template) for _ in range(3))
        print(f"{template:>14}: {rate:,.0f} prompts a second")


def sixteen(task: Task) -> Shots:
    """The first sixteen rows of the pool as weighted examples."""
    examples = tuple(
        Example(str(row), {c.name: values[c.name] for c in task.shown}, values[task.outcome], 1.0 + i / 16)
        for i, (row, values) in enumerate(task.pool().head(16).to_dict("index").items())
    )
    return Shots("first", task.name, task.fingerprint, 0, examples)


def _pass(task: Task, rows: list[Record], shots: Shots, template: str) -> float:
    started = time.perf_counter()
    for row in rows:
        build_prompt(task, row, shots, template)
    return len(rows) / (time.perf_counter() - started)


def _task() -> Task:
    try:
        task = load_task("adult")
        task.test()
    except FwcError:
        task = load_task("census")
    return task


if __name__ == "__main__":
    main()
