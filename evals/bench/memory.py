"""The memory of a fit: its peak above the loaded table, in units of that table as float32 numbers.

    python -m evals.bench.memory            # a minute: n = 100,000
    python -m evals.bench.memory --full     # n = 1,000,000 too; records the results

Every fit runs in a process of its own, after a small one has compiled what it runs. What is counted
is the peak of the process's resident memory during the fit, less what is resident before it:
libraries, compiled code and the table as the caller holds it, with labels. The unit is 4 bytes for
each of the table's n × p entries. Linux only.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from evals.record import command_line, describe_machine, markdown, write
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset

M = 250
P = 25
FORMS = ("float32", "float64")
SUPPORTS = ("free", "rows")
TARGET = 3.0  # units, for G up to 16


def make_table(n: int, cells: int, form: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """n rows of `P` columns in this type, outcomes and levels."""
    outcomes = 2 if cells < 64 else 4
    features, outcome, sensitive = synthetic(
        n, P, levels=cells // outcomes, outcomes=outcomes
    )
    return features.astype(form, copy=False), outcome, sensitive


def resident(name: str) -> int:
    """Bytes of this process's resident memory: now, "VmRSS", or its peak, "VmHWM"."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def measure_here(n: int, cells: int, form: str, support: str) -> float:
    """The peak of one fit in this process, in units of the float32 table."""
    options: dict[str, Any] = {"support": support, "random_state": 0}
    FairCoreset(M, **options, max_iter=2, init="random").fit(
        *make_table(20_000, cells, form)
    )
    table = make_table(n, cells, form)
    Path("/proc/self/clear_refs").write_text(
        "5", encoding="ascii"
    )  # forget the peak so far
    before = resident("VmRSS")
    FairCoreset(M, **options).fit(*table)
    return (resident("VmHWM") - before) / (4 * n * P)


def measure(n: int, cells: int, form: str, support: str) -> dict[str, Any]:
    """One point, in a process of its own."""
    point = {"n": n, "cells": cells, "form": form, "support": support}
    command = [sys.executable, "-m", "evals.bench.memory", "--point", json.dumps(point)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {**point, "units": float(done.stdout.split()[-1])}
    print(found, flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    units = {
        tuple(p[key] for key in ("n", "support", "cells", "form")): p["units"]
        for p in found["points"]
    }
    lines = [
        [
            f"{n:,}",
            support,
            cells,
            *(f"{units[n, support, cells, form]:.1f}" for form in FORMS),
        ]
        for n, support, cells in dict.fromkeys(key[:3] for key in units)
    ]
    return f"""# Memory

`{found["command"]}` on {found["machine"]}

m = {M}, p = {P}, the default call. Peak resident memory during the fit above what is resident before it \
(libraries, the caller's table and labels), in units of the table as float32 numbers.

{markdown(["n", "support", "G", *FORMS], lines)}"""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument(
        "--full", action="store_true", help="n = 1,000,000 too; record the results"
    )
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(measure_here(**json.loads(arguments.point)))
        return
    found = {
        "command": "python -m evals.bench.memory"
        + (" --full" if arguments.full else ""),
        "machine": describe_machine(),
        "points": [
            measure(n, cells, form, support)
            for n in (100_000, *([1_000_000] if arguments.full else []))
            for support in SUPPORTS
            for cells in (4, 16, 64)
            for form in FORMS
        ],
    }
    if arguments.full:
        write("memory", found, report(found))
    print(report(found))


if __name__ == "__main__":
    main()
