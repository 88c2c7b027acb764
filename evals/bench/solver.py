"""The speed of the solver against its peers in the same run.

    python -m evals.bench.solver            # minutes: up to n = 100,000
    python -m evals.bench.solver --full     # n = 200,000 and 1,000,000 too

Results, with the machine, go to `evals/results/solver.md` and `solver.json`. Every peer runs on the
same data in the same process; the ratio is our time over theirs.
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
from fwc_llm.coreset.threads import Threads, count_threads
from fwc_llm.coreset.warm_up import PROBLEMS, get_ready

M = 250
P = 25
ITERATIONS = 300
CALLS: dict[str, dict[str, Any]] = {
    "plain": {"init": "random", "progressive": False},
    "default": {},
}
GOALS = {  # ratio to scikit-learn's KMeans, plain and default; for n = 1,000 seconds
    1_000: (0.02, 1.0),  # the default starts three times, and swaps
    10_000: (2.0, 2.0),
    30_000: (1.2, 1.0),
    100_000: (0.8, 0.3),
    200_000: (0.7, 0.25),
    1_000_000: (0.4, 0.1),
}
SMALL, REPEATS = (
    30_000,
    5,
)  # up to so many rows the best of some runs counts, of ours and of the peer's


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what the run returned."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def whole_runs(sizes: list[int]) -> list[dict[str, Any]]:
    """Fits, plain and by the default call, against scikit-learn's KMeans with the same
    iterations.
    """
    from sklearn.cluster import KMeans

    for name in PROBLEMS:
        get_ready(name)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        table = synthetic(n, P)
        peer = KMeans(
            M, init="random", n_init=1, max_iter=ITERATIONS, tol=0, random_state=0
        )
        repeats = REPEATS if n <= SMALL else 1
        theirs, kmeans = min(
            (timed(partial(peer.fit, table.features)) for _ in range(repeats)),
            key=_seconds,
        )
        faiss_seconds = faiss_kmeans(table.features)
        for name, goal in zip(CALLS, GOALS[n], strict=True):
            own = FairCoreset(M, max_iter=ITERATIONS, random_state=0, **CALLS[name])
            seconds, inner, ours = min(
                (_timed_fit(own, table) for _ in range(repeats)), key=_seconds
            )
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
        rows[-1]["objective_over_plain"] = (
            rows[-1]["objective"] / rows[-2]["objective"] - 1
        )
    return rows


def faiss_kmeans(features: np.ndarray) -> float | None:
    """Seconds of faiss's k-means on all rows, 50 iterations (squared L2); None where it is not
    installed.
    """
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
    found: dict[str, Any] = {
        "n": n,
        "seconds": ours,
        "plain_numba_seconds": loop,
        "ratio": ours / loop,
    }
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
    """Real rows by default: seconds of a second fit, the first having compiled."""
    calls: list[tuple[str, int, Callable[..., Any]]] = [
        (
            f'FairCoreset({M}, support="rows")',
            n,
            FairCoreset(M, support="rows", random_state=0).fit,
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
            run = FairCoreset(
                size["m"], init="random", max_iter=20, progressive=False, random_state=0
            )
            FairCoreset(size["m"], init="random", max_iter=1, random_state=0).fit(
                *table
            )  # compiles
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
        goal = f"{r['goal']}{' s' if r['n'] == 1000 else ''}{'' if r['met'] else ' missed'}"
        whole.append(
            [
                f"{r['n']:,}",
                r["call"],
                f"{r['seconds']:.3f}",
                f"{100 * r['inner_seconds'] / r['seconds']:.0f} %",
                r["iterations"],
                f"{r['kmeans_seconds']:.3f}",
                f"{r['ratio']:.2f}",
                goal,
                format(r["faiss_seconds"], ".2f") if r.get("faiss_seconds") else "–",
                f"{r['objective']:.5f}",
                over,
                f"{r['violation']:.6f}",
            ]
        )
    head = [
        "n",
        "call",
        "s",
        "inner",
        "iterations",
        "KMeans s",
        "ratio",
        "goal",
        "faiss s",
        "objective",
    ]
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
    faiss = one.get("faiss_seconds")
    if faiss:
        peer = f"{1e3 * faiss:.0f} ms; ratio {one['seconds'] / faiss:.2f}"
    else:
        peer = "not installed"
    return f"""# Solver

`{found["command"]}` on {found["machine"]}. Every fit and \
every peer uses {found["threads"]} threads.

## Whole runs

m = {M}, p = {P}, L1, at most {ITERATIONS} iterations; KMeans: scikit-learn, random start, tol 0. \
Plain: init="random", progressive=False. Up to n = {SMALL:,} the best of {REPEATS} runs. The goal is a ratio \
(for n = 1,000, seconds). Inner: the share of the inner problem of all rows.

{markdown([*head, "to plain", "violation"], whole)}
## Other calls

{markdown(["call", "n", "s", "objective", "gap"], others)}
## One assignment pass

n = {one["n"]:,}: {1e3 * one["seconds"]:.0f} ms; plain numba loop {1e3 * one["plain_numba_seconds"]:.0f} ms; \
ratio {one["ratio"]:.2f}; faiss {peer}. The peers find the nearest of all, ours the two nearest of every cell.

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
    parser = command_line(__doc__)
    parser.add_argument(
        "--full", action="store_true", help="n = 200,000 and 1,000,000 too"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = [n for n in GOALS if n <= 100_000 or arguments.full]
    grown = growth(100_000)
    found = {
        "command": "python -m evals.bench.solver"
        + (" --full" if arguments.full else ""),
        "machine": describe_machine(),
        "threads": count_threads(),
        "whole_runs": whole_runs(sizes),
        "other_calls": other_calls(arguments.full),
        "assignment": assignment_pass(sizes[-1]),
        "growth": grown,
    }
    write("solver", found, report(found))
    plot(grown, RESULTS / "solver-growth.svg")


if __name__ == "__main__":
    main()
