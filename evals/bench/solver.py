"""The speed of the solver against its peers in the same run.

    python -m evals.bench.solver            # minutes: up to n = 100,000
    python -m evals.bench.solver --full     # n = 200,000 and 1,000,000 too

Results, with the machine, go to `evals/results/solver.md` and `solver.json`. Every peer runs on the same
data in the same process; the ratio is our time over theirs.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset, FairWASP
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.threads import Threads, count_threads
from fwc_llm.coreset.warm_up import PROBLEMS, get_ready

RESULTS = Path(__file__).parent.parent / "results"
M, P, ITERATIONS = 250, 25, 300
CALLS: dict[str, dict[str, Any]] = {"plain": {"init": "random", "progressive": False}, "default": {}}
GOALS = {  # ratio to scikit-learn's KMeans, plain and default; for n = 1,000 seconds
    1_000: (0.02, 1.0),  # the default starts three times, and swaps
    10_000: (2.0, 2.0),
    30_000: (1.2, 1.0),
    100_000: (0.8, 0.3),
    200_000: (0.7, 0.25),
    1_000_000: (0.4, 0.1),
}
SMALL, REPEATS = 30_000, 5  # up to so many rows the best of some runs counts, of ours and of the peer's


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the run returned."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def describe_machine() -> str:
    """Processor, cores and the versions that matter."""
    from importlib.metadata import version

    model = platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text()
        model = next(line[13:].strip() for line in text.splitlines() if line.startswith("model name"))
        model += f" with{'' if 'avx512f' in text else 'out'} AVX-512"
    except (OSError, StopIteration):
        pass
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    return f"{count_threads()} cores of {model}, Python {platform.python_version()}, {versions}"


def whole_runs(sizes: list[int]) -> list[dict[str, Any]]:
    """Fits, plain and by the default call, against scikit-learn's KMeans with the same iterations."""
    from sklearn.cluster import KMeans

    for name in PROBLEMS:
        get_ready(name)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        table = synthetic(n, P)
        peer = KMeans(M, init="random", n_init=1, max_iter=ITERATIONS, tol=0, random_state=0)
        repeats = REPEATS if n <= SMALL else 1
        theirs, kmeans = min((timed(partial(peer.fit, table.features)) for _ in range(repeats)), key=_seconds)
        faiss_seconds = faiss_kmeans(table.features)
        for name, goal in zip(CALLS, GOALS[n], strict=True):
            own = FairCoreset(M, max_iter=ITERATIONS, random_state=0, **CALLS[name])
            seconds, inner, ours = min((_timed_fit(own, table) for _ in range(repeats)), key=_seconds)
            rows.append(
                {
                    "n": n,
                    "call": name,
                    "seconds": seconds,
                    "iterations": ours.n_iter_,
                    "kmeans_seconds": theirs,
                    "kmeans_iterations": int(kmeans.n_iter_),
                    "faiss_seconds": faiss_seconds,
                    "ratio": seconds / theirs,
                    "goal": goal,
                    "met": bool((seconds if n == 1000 else seconds / theirs) <= goal),
                    "inner_seconds": inner,
                    "objective": ours.objective_,
                    "gap": ours.objective_ - ours.lower_bound_,
                    "violation": ours.violation_,
                }
            )
            print(rows[-1], flush=True)
        rows[-1]["objective_over_plain"] = rows[-1]["objective"] / rows[-2]["objective"] - 1
    return rows


