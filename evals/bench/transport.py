"""The inner problem against HiGHS, and the growth of its time with rows and cells.

    python -m evals.bench.transport [--full] [--record]

Costs are from rows of the paper's synthetic table (25 columns, L1) to the nearest random representative in
each cell. The same program is solved as written (n × m variables), reduced to cells (n × G), and by
`fair_transport`: "cold" without prices, and "warm" with the last solution's prices after every cost changed
by about one per cent, as between two iterations. Best of several passes each; everything in one run.
`--full` adds ten million rows and 64 cells at a million rows; `--record` writes the tables to evals/results/.

The last table is of a machine that others use, too: hundreds of cells, alone and beside two processes that
never rest, with one BLAS thread as `fair_transport` has it, and with as many as BLAS takes by itself. Leave
OMP_NUM_THREADS unset for it.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evals.record import command_line, describe_machine, markdown, write
from evals.synthetic import synthetic
from fwc_llm.coreset.transport.inner_problem import fair_transport

EPSILON = 0.01
_DRIFT = 1.01  # between two iterations
_CHUNK = 1_000_000  # rows made at once
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def main() -> None:
    """Measure, print, and record if asked."""
    parser = command_line(__doc__)
    parser.add_argument("--full", action="store_true", help="also the largest tables (minutes)")
    parser.add_argument("--record", action="store_true", help="write evals/results/transport.{json,md}")
    options = parser.parse_args()
    sizes = [(n, 2, 2) for n in (1_000, 10_000, 100_000, 1_000_000, *([10_000_000] if options.full else []))]
    sizes += [(100_000, levels, outcomes) for levels, outcomes in ((4, 2), (4, 4), (8, 4), (32, 2), (8, 8))]
    if options.full:
        sizes += [(1_000_000, 32, 2)]
    found: dict[str, Any] = {
        "command": "python -m evals.bench.transport" + (" --full" if options.full else "") + " --record",
        "machine": describe_machine(),
        "epsilon": EPSILON,
        "peer": against_highs(),
        "growth": [growth(*size) for size in sizes],
        "ties": [ties(100_000, *shape) for shape in ((2, 2), (8, 2), (4, 4), (32, 2), (128, 2))],
        "neighbours": [beside(busy, levels) for levels in (32, 128) for busy in (0, 2)],
    }
    print(report(found))
    if options.record:
        write("transport", found, report(found))


def cell_costs(
    n: int, levels: int = 2, outcomes: int = 2, m: int = 250, full: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Costs (n, G) float32 of the nearest of m random representatives in each cell, and the target.

    Also, if asked, the costs (n, m) to all of them, and their cells (m,).
    """
    from scipy.spatial.distance import cdist

    cells = levels * outcomes
    first = synthetic(min(n, _CHUNK), levels=levels, outcomes=outcomes)
    cell = first.sensitive * outcomes + first.outcome
    rng = np.random.default_rng(1)
    seats = np.full(cells, m // cells) + (np.arange(cells) < m % cells)
    picks = np.concatenate([rng.choice(np.flatnonzero(cell == g), seats[g]) for g in range(cells)])
    points, of = first.features[picks], cell[picks]
    cost, wide = np.empty((n, cells), np.float32), np.empty((n, m)) if full else np.empty((0, m))
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        part = synthetic(size, seed=start // _CHUNK, levels=levels, outcomes=outcomes) if start else first
        for low in range(0, size, 8192):
            rows = slice(low, min(low + 8192, size))
            apart = cdist(part.features[rows], points, "cityblock")
            apart += part.sensitive[rows, None] != of // outcomes
            apart += part.outcome[rows, None] != of % outcomes
            for g in range(cells):
                cost[start + rows.start : start + rows.stop, g] = apart[:, of == g].min(axis=1)
            if full:
                wide[start + rows.start : start + rows.stop] = apart
    target = np.bincount(first.outcome, minlength=outcomes) / len(first.outcome)
    return cost, target, wide, of


def against_highs(n: int = 5000, m: int = 250) -> dict[str, Any]:
    """Seconds and objectives of the full program, the reduced one, and ours."""
    _, target, wide, of = cell_costs(n, m=m, full=True)
    narrow = np.stack([wide[:, of == g].min(axis=1) for g in range(4)], axis=1)
    ours, inner = best_of(20, lambda: fair_transport(narrow, 2, 2, target, EPSILON))
    warm, _ = best_of(20, lambda: fair_transport(narrow * _DRIFT, 2, 2, target, EPSILON, prices=inner.prices))
    reduced, reduced_value = best_of(3, lambda: highs(narrow, np.arange(4), target))
    full, full_value = best_of(1, lambda: highs(wide, of, target))
    return {
        "n": n,
        "m": m,
        "cells": 4,
        "full_highs_seconds": full,
        "reduced_highs_seconds": reduced,
        "cold_seconds": ours,
        "warm_seconds": warm,
        "ratio_full": full / ours,
        "ratio_reduced": reduced / ours,
        "objective_difference_full": inner.objective - full_value,
        "objective_difference_reduced": inner.objective - reduced_value,
        "gap": inner.objective - inner.lower_bound,
        "excess_violation": max(inner.violation - EPSILON, 0.0),
    }


def ties(n: int, levels: int, outcomes: int) -> dict[str, Any]:
    """Seconds of `fair_transport` on costs that tie, whole numbers and counts of mismatches, and on others.

    Warm: with the start of the same table before one row in a hundred changed.
    """
    cells = levels * outcomes
    target = np.full(outcomes, 1 / outcomes)
    found: dict[str, Any] = {"n": n, "cells": cells}
    for kind in ("continuous", "whole", "mismatches"):
        rng = np.random.default_rng(0)

        def draw(rows: int, kind: str = kind, rng: np.random.Generator = rng) -> np.ndarray:
            if kind == "mismatches":
                return rng.binomial(10, 0.5, (rows, cells)).astype(np.float32)
            drawn = rng.uniform(1, 40, (rows, cells))
            return (np.floor(drawn) if kind == "whole" else drawn).astype(np.float32)

        cost = draw(n)
        passes = 3 if cells <= 64 else 1
        fair_transport(cost[:2000], levels, outcomes, target, EPSILON)  # compile
        cold, first = best_of(passes, lambda: fair_transport(cost, levels, outcomes, target, EPSILON))  # noqa: B023
        cost[rng.choice(n, n // 100, replace=False)] = draw(n // 100)
        warm, second = best_of(
            passes,
            lambda: fair_transport(cost, levels, outcomes, target, EPSILON, prices=first.prices),  # noqa: B023
        )
        gap = max(plan.objective - plan.lower_bound for plan in (first, second))
        found |= {f"{kind}_cold": cold, f"{kind}_warm": warm, f"{kind}_gap": gap}
    for kind in ("whole", "mismatches"):
        for start in ("cold", "warm"):
            found[f"{kind}_{start}_ratio"] = found[f"{kind}_{start}"] / found[f"continuous_{start}"]
    return found


def beside(busy: int, levels: int, n: int = 20_000) -> dict[str, Any]:
    """Seconds, and CPU seconds, beside so many busy processes: of one BLAS thread, and of its own number."""
    cost = np.random.default_rng(0).uniform(1, 40, (n, 2 * levels))
    found: dict[str, Any] = {"busy": busy, "n": n, "cells": 2 * levels}
    ways = {"one": fair_transport, "own": fair_transport.__wrapped__}  # type: ignore[attr-defined]
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        for name, solve in ways.items():
            before = time.process_time()
            found[f"{name}_seconds"], _ = best_of(3, lambda: solve(cost, levels, 2, [0.3, 0.7], EPSILON))  # noqa: B023
            found[f"{name}_cpu"] = (time.process_time() - before) / 3
    finally:
        for other in others:
            other.kill()
            other.wait()
    return found


def growth(n: int, levels: int, outcomes: int) -> dict[str, Any]:
    """Seconds of `fair_transport` at one size, and of one pass that finds the rows' least costs."""
    cost, target, _, _ = cell_costs(n, levels, outcomes)
    rng = np.random.default_rng(0)
    moved = cost * (1 + 0.01 * rng.standard_normal(cost.shape, dtype=np.float32))
    small = n * levels * outcomes < 10**7
    passes = 7 if small else 3
    fair_transport(cost, levels, outcomes, target, EPSILON)  # compile
    cold, first = best_of(
        passes if small else 1, lambda: fair_transport(moved, levels, outcomes, target, EPSILON)
    )
    prices = fair_transport(cost, levels, outcomes, target, EPSILON).prices
    warm, second = best_of(
        passes, lambda: fair_transport(moved, levels, outcomes, target, EPSILON, prices=prices)
    )
    once, _ = best_of(passes, lambda: cost.min(axis=1))
    reduced = None
    if n * levels * outcomes <= 400_000:
        reduced, _ = best_of(
            1, lambda: highs(moved.astype(float), np.arange(levels * outcomes), target, levels)
        )
    return {
        "n": n,
        "cells": levels * outcomes,
        "levels": levels,
        "cold_seconds": cold,
        "warm_seconds": warm,
        "row_minima_seconds": once,
        "reduced_highs_seconds": reduced,
        "gap": first.objective - first.lower_bound,
        "excess_violation": max(first.violation - EPSILON, 0.0),
        "difference": abs(first.objective - second.objective),
        "split_rows": len(set(first.split_row.tolist())),
    }


def highs(cost: np.ndarray, of: np.ndarray, target: np.ndarray, levels: int = 2) -> float:
    """The optimum of the program over all (n, k) variables by HiGHS; `of` (k,) are the columns' cells."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array, eye_array, kron

    n, k = cost.shape
    outcomes = len(target)
    level, own = of // outcomes, np.arange(levels * outcomes)[:, None] == of
    inside = np.arange(levels).repeat(outcomes)[:, None] == level
    share = np.tile(target, levels)[:, None]
    limits = np.vstack([own - (1 + EPSILON) * share * inside, (1 - EPSILON) * share * inside - own])
    # The masses of the k columns as variables of their own keep the limits sparse.
    masses: Any = kron(np.ones((1, n)), eye_array(k))
    sums: Any = kron(eye_array(n), np.ones((1, k)))
    identity: Any = eye_array(k)
    equal = block_array([[sums, None], [masses, -identity]]).tocsr()
    solve: Any = linprog
    answer = solve(
        np.concatenate([cost.ravel(), np.zeros(k)]),
        A_ub=block_array([[coo_array((len(limits), n * k)), coo_array(limits)]]).tocsr(),
        b_ub=np.zeros(len(limits)),
        A_eq=equal,
        b_eq=np.concatenate([np.ones(n), np.zeros(k)]),
        method="highs",
        options=_TIGHT,
    )
    return float(answer.fun / n)


def best_of(passes: int, task: Callable[[], Any]) -> tuple[float, Any]:
    """The least seconds of several passes, and what the last one returned."""
    seconds, result = float("inf"), None
    for _ in range(passes):
        started = time.perf_counter()
        result = task()
        seconds = min(seconds, time.perf_counter() - started)
    return seconds, result


def _row_line(row: dict[str, Any]) -> list[Any]:
    reduced = row["reduced_highs_seconds"]
    peer = [f"{reduced * 1e3:,.0f}", f"{reduced / row['cold_seconds']:,.0f}"] if reduced else ["–", "–"]
    times = [f"{row[f'{name}_seconds'] * 1e3:,.1f}" for name in ("cold", "warm", "row_minima")]
    return [f"{row['n']:,}", row["cells"], *times, *peer, f"{row['gap']:.0e}"]


def _peer_line(peer: dict[str, Any]) -> str:
    return (
        f"n = {peer['n']:,}, m = {peer['m']}: full program by HiGHS {peer['full_highs_seconds']:.2f} s, "
        f"reduced {peer['reduced_highs_seconds'] * 1e3:.0f} ms, fair_transport "
        f"{peer['cold_seconds'] * 1e3:.2f} ms ({peer['warm_seconds'] * 1e3:.2f} ms warm): "
        f"{peer['ratio_full']:,.0f} and {peer['ratio_reduced']:,.0f} times faster, objectives equal to "
        f"{abs(peer['objective_difference_full']):.0e}, gap {peer['gap']:.0e}, constraints exceeded by "
        f"{peer['excess_violation']:.0e}."
    )


def _tie_line(row: dict[str, Any]) -> list[Any]:
    def both(name: str) -> str:
        return f"{row[f'{name}_cold'] * 1e3:,.0f} ({row[f'{name}_warm'] * 1e3:,.0f})"

    def ratio(name: str) -> str:
        return f"{row[f'{name}_cold_ratio']:.1f} ({row[f'{name}_warm_ratio']:.1f})"

    gap = max(row[f"{name}_gap"] for name in ("continuous", "whole", "mismatches"))
    cells = [both("continuous")]
    for name in ("whole", "mismatches"):
        cells += [both(name), ratio(name)]
    return [row["cells"], *cells, f"{gap:.0e}"]


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    head = ["rows", "cells", "cold, ms", "warm, ms", "row minima by numpy, ms", "reduced HiGHS, ms"]
    units = [f"{name}_{unit}" for name in ("one", "own") for unit in ("seconds", "cpu")]
    rows = [
        [row["cells"], row["busy"], *(f"{row[unit]:.2f}" for unit in units)] for row in found["neighbours"]
    ]
    beside = ["cells", "busy processes", "one BLAS thread, s", "CPU s", "BLAS's own number, s", "CPU s"]
    ties = ["cells", "continuous, ms (warm)", "whole numbers, ms (warm)", "ratio (warm)"]
    ties += ["mismatches, ms (warm)", "ratio (warm)", "gap"]
    return f"""# The inner problem

Made by `{found["command"]}` on {found["machine"]}.

{_peer_line(found["peer"])}

{markdown([*head, "HiGHS / cold", "gap"], map(_row_line, found["growth"]))}
Costs that tie, 100,000 rows: whole numbers from 1 to 39 in each cell, and counts of 10 mismatches, \
beside uniform costs. Warm: from the plan of the same table before one row in a hundred changed.

{markdown(ties, map(_tie_line, found["ties"]))}
Beside others, 20,000 rows: the least wall seconds of three, and CPU seconds on average.

{markdown(beside, rows)}"""


if __name__ == "__main__":
    main()
