"""How far the streamed solver goes: time, memory and certificate by the number of rows on disk.

    python -m evals.bench.scale             # minutes: up to two million rows
    python -m evals.bench.scale --full      # up to 50 million rows, 11 GB of disk; records the results

Every fit runs in a process of its own, after a small one has compiled what it runs, and reads its table from
files that the benchmark writes first. CPU seconds a million rows and pass are those of the survey and the
passes, without the fit of the sample, for which a fit of the sample's size alone is measured. Memory is the
peak of the whole process's resident memory, libraries included. Linux only.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evals.synthetic import synthetic

RESULTS = Path(__file__).resolve().parent.parent / "results"
M, P = 250, 25
PART = 1_000_000  # rows written at once: a file of Parquet holds so many, in row groups of a quarter
SAMPLE = 400_000
READINGS = 8  # at most, after the survey: more of them cost the same again, and gain less and less
KIND = ("n", "form", "support")
TARGETS = "at most 0.5 CPU s a million rows and pass; 50 million rows within 4 GB"


def parts(n: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The synthetic table, part by part."""
    for seed, low in enumerate(range(0, n, PART)):
        yield synthetic(min(PART, n - low), P, seed=seed)


def write_arrays(n: int, folder: Path) -> None:
    """X.npy (n, p) float32, y.npy and d.npy (n,) bytes."""
    shapes = {"X": ((n, P), np.float32), "y": ((n,), np.int8), "d": ((n,), np.int8)}
    files = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)
        for name, (shape, dtype) in shapes.items()
    }
    low = 0
    for part in parts(n):
        for file, values in zip(files.values(), part, strict=True):
            file[low : low + len(values)] = values
            file.flush()
        low += len(part[0])


def write_parquet(n: int, folder: Path) -> None:
    """rows-00.parquet and so on: columns x0 … x24, y, d."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, (features, outcome, sensitive) in enumerate(parts(n)):
        columns = {f"x{k}": features[:, k] for k in range(P)}
        table = pa.table({**columns, "y": outcome.astype(np.int8), "d": sensitive.astype(np.int8)})
        pq.write_table(
            table, folder / f"rows-{number:02}.parquet", row_group_size=PART // 4, compression=None
        )


def opened(folder: Path, form: str) -> tuple[Any, Any, Any]:
    """X, y and sensitive, as a user passes them."""
    if form == "parquet":
        return str(folder / "rows-*.parquet"), "y", "d"
    x, y, d = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "d"))
    return x, y, d


def peak() -> int:
    """Bytes of this process's peak resident memory."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure_here(folder: str, form: str, support: str) -> dict[str, float]:
    """One fit in this process."""
    from fwc_llm.coreset import FairCoreset

    table = opened(Path(folder), form)
    start, used = time.perf_counter(), time.process_time()
    fitted = FairCoreset(M, epsilon=0.01, support=support, random_state=0, max_passes=READINGS).fit(*table)
    return {
        "elapsed": time.perf_counter() - start,
        "cpu": time.process_time() - used,
        "peak": float(peak()),
        "passes": float(fitted.n_passes_ + 1),  # and the survey
        "sampled": float(fitted.history_[0]),
        "objective": float(fitted.objective_),
        "gap": float(fitted.objective_ - fitted.lower_bound_),
        "excess": float(fitted.violation_ - 0.01),
    }


def measure(n: int, form: str, support: str, root: Path) -> dict[str, Any]:
    """One point, in a process of its own; its files are removed afterwards."""
    folder = root / f"{form}-{n}"
    folder.mkdir()
    {"parquet": write_parquet, "arrays": write_arrays}[form](n, folder)
    point = {"folder": str(folder), "form": form, "support": support}
    command = [sys.executable, "-m", "evals.bench.scale", "--point", json.dumps(point)]
    load = os.getloadavg()[0]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(folder)
    found = {
        "n": n,
        "form": form,
        "support": support,
        "load": load,
        **json.loads(done.stdout.splitlines()[-1]),
    }
    print(found, flush=True)
    return found


