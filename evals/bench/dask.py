"""A table of Dask on a cluster of this machine: what travels in a reading, and what it costs.

    python -m evals.bench.dask             # a minute: 400,000 rows
    python -m evals.bench.dask --full      # a million rows; records the results

The same blocks are fitted in this process without Dask, read from memory maps, and from arrays that the
workers of a cluster hold (one process and one thread each, over loopback). What workers send is what they
count themselves, by key: the work of a reading (points, prices, how rows are read), what tasks found, and
rows, which should stay where they are. CPU seconds are those of all processes, from one reading's end to the
next one's, so that solving the inner problem and moving the points are in them.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent.parent / "results"
M, P = 250, 25
WORKERS = ("1", "2", "4")
CHUNK = 100_000  # rows of a partition
ESTIMATE = "work 50 kB; histograms 6–13 MB a worker; rows in doubt about 6 MB (for 20 million rows)"


def chunk(seed: int) -> np.ndarray:
    """A partition: features, outcome and level side by side."""
    from evals.synthetic import synthetic

    return np.column_stack(synthetic(CHUNK, P, seed=seed)).astype(np.float32)


def fit(table: Any, sample: int, passes: int, say: Callable[[str], None] | None = None) -> Any:
    from fwc_llm.coreset import FairCoreset

    options: dict[str, Any] = {"sample": sample, "max_passes": passes, "random_state": 0, "n_jobs": 1}
    return FairCoreset(M, **options).fit(*table, progress=say)


class Meter:
    """What all processes have used at the end of every reading."""

    def __init__(self, n: int, client: Any = None) -> None:
        self.client = client
        self.last = ("100%", f": {n // CHUNK} blocks")  # how the last words of a reading end
        self.ends: list[dict[str, Any]] = []

    def __call__(self, words: str) -> None:
        """Progress of a fit."""
        if words.endswith(self.last):
            self.ends.append({"what": words.partition(":")[0]} | self.now())

    def now(self) -> dict[str, Any]:
        """CPU seconds, and bytes sent by workers to workers and to others, by what they were."""
        used: dict[str, Any] = {"client": time.process_time(), "workers": 0.0, "between": {}, "out": {}}
        if self.client is not None:
            used["workers"] = sum(self.client.run(time.process_time).values())
            for sent in self.client.run(sent_bytes).values():
                for way, kinds in sent.items():
                    for kind, size in kinds.items():
                        used[way][kind] = used[way].get(kind, 0) + size
        return used

    def readings(self) -> list[dict[str, Any]]:
        """What each reading took; the first end is the survey's."""
        found = []
        for before, after in zip(self.ends, self.ends[1:], strict=False):
            own = {"what": after["what"]} | {who: after[who] - before[who] for who in ("client", "workers")}
            for way in ("between", "out"):
                own[way] = {kind: size - before[way].get(kind, 0) for kind, size in after[way].items()}
            found.append(own)
        return found[1:]  # the sample is fitted within the first


def sent_bytes(dask_worker: Any) -> dict[str, dict[str, int]]:
    """What a worker has sent, by its log: bytes on the wire, to other workers and to all others."""
    found: dict[str, dict[str, int]] = {"between": {}, "out": {}}
    for entry in dask_worker.transfer_outgoing_log:
        kinds = {kind_of(key) for key in entry["keys"]}
        kind = kinds.pop() if len(kinds) == 1 else "several"
        way = "between" if entry["who"] and entry["who"].startswith("tcp") else "out"
        found[way][kind] = found[way].get(kind, 0) + int(entry["compressed"] or entry["total"])
    return found


def kind_of(key: Any) -> str:
    """What a key of the graph stands for."""
    name = str(key[0] if isinstance(key, tuple) else key)
    if not name.startswith("fwc-llm-"):
        return "rows"
    return "work" if name.endswith("-work") else "found"


