"""Recorded cells measured once more: does what the results say come out of the code as it is?"""

import math
import random

from rich.console import Console

from evals.paper.experiment import Experiment, Options, Row
from evals.paper.ledger import Ledger, written
from fwc_llm.errors import FwcError

_TIMES = frozenset({"seconds"})  # differ from run to run
_DIGITS, _DUST = (
    2e-5,
    1e-9,
)  # relative, for six written digits; absolute, for gaps and errors of rounding


def measure_again(
    experiment: Experiment, options: Options, ledger: Ledger, count: int, console: Console
) -> list[str]:
    """A line for every one of `count` recorded cells, drawn at random, that differs from its
    record.

    `FwcError` where nothing is recorded.
    """
    recorded = [cell for cell in experiment.plan(options) if ledger.has(cell)]
    if not recorded:
        raise FwcError(f"{ledger.path} has no cell to measure again: run the experiment first")
    found = []
    for cell in random.Random(0).sample(recorded, min(count, len(recorded))):
        wrong = _differences(experiment, ledger.rows_of(cell), experiment.measure(cell, options))
        name = ", ".join(written(cell[key]) for key in experiment.keys)
        console.print(f"{name}: {'; '.join(wrong) or 'the same'}", soft_wrap=True)
        found += [f"{name}: {each}" for each in wrong]
    return found


def _differences(
    experiment: Experiment, recorded: list[dict[str, str]], rows: list[Row]
) -> list[str]:
    if len(recorded) != len(rows):
        return [f"{len(recorded)} lines recorded, {len(rows)} now"]
    return [
        f"{name} {before[name]} recorded, {written(row.get(name))} now"
        for before, row in zip(recorded, rows, strict=True)
        for name in experiment.values
        if name not in _TIMES and not _alike(before[name], written(row.get(name)))
    ]


def _alike(before: str, now: str) -> bool:
    try:
        return math.isclose(float(before), float(now), rel_tol=_DIGITS, abs_tol=_DUST)
    except ValueError:
        return before == now