def faiss_kmeans(features: np.ndarray) -> float | None:
    """Seconds of faiss's k-means on all rows, 50 iterations (squared L2); None where it is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    peer = faiss.Kmeans(P, M, niter=50, seed=0, max_points_per_centroid=len(features))
    return timed(partial(peer.train, np.ascontiguousarray(features, np.float32)))[0]


def _seconds(run: tuple[Any, ...]) -> float:
    return float(run[0])


def _timed_fit(own: FairCoreset, table: Any) -> tuple[float, float, FairCoreset]:
    """Seconds of a fit, seconds of its inner problems of all rows, and what was fitted."""
    with timed_inner(len(table.features)) as inner:
        seconds, ours = timed(partial(own.fit, *table))
    return seconds, sum(inner), ours


@contextmanager
def timed_inner(n: int) -> Iterator[list[float]]:
    """Record the seconds of every inner problem of all n rows that is solved in the block."""
    plain, seconds = CompiledSteps.transport, []

    def transport(self: CompiledSteps) -> Any:
        spent, found = timed(partial(plain, self))
        if self.problem.table.n == n:
            seconds.append(spent)
        return found

    CompiledSteps.transport = transport  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        CompiledSteps.transport = plain  # type: ignore[method-assign]


def assignment_pass(n: int) -> dict[str, Any]:
    """One pass "nearest representative of each cell" without bounds, against a plain numba loop and faiss."""
    import numba

    table = synthetic(n, P)
    problem = FairCoreset(M).problem(*table)
    points = np.random.default_rng(0).permutation(table.features)[:M].astype(float)
    steps = CompiledSteps(problem, Threads())

    @numba.njit(parallel=True, fastmath=True)
    def plain(x: Any, c: Any, best: Any, label: Any) -> None:
        for i in numba.prange(len(x)):
            nearest = np.float32(np.inf)
            for j in range(len(c)):
                total = np.float32(0)
                for k in range(x.shape[1]):
                    total += abs(x[i, k] - c[j, k])
                if total < nearest:
                    nearest = total
                    label[i] = j
            best[i] = nearest

    centres, best = points.astype(np.float32), np.empty(n, np.float32)
    label = np.empty(n, np.int32)
    reps, _ = steps._place(points)
    plain(table.features[:10], centres, best[:10], label[:10])
    steps._assign(steps._costs, reps, True, np.inf)
    ours = min(timed(lambda: steps._assign(steps._costs, reps, True, np.inf))[0] for _ in range(5))
    loop = min(timed(lambda: plain(table.features, centres, best, label))[0] for _ in range(3))
    found: dict[str, Any] = {"n": n, "seconds": ours, "plain_numba_seconds": loop, "ratio": ours / loop}
    try:
        import faiss
    except ImportError:
        found["faiss"] = "not installed"
    else:
        index = faiss.IndexFlat(P, faiss.METRIC_L1)
        index.add(centres)
        found["faiss_seconds"] = timed(lambda: index.search(table.features, 1))[0]
    print(found, flush=True)
    return found


def other_calls(full: bool) -> list[dict[str, Any]]:
    """Real rows by default, and FairWASP: seconds of a second fit, the first having compiled."""
    calls: list[tuple[str, int, Callable[..., Any]]] = [
        (f'FairCoreset({M}, support="rows")', n, FairCoreset(M, support="rows", random_state=0).fit)
        for n in (10_000, 100_000, *([1_000_000] if full else []))
    ]
    calls += [("FairWASP()", n, FairWASP().fit) for n in (20_000, 100_000)]
    FairCoreset(M, support="rows", random_state=0).fit(*synthetic(20_000, P))
    FairWASP().fit(*synthetic(5_000, P))
    rows = []
    for name, n, fit in calls:
        seconds, fitted = timed(partial(fit, *synthetic(n, P)))
        gap = fitted.objective_ - fitted.lower_bound_
        rows.append({"call": name, "n": n, "seconds": seconds, "objective": fitted.objective_, "gap": gap})
        print(rows[-1], flush=True)
    return rows


def growth(n: int) -> list[dict[str, Any]]:
    """Seconds per iteration, mean of the first twenty, as one of n, m, p and G grows."""
    rows = []
    base = {"n": n, "m": M, "p": P, "G": 4}
    for name, values in (
        ("n", [n // 4, n // 2, n, 2 * n]),
        ("m", [64, 128, 250, 500]),
        ("p", [5, 10, 25, 50]),
        ("G", [4, 8, 16, 32]),
    ):
        for value in values:
            size = {**base, name: value}
            table = synthetic(size["n"], size["p"], levels=size["G"] // 2)
            run = FairCoreset(size["m"], init="random", max_iter=20, progressive=False, random_state=0)
            FairCoreset(size["m"], init="random", max_iter=1, random_state=0).fit(*table)  # compiles
            seconds, fitted = timed(partial(run.fit, *table))
            rows.append({"grows": name, **size, "seconds_per_iteration": seconds / (fitted.n_iter_ + 1)})
            print(rows[-1], flush=True)
    return rows


def memory(n: int) -> dict[str, Any]:
    """Peak memory of a process that fits n rows, less that before the data, over the data's size (Linux)."""
    code = f"""
from pathlib import Path
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
def read(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
FairCoreset({M}, init="random", max_iter=2, random_state=0).fit(*synthetic(20_000, {P}))
before = read("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
table = synthetic({n}, {P})
data = table.features.nbytes
FairCoreset({M}, init="random", max_iter=5, progressive=False, random_state=0).fit(*table)
print((read("VmHWM") - before) / data)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {"n": n, "peak_over_data": float(done.stdout.split()[-1])}
    print(found, flush=True)
    return found


def adult() -> dict[str, Any] | None:
    """The default call on Adult in a separate process, against the best objective of a long search."""
    code = """
