"""How often a small table's best coreset is found, and how long it takes.

    python -m evals.bench.small [--record]

Tables of 14 to 16 rows of four kinds (numbers, whole numbers, categories, mixed), m of 4 or 5, L1
and squared L2. With real rows all coresets are enumerated here, by the inner problem alone, without
bounds; with free representatives the reference is the best of forty starts. The outer bound of 500
tables is compared with enumeration, too: with a parity limit, none, and a penalty. Times are CPU
seconds of one thread, of `fit` as a whole. `--record` writes evals/results/small.{json,md}. It
takes a few minutes.
"""

import time
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from evals.record import command_line, describe_machine, markdown, write
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.problem.ground_cost import cost_matrix

_KINDS = ("numbers", "whole numbers", "categories", "mixed")
_TABLES = 200
_FREE_TABLES = 30
_LARGE = 4
_BOUNDS = 500
_LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"epsilon": None},
    {"epsilon": 0.0},
    {"epsilon": None, "penalty": 0.5},
)
_REFERENCE = 40  # starts
_SAME = 1e-9


def table(kind: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows with at least two in each of four cells, and their outcomes and protected levels."""
    rng = np.random.default_rng([17, seed])
    numbers = {
        "numbers": rng.normal(size=(n, 3)),
        "whole numbers": rng.integers(0, 5, (n, 3)).astype(float),
    }
    words = pd.DataFrame(rng.choice(list("abc"), (n, 3)), columns=list("xyz"))
    if kind in numbers:
        frame = pd.DataFrame(numbers[kind])
    else:
        frame = words
    if kind == "mixed":
        frame = words[["x"]].assign(a=rng.normal(size=n), b=rng.integers(0, 3, n))
    cell = rng.permutation(
        np.concatenate([np.repeat(np.arange(4), 2), rng.integers(0, 4, n - 8)])
    )
    return frame.rename(columns=str), cell % 2, cell // 2


def best_of_all(model: FairCoreset, rows: tuple[Any, ...]) -> float:
    """The least objective of all coresets of rows with the fitted model's slots."""
    problem = model.problem(*rows)
    apart = cost_matrix(problem.table, problem.table, problem.cost)
    move = problem.move[problem.cells.cell]
    candidates, of = problem.candidates()
    seats = np.bincount(problem.cell_of, minlength=problem.cells.n_cells)
    nearest = [
        [
            apart[:, list(chosen)].min(axis=1) + move[:, g]
            for chosen in combinations(candidates[of == g], count)
        ]
        for g, count in enumerate(seats)
    ]
    return min(
        problem.transport(np.stack(pick, axis=1), None).objective
        for pick in product(*nearest)
    )


def measure(support: str, count: int) -> dict[str, Any]:
    """Compare `n_init="auto"` and one start with the best, on many tables."""
    excess: dict[str, list[float]] = {"auto": [], "one": []}
    seconds: list[float] = []
    for seed in range(count):
        rows = table(_KINDS[seed % 4], 14 + seed % 3, seed)
        cost = ("l1", "sqeuclidean")[seed // 4 % 2]
        model = FairCoreset(
            4 + (seed % 10 == 0),
            cost=cost,
            support=support,
            random_state=seed,
            n_jobs=1,
        )
        start = time.process_time()
        auto = model.fit(*rows).objective_
        seconds.append(time.process_time() - start)
        model.set_params(n_init=1)
        one = model.fit(*rows).objective_
        if support == "rows":
            best = best_of_all(model, rows)
        else:
            best = model.set_params(n_init=_REFERENCE).fit(*rows).objective_
            best = min(best, auto, one)
        for name, value in (("auto", auto), ("one", one)):
            excess[name].append(max(0.0, value / best - 1) if best > _SAME else value)
    return {
        "support": support,
        "tables": count,
        "reference": "enumeration"
        if support == "rows"
        else f"best of {_REFERENCE} starts",
        "found": {
            name: float(np.mean(np.array(all_) <= _SAME))
            for name, all_ in excess.items()
        },
        "mean_excess": {name: float(np.mean(all_)) for name, all_ in excess.items()},
        "worst_excess": {name: float(np.max(all_)) for name, all_ in excess.items()},
        "cpu_seconds": _spread(seconds),
    }


def bounds(count: int) -> dict[str, Any]:
    """How far the outer bound is below the best of all coresets."""
    gaps = []
    for seed in range(count):
        rows = table(_KINDS[seed % 4], 14 + seed % 3, seed)
        terms = {"cost": ("l1", "sqeuclidean")[seed // 4 % 2], **_LIMITS[seed // 8 % 4]}
        model = FairCoreset(
            4 + (seed % 10 == 0), support="rows", n_init=1, prove=True, **terms
        ).fit(*rows)
        best = best_of_all(model, rows)
        gaps.append((best - model.outer_bound_) / max(best, _SAME))  # type: ignore[operator]
    below = np.array(gaps)
    return {
        "tables": count,
        "above_the_best": int((below < -_SAME).sum()),
        "equal": float((below < 1e-6).mean()),
        "mean_gap": float(below.mean()),
        "worst_gap": float(below.max()),
    }


def largest(support: str) -> dict[str, Any]:
    """CPU seconds of `fit` at n = 200 and m = 16."""
    seconds = []
    for seed in range(_LARGE):
        rows = table(_KINDS[seed % 4], 200, seed)
        start = time.process_time()
        FairCoreset(16, support=support, random_state=seed, n_jobs=1).fit(*rows)
        seconds.append(time.process_time() - start)
    return {
        "support": support,
        "n": 200,
        "m": 16,
        "tables": _LARGE,
        "cpu_seconds": _spread(seconds),
    }


def main() -> None:
    """Measure, print, and record if asked."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--record", action="store_true", help="write evals/results/small.{json,md}"
    )
    record = parser.parse_args().record
    with threadpool_limits(1):
        FairCoreset(4).fit(*table("numbers", 14, 0))  # imports
        found = [measure("rows", _TABLES), measure("free", _FREE_TABLES)]
        large = [largest("rows"), largest("features"), largest("free")]
        outer = bounds(_BOUNDS)
    result: dict[str, Any] = {
        "command": "python -m evals.bench.small --record",
        "machine": describe_machine(),
        "small": found,
        "largest": large,
        "outer_bound": outer,
    }
    print(report(result))
    if record:
        write("small", result, report(result))


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "median": float(np.median(seconds)),
        "90%": float(np.quantile(seconds, 0.9)),
        "most": float(np.max(seconds)),
    }


def report(result: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = []
    for row in result["small"]:
        found = row["found"]
        mean = row["mean_excess"]
        worst = row["worst_excess"]
        excess = [
            f"{mean['auto']:.3%}",
            f"{worst['auto']:.2%}",
            f"{mean['one']:.2%}, {worst['one']:.1%}",
        ]
        rates = [f"{found['auto']:.1%}", f"{found['one']:.1%}"]
        line = [
            row["support"],
            row["tables"],
            row["reference"],
            *rates,
            *excess,
            _times(row["cpu_seconds"]),
        ]
        lines.append(line)
    head = [
        "support",
        "tables",
        "reference",
        'best found by `"auto"`',
        "by one start",
        "mean excess",
    ]
    head += ["worst excess", "of one start", "CPU ms, median / 90 % / most"]
    large = [
        f"n = {row['n']}, m = {row['m']}, support {row['support']}, {row['tables']} tables: CPU ms "
        f"{_times(row['cpu_seconds'])} (median / 90 % / most).\n"
        for row in result["largest"]
    ]
    outer = result["outer_bound"]
    return f"""# Small tables

Made by `{result["command"]}` on {result["machine"]}; CPU time of one thread.

{markdown(head, lines)}
{chr(10).join(large)}
The outer bound of {outer["tables"]} tables is above the best coreset {outer["above_the_best"]} times, \
equal to it in {outer["equal"]:.0%}, {outer["mean_gap"]:.2%} below it on average and \
{outer["worst_gap"]:.1%} at most.
"""


def _times(seconds: dict[str, float]) -> str:
    return " / ".join(f"{1e3 * value:,.0f}" for value in seconds.values())


if __name__ == "__main__":
    main()
