"""The speed of the solver against its peers in the same run, in CPU seconds of one thread.

    pip install -e '.[bench]'
    python -m evals.bench.solver            # minutes: up to n = 100,000
    python -m evals.bench.solver --full     # n = 1,000,000 too

Results, with the machine, go to `evals/results/solver.md` and `solver.json`. The peer is k-means of
faiss on all rows, 50 iterations in squared L2. It runs on the same data in the same process, in
turn with ours; the ratio is our time over its time.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.record import RESULTS, command_line, describe_machine, markdown, write
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.assignment import STALE
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.warm_up import PROBLEMS, get_ready

M = 250
P = 25
PEER_ITERATIONS = 50
CALLS: dict[str, dict[str, Any]] = {
    "plain": {"init": "random", "progressive": False},
    "default": {},
}
SIZES = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = (
    3  # the best counts, of ours and of the peer's; at 1,000,000 rows one run is made
)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what the run returned."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def whole_runs(sizes: list[int]) -> list[dict[str, Any]]:
    """Fits, plain and by the default call, beside the peer."""
    for name in PROBLEMS:
        get_ready(name)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        table = synthetic(n, P)
        repeats = REPEATS if n <= 100_000 else 1
        peer = min(faiss_kmeans(table.features) for _ in range(repeats))
        for name, settings in CALLS.items():
            own = FairCoreset(M, random_state=0, n_jobs=1, **settings)
            runs = [_timed_fit(own, table) for _ in range(repeats)]
            seconds, inner, ours = min(runs, key=_seconds)
            rows.append(
                {
                    "n": n,
                    "call": name,
                    "seconds": seconds,
                    "iterations": ours.n_iter_,
                    "faiss_seconds": peer,
                    "ratio": seconds / peer,
                    "inner_seconds": inner,
                    "objective": ours.objective_,
                    "gap": ours.objective_ - ours.lower_bound_,
                    "violation": ours.violation_,
                }
            )
            print(rows[-1], flush=True)
        rows[-1]["objective_over_plain"] = (
            rows[-1]["objective"] / rows[-2]["objective"] - 1
        )
    return rows


def faiss_kmeans(features: np.ndarray) -> float:
    """CPU seconds of faiss's k-means on all rows."""
    import faiss

    peer = faiss.Kmeans(
        P, M, niter=PEER_ITERATIONS, seed=0, max_points_per_centroid=len(features)
    )
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
    plain = Problem.transport
    seconds = []

    def transport(self: Problem, *given: Any) -> Any:
        spent, found = timed(partial(plain, self, *given))
        if self.table.n == n:
            seconds.append(spent)
        return found

    Problem.transport = transport  # type: ignore[method-assign,assignment]
    try:
        yield seconds
    finally:
        Problem.transport = plain  # type: ignore[method-assign]


def assignment_pass(n: int) -> dict[str, Any]:
    """One pass "nearest representative of each cell" without bounds, against a plain numba loop
    and faiss.
    """
    import faiss
    import numba

    table = synthetic(n, P)
    problem = FairCoreset(M).problem(*table)
    points = np.random.default_rng(0).permutation(table.features)[:M].astype(float)
    steps = CompiledSteps(problem, Threads(1))

    @numba.njit(fastmath=True)
    def plain(x: Any, c: Any, best: Any, label: Any) -> None:
        for i in range(len(x)):
            nearest = np.float32(np.inf)
            for j in range(len(c)):
                total = np.float32(0)
                for k in range(x.shape[1]):
                    total += abs(x[i, k] - c[j, k])
                if total < nearest:
                    nearest = total
                    label[i] = j
            best[i] = nearest

    centres = points.astype(np.float32)
    best = np.empty(n, np.float32)
    label = np.empty(n, np.int32)
    reps = steps._represent(points)

    def whole() -> None:
        """Find the nearest representatives of rows of which nothing is known."""
        steps.state.packed[:] = STALE
        steps.state.second[:] = 0
        steps._assign(reps, np.inf)

    plain(table.features[:10], centres, best[:10], label[:10])
    whole()
    ours = min(timed(whole)[0] for _ in range(5))
    loop = min(
        timed(lambda: plain(table.features, centres, best, label))[0] for _ in range(3)
    )
    index = faiss.IndexFlat(P, faiss.METRIC_L1)
    index.add(centres)
    found = {
        "n": n,
        "seconds": ours,
        "plain_numba_seconds": loop,
        "faiss_seconds": timed(lambda: index.search(table.features, 1))[0],
    }
    print(found, flush=True)
    return found