class Blocks:
    """The partitions as blocks of memory maps."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder, self.n = folder, n
        shapes = {"X": ((n, P), np.float32), "y": ((n,), np.int8), "d": ((n,), np.int8)}
        files = {
            name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape)
            for name, (shape, dtype) in shapes.items()
        }
        for k, low in enumerate(range(0, n, CHUNK)):
            rows = chunk(k)
            for name, part in (("X", rows[:, :P]), ("y", rows[:, P]), ("d", rows[:, P + 1])):
                files[name][low : low + CHUNK] = part
        for file in files.values():
            file.flush()

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        maps = [np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "d")]
        for low in range(0, self.n, CHUNK):
            yield tuple(np.array(one[low : low + CHUNK]) for one in maps)


def in_this_process(n: int, sample: int, passes: int) -> dict[str, Any]:
    """The fit of the same blocks without Dask."""
    meter = Meter(n)
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit((Blocks(Path(folder), n),), sample, passes, meter)
    return summary(fitted, meter, n)


def held(n: int) -> list[Any]:
    """The same table, held by the workers."""
    import dask
    import dask.array as da
    import distributed

    parts = [dask.delayed(chunk)(k) for k in range(n // CHUNK)]
    whole = da.concatenate([da.from_delayed(part, (CHUNK, P + 2), np.float32) for part in parts])
    rows = whole[:, :P].map_blocks(np.ascontiguousarray)
    own = dask.persist(rows, whole[:, P].astype(np.int8), whole[:, P + 1].astype(np.int8))
    distributed.wait(own)
    return list(own)


def on_workers(workers: int, n: int, sample: int, passes: int) -> dict[str, Any]:
    """The fit of arrays that a cluster's workers hold."""
    import dask
    import distributed

    quiet: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": "CRITICAL", "memory_limit": None}
    with (
        dask.config.set({"distributed.admin.low-level-log-length": 100_000}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", **quiet
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        fit(held(2 * workers * CHUNK), 20_000, 4)  # each worker loads what is timed
        meter = Meter(n, client)
        fitted = fit(held(n), sample, passes, meter)
    return summary(fitted, meter, n)


def summary(fitted: Any, meter: Meter, n: int) -> dict[str, Any]:
    readings = meter.readings()
    millions = len(readings) * n / 1e6
    return {
        "objective": fitted.objective_,
        "gap": abs(fitted.objective_ - fitted.lower_bound_) / fitted.objective_,
        "violation": fitted.violation_,
        "cpu": {
            who: sum(one[who] for one in readings) / millions if readings else math.nan
            for who in ("client", "workers")
        },
        "readings": readings,
    }


def measure(n: int, sample: int, passes: int) -> dict[str, Any]:
    from evals.bench.solver import describe_machine

    found: dict[str, Any] = {"machine": describe_machine(), "rows": n, "sample": sample, "passes": passes}
    in_this_process(2 * CHUNK, 20_000, 4)  # compiles what is timed
    found["here"] = in_this_process(n, sample, passes)
    print(f"here: {found['here']['cpu']} CPU s a million rows and reading", flush=True)
    for workers in WORKERS:
        point = found[workers] = on_workers(int(workers), n, sample, passes)
        print(f"{workers} workers: {point['cpu']}", flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    same = all(found[who]["objective"] == found["here"]["objective"] for who in WORKERS)
    lines = [
        "# Dask",
        "",
        f"`{found['command']}` on {found['machine']}",
        "",
        f"{found['rows']:,} rows of {P} float32 columns in partitions of {CHUNK:,}, m = {M}, a sample of "
        f"{found['sample']:,} rows, at most {found['passes']} readings. Workers are processes of this "
        f"machine with one thread each, which share its {os.cpu_count()} cores with the scheduler and the "
        "client: what travels is that of any cluster of as many workers; elapsed times are not, and are not "
        "shown.",
        "",
        f"The objective is {'the same to the last bit' if same else 'NOT THE SAME'} in this process and on "
        f"workers; the certificate's gap is {found['2']['gap']:.0e}, the violation "
        f"{found['2']['violation']:.6f}.",
        "",
        "| CPU s a million rows and reading | this process | workers | all |",
        "|---|---:|---:|---:|",
    ]
    rows = {
        "here": "without Dask, one thread",
        **{who: f"{who} worker{'s' * (who != '1')}" for who in WORKERS},
    }
    for who, words in rows.items():
        cpu = found[who]["cpu"]
        lines.append(f"| {words} | {cpu['client']:.2f} | {cpu['workers']:.2f} | {sum(cpu.values()):.2f} |")
    lines += [
        "",
        f"What workers send in a reading, in MB on the wire. An estimate had been: {ESTIMATE}.",
        "",
        "| workers | reading | to each other: work | found | rows | to the client: found |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    for who in WORKERS:
        for one in found[who]["readings"]:
            between, out = one["between"], one["out"]
            numbers = [between.get(kind, 0) for kind in ("work", "found", "rows")] + [sum(out.values())]
            shown = " | ".join(f"{number / 1e6:.2f}" for number in numbers)
            lines.append(f"| {who} | {one['what']} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="a million rows; record the results")
    full = parser.parse_args().full
    found = measure(*((1_000_000, 100_000, 6) if full else (400_000, 50_000, 4)))
    found["command"] = "python -m evals.bench.dask" + (" --full" if full else "")
    if full:
        (RESULTS / "dask.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "dask.md").write_text(report(found), encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