def per_pass(point: dict[str, Any], points: list[dict[str, Any]]) -> float | None:
    """CPU seconds a million rows and pass, without the fit of a table of the sample's size; None for that."""
    alone = [p["cpu"] for p in points if [p[k] for k in KIND] == [SAMPLE, point["form"], point["support"]]]
    if point["n"] <= SAMPLE or not alone:
        return None
    return float((point["cpu"] - alone[0]) / (point["n"] / 1e6) / point["passes"])


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Scale",
        "",
        "`python -m evals.bench.scale --full`, or some of its points with `--rows N --record`, on "
        f"{found['machine']}",
        "",
        f"The synthetic table of the paper's appendix on disk: {P} columns of float32, G = 4 cells, m = {M}, "
        f"the default call with at most {READINGS} readings (`max_passes`) after the survey, all of them "
        "passes. CPU seconds a million rows and pass leave out the fit of a table of the sample's size. "
        "Memory is the peak of the whole process, libraries included. Load: of the machine in the minute "
        "before, of which writing the table is up to 1; where it is more, others worked and times are too "
        "long. Sample's points: the objective of the whole table for the representatives that the sample "
        f"gives. Up to {SAMPLE:,} rows the table is solved in memory. Targets: {TARGETS}.",
        "",
        "| rows | form | support | load | elapsed, s | CPU, s | passes | CPU s / million · pass | peak, GB "
        "| sample's points | objective | gap | violation − ε |",
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for p in found["points"]:
        rate = per_pass(p, found["points"])
        first = f"{p['sampled']:.5f}" if p["n"] > SAMPLE else "–"
        lines.append(
            f"| {p['n']:,} | {p['form']} | {p['support']} | {p['load']:.1f} | {p['elapsed']:.1f} | "
            f"{p['cpu']:.1f} | {p['passes']:.0f} | {'–' if rate is None else f'{rate:.2f}'} | "
            f"{p['peak'] / 1e9:.2f} | {first} | {p['objective']:.5f} | {p['gap']:.0e} | "
            f"{p['excess']:.0e} |"
        )
    return "\n".join(lines) + "\n"


def record(points: list[dict[str, Any]], machine: str) -> None:
    """Put the points into the recorded results, in the place of earlier ones of the same kind."""
    path = RESULTS / "scale.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["points"] if path.exists() else []
    every = {tuple(p[key] for key in KIND): p for p in [*kept, *points]}
    found = {
        "machine": machine,
        "points": sorted(every.values(), key=lambda p: (p["support"], p["form"], p["n"])),
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(report(found), encoding="utf-8")


def main() -> None:
    """Measure and print; record with --full or --record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="up to 50 million rows; record the results")
    parser.add_argument("--rows", type=int, nargs="+", help="these numbers of rows alone")
    parser.add_argument("--form", choices=["arrays", "parquet"], default="arrays", help="with --rows")
    parser.add_argument("--support", choices=["free", "rows"], default="free", help="with --rows")
    parser.add_argument(
        "--record", action="store_true", help="put what is measured into the recorded results"
    )
    parser.add_argument("--folder", type=Path, help="where the tables are written (default: a temporary one)")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        print(json.dumps(measure_here(**json.loads(arguments.point))))
        return
    from evals.bench.solver import describe_machine

    sizes = [SAMPLE, 1_000_000, 2_000_000]
    if arguments.full:
        sizes = [10_000, 100_000, SAMPLE, 1_000_000, 10_000_000, 50_000_000]
    wanted = [(n, arguments.form, arguments.support) for n in arguments.rows or []] or [
        *((n, "arrays", "free") for n in sizes),
        *((n, "parquet", "free") for n in sizes if n >= SAMPLE),
        *((n, "arrays", "rows") for n in (SAMPLE, 1_000_000)),
    ]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measure(SAMPLE + 50_000, "arrays", wanted[0][2], Path(folder))  # compiles
        points = [measure(*point, root=Path(folder)) for point in wanted]
    machine = describe_machine()
    if arguments.full or arguments.record:
        record(points, machine)
    print(report({"machine": machine, "points": points}))


if __name__ == "__main__":
    main()