def other_calls(full: bool) -> list[dict[str, Any]]:
    """Real rows by default: seconds of a second fit, the first having compiled."""
    calls: list[tuple[str, int, Callable[..., Any]]] = [
        (
            f'FairCoreset({M}, support="rows")',
            n,
            FairCoreset(M, support="rows", random_state=0, n_jobs=1).fit,
        )
        for n in (10_000, 100_000, *([1_000_000] if full else []))
    ]
    FairCoreset(M, support="rows", random_state=0).fit(*synthetic(20_000, P))
    rows = []
    for name, n, fit in calls:
        seconds, fitted = timed(partial(fit, *synthetic(n, P)))
        gap = fitted.objective_ - fitted.lower_bound_
        rows.append(
            {
                "call": name,
                "n": n,
                "seconds": seconds,
                "objective": fitted.objective_,
                "gap": gap,
            }
        )
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
            settings: dict[str, Any] = {
                "init": "random",
                "random_state": 0,
                "n_jobs": 1,
            }
            run = FairCoreset(size["m"], max_iter=20, progressive=False, **settings)
            FairCoreset(size["m"], max_iter=1, **settings).fit(*table)  # compiles
            seconds, fitted = timed(partial(run.fit, *table))
            rows.append(
                {
                    "grows": name,
                    **size,
                    "seconds_per_iteration": seconds / (fitted.n_iter_ + 1),
                }
            )
            print(rows[-1], flush=True)
    return rows


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    whole = []
    for r in found["whole_runs"]:
        if "objective_over_plain" in r:
            over = f"{100 * r['objective_over_plain']:+.3f} %"
        else:
            over = ""
        whole.append(
            [
                f"{r['n']:,}",
                r["call"],
                f"{r['seconds']:.2f}",
                f"{100 * r['inner_seconds'] / r['seconds']:.0f} %",
                r["iterations"],
                f"{r['faiss_seconds']:.2f}",
                f"{r['ratio']:.2f}",
                f"{r['objective']:.5f}",
                over,
                f"{r['violation']:.6f}",
            ]
        )
    head = ["n", "call", "s", "inner", "iterations", "faiss s", "ratio", "objective"]
    others = [
        [
            f"`{r['call']}`",
            f"{r['n']:,}",
            f"{r['seconds']:.2f}",
            f"{r['objective']:.5f}",
            f"{r['gap']:.1e}",
        ]
        for r in found["other_calls"]
    ]
    growth = [
        [
            r["grows"],
            f"{r['n']:,}",
            r["m"],
            r["p"],
            r["G"],
            f"{1e3 * r['seconds_per_iteration']:.1f}",
        ]
        for r in found["growth"]
    ]
    one = found["assignment"]
    ours, loop, faiss = one["seconds"], one["plain_numba_seconds"], one["faiss_seconds"]
    return f"""# Solver

`{found["command"]}` on {found["machine"]}. CPU seconds of one thread, ours and the peers'.

## Whole runs

m = {M}, p = {P}, L1. Peer: k-means of faiss on all rows, {PEER_ITERATIONS} iterations, squared L2. Plain: \
init="random", progressive=False. Up to n = 100,000 the best of {REPEATS} runs. Inner: the share of the \
inner problem of all rows.

{markdown([*head, "to plain", "violation"], whole)}
## Other calls

{markdown(["call", "n", "s", "objective", "gap"], others)}
## One assignment pass

n = {one["n"]:,}: {1e3 * ours:.0f} ms; plain numba loop {1e3 * loop:.0f} ms, ratio {ours / loop:.2f}; faiss \
{1e3 * faiss:.0f} ms, ratio {ours / faiss:.2f}. The peers find the nearest of all, ours the two nearest of \
every cell.

## Growth

{markdown(["grows", "n", "m", "p", "G", "ms an iteration"], growth)}"""


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Milliseconds an iteration against n, m, p and G, one panel each; nothing without
    matplotlib.
    """
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True)
    for axis, name in zip(axes, ("n", "m", "p", "G"), strict=True):
        mine = [row for row in rows if row["grows"] == name]
        axis.loglog(
            [r[name] for r in mine],
            [1e3 * r["seconds_per_iteration"] for r in mine],
            "o-",
        )
        axis.set_xlabel(name)
    axes[0].set_ylabel("ms an iteration")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    import faiss

    parser = command_line(__doc__)
    parser.add_argument("--full", action="store_true", help="n = 1,000,000 too")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    faiss.omp_set_num_threads(1)
    sizes = [n for n in SIZES if n <= 100_000 or arguments.full]
    grown = growth(100_000)
    found = {
        "command": "python -m evals.bench.solver"
        + (" --full" if arguments.full else ""),
        "machine": describe_machine("numpy", "numba", "faiss-cpu"),
        "whole_runs": whole_runs(sizes),
        "other_calls": other_calls(arguments.full),
        "assignment": assignment_pass(sizes[-1]),
        "growth": grown,
    }
    write("solver", found, report(found))
    plot(grown, RESULTS / "solver-growth.svg")


if __name__ == "__main__":
    main()
