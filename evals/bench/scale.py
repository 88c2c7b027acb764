"""How far a fit of a table on disk goes: time, memory and certificate by the number of rows.

    python -m evals.bench.scale                    # minutes: a million and two million rows
    python -m evals.bench.scale --rows 50000000    # 5.4 GB of disk

Every fit runs in a process of its own, after a small one has compiled what it runs, and reads its
table from files that the benchmark writes first. Memory is the peak of the whole process's resident
memory, libraries included. What is measured is put into the recorded results with --record. Linux
only.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evals.bench.memory import resident
from evals.record import RESULTS, command_line, describe_machine, markdown, write
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset

M = 250
P = 25
# rows written at once: a file of Parquet holds so many, in row groups of a quarter
PART = 1_000_000
KIND = ("n", "support")


def parts(n: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The synthetic table, part by part."""
    for seed, low in enumerate(range(0, n, PART)):
        yield synthetic(min(PART, n - low), P, seed=seed)


def write_parquet(n: int, folder: Path) -> None:
    """rows-00.parquet and so on: columns x0 … x24, y, d."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, (features, outcome, sensitive) in enumerate(parts(n)):
        columns = {f"x{k}": features[:, k] for k in range(P)}
        table = pa.table(
            {**columns, "y": outcome.astype(np.int8), "d": sensitive.astype(np.int8)}
        )
        pq.write_table(
            table,
            folder / f"rows-{number:02}.parquet",
            row_group_size=PART // 4,
            compression=None,
        )


def measure_here(folder: str, support: str) -> dict[str, float]:
    """One fit in this process."""
    ends = {"": 0.0}
    start = time.perf_counter()
    used = time.process_time()

    def say(words: str) -> None:
        ends[words.partition(":")[0]] = time.perf_counter() - start

    model = FairCoreset(M, epsilon=0.01, support=support, random_state=0)
    fitted = model.fit(f"{folder}/rows-*.parquet", "y", "d", progress=say)
    return {
        "elapsed": time.perf_counter() - start,
        "cpu": time.process_time() - used,
        "peak": float(resident("VmHWM")),
        "passes": float(sum(words.startswith("pass") for words in ends)),
        "objective": float(fitted.objective_),
        "gap": float(fitted.objective_ - fitted.lower_bound_),
        "excess": float(fitted.violation_ - 0.01),
    }


def measure(n: int, support: str, root: Path) -> dict[str, Any]:
    """One point, in a process of its own; its files are removed afterwards."""
    folder = root / str(n)
    folder.mkdir()
    write_parquet(n, folder)
    point = {"folder": str(folder), "support": support}
    command = [sys.executable, "-m", "evals.bench.scale", "--point", json.dumps(point)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(folder)
    found = {"n": n, "support": support, **json.loads(done.stdout.splitlines()[-1])}
    print(found, flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    head = [
        "rows",
        "support",
        "elapsed, s",
        "CPU, s",
        "passes",
        "peak, GB",
        "objective",
        "gap",
    ]
    lines = [
        [
            f"{p['n']:,}",
            p["support"],
            f"{p['elapsed']:.1f}",
            f"{p['cpu']:.1f}",
            f"{p['passes'] or 1:.0f}",
            f"{p['peak'] / 1e9:.2f}",
            f"{p['objective']:.5f}",
            f"{p['gap']:.0e}",
            f"{p['excess']:.0e}",
        ]
        for p in found["points"]
    ]
    return f"""# Scale

`python -m evals.bench.scale --rows N --record` on {found["machine"]}

The synthetic table of the paper's appendix in Parquet files: {P} float32 columns, G = 4 cells, m = {M}, the \
default call. Memory is the peak of the whole process, libraries included. A table within the sample is read \
once and solved in memory. Excess: the violation less ε.

{markdown([*head, "excess"], lines)}"""


def record(points: list[dict[str, Any]], machine: str) -> None:
    """Put the points into the recorded results, in the place of earlier ones of the same kind."""
    path = RESULTS / "scale.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))["points"]
    else:
        kept = []
    every = {tuple(p[key] for key in KIND): p for p in [*kept, *points]}
    found = {
        "machine": machine,
        "points": sorted(every.values(), key=lambda p: (p["support"], p["n"])),
    }
    write("scale", found, report(found))


def main() -> None:
    """Measure and print; record with --record."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[1_000_000, 2_000_000],
        help="numbers of rows",
    )
    parser.add_argument("--support", choices=["free", "rows"], default="free")
    parser.add_argument(
        "--record", action="store_true", help="put what is measured into the results"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where the tables are written (default: a temporary one)",
    )
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure_here(**json.loads(arguments.point))))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measure(600_000, arguments.support, Path(folder))  # compiles
        points = [measure(n, arguments.support, Path(folder)) for n in arguments.rows]
    machine = describe_machine()
    if arguments.record:
        record(points, machine)
    print(report({"machine": machine, "points": points}))


if __name__ == "__main__":
    main()