from fwc_llm import load_task
from fwc_llm.coreset import FairCoreset
task = load_task("adult")
pool = task.pool()
fitted = FairCoreset(16, support="rows", slots="balanced-positive", random_state={seed})
fitted.fit(pool[[c.name for c in task.features]], task.labels(pool), task.sensitive(pool))
print(fitted.objective_)
"""
    best = json.loads((RESULTS / "adult-search.json").read_text())["objective"]
    runs = []
    for seed in range(10):
        command = [sys.executable, "-c", code.format(seed=seed)]
        seconds, done = timed(partial(subprocess.run, command, capture_output=True, text=True, check=False))
        if done.returncode:
            print("Adult left out:", done.stderr.strip().splitlines()[-1])
            return None
        objective = float(done.stdout)
        above = objective / best - 1
        runs.append({"seed": seed, "seconds": seconds, "objective": objective, "above_best": above})
        print(runs[-1], flush=True)
    return {"best_known": best, "runs": runs}


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = ["# Solver", "", f"`{found['command']}` on {found['machine']}", "", "## Whole runs", ""]
    lines += [
        f"m = {M}, p = {P}, L1, at most {ITERATIONS} iterations; KMeans: scikit-learn, random start, tol 0. "
        f'Plain: init="random", progressive=False. Up to n = {SMALL:,} the best of {REPEATS} runs. The goal '
        "is a ratio (for n = 1,000, seconds). Inner: the share of the inner problem of all rows.",
        "",
        "| n | call | s | inner | iterations | KMeans s | ratio | goal | faiss s | objective | to plain | "
        "violation |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in found["whole_runs"]:
        over = f"{100 * r['objective_over_plain']:+.3f} %" if "objective_over_plain" in r else ""
        faiss = format(r["faiss_seconds"], ".2f") if r.get("faiss_seconds") else "–"
        goal = f"{r['goal']}{' s' if r['n'] == 1000 else ''}{'' if r['met'] else ' missed'}"
        lines.append(
            f"| {r['n']:,} | {r['call']} | {r['seconds']:.3f} | "
            f"{100 * r['inner_seconds'] / r['seconds']:.0f} % | {r['iterations']} | "
            f"{r['kmeans_seconds']:.3f} | {r['ratio']:.2f} | {goal} | {faiss} | "
            f"{r['objective']:.5f} | {over} | {r['violation']:.6f} |"
        )
    lines += ["", "## Other calls", "", "| call | n | s | objective | gap |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| `{r['call']}` | {r['n']:,} | {r['seconds']:.2f} | {r['objective']:.5f} | {r['gap']:.1e} |"
        for r in found["other_calls"]
    ]
    one = found["assignment"]
    lines += ["", "## One assignment pass", "", f"n = {one['n']:,}: {1e3 * one['seconds']:.0f} ms; "]
    lines[-1] += (
        f"plain numba loop {1e3 * one['plain_numba_seconds']:.0f} ms; ratio {one['ratio']:.2f}; faiss "
    )
    faiss = one.get("faiss_seconds")
    lines[-1] += f"{1e3 * faiss:.0f} ms; ratio {one['seconds'] / faiss:.2f}" if faiss else "not installed"
    lines[-1] += ". The peers find the nearest of all, ours the two nearest of every cell."
    lines += [
        "",
        "## Growth",
        "",
        "| grows | n | m | p | G | ms an iteration |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r['grows']} | {r['n']:,} | {r['m']} | {r['p']} | {r['G']} | "
        f"{1e3 * r['seconds_per_iteration']:.1f} |"
        for r in found["growth"]
    ]
    lines += [
        "",
        "## Memory",
        "",
        f"n = {found['memory']['n']:,}: peak {found['memory']['peak_over_data']:.2f}",
    ]
    lines[-1] += " times the float32 data, the data included."
    if found["adult"]:
        lines += ["", "## Adult, m = 16: the default call as a whole process", ""]
        lines += [f"Best known objective {found['adult']['best_known']:.5f} (`adult-search.json`).", ""]
        lines += ["| seed | s | objective | above best |", "|---:|---:|---:|---:|"]
        lines += [
            f"| {r['seed']} | {r['seconds']:.2f} | {r['objective']:.5f} | {100 * r['above_best']:.2f} % |"
            for r in found["adult"]["runs"]
        ]
    return "\n".join(lines) + "\n"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds an iteration against n, m, p and G, one panel each; nothing without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True)
    for axis, name in zip(axes, ("n", "m", "p", "G"), strict=True):
        mine = [row for row in rows if row["grows"] == name]
        axis.loglog([r[name] for r in mine], [1e3 * r["seconds_per_iteration"] for r in mine], "o-")
        axis.set_xlabel(name)
    axes[0].set_ylabel("ms an iteration")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks of the solver.")
    parser.add_argument("--full", action="store_true", help="n = 200,000 and 1,000,000 too")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = [n for n in GOALS if n <= 100_000 or arguments.full]
    grown = growth(100_000)
    found = {
        "command": "python -m evals.bench.solver" + (" --full" if arguments.full else ""),
        "machine": describe_machine(),
        "adult": adult(),
        "whole_runs": whole_runs(sizes),
        "other_calls": other_calls(arguments.full),
        "assignment": assignment_pass(sizes[-1]),
        "growth": grown,
        "memory": memory(sizes[-1]),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "solver.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "solver.md").write_text(report(found))
    plot(grown, RESULTS / "solver-growth.svg")


if __name__ == "__main__":
    main()
