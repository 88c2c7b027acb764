"""The time of FWC on the paper's synthetic set, and its growth with n, m and p."""

import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evals.paper.experiment import Cell, Experiment, Options, Row
from evals.paper.figures import growth_figure
from evals.paper.published import published
from evals.paper.tables import mean_sd, plus_minus, significant
from evals.record import markdown
from evals.synthetic import synthetic

if TYPE_CHECKING:
    import pandas as pd

ROWS = (
    500,
    1000,
    2500,
    5000,
    10_500,
    24_500,
    48_500,
    75_000,
    100_000,
    250_000,
    500_000,
    750_000,
    1_000_000,
)
N = 5000
M = 250
P = 25
SIZES = (50, 100, 250, 500, 1000)
COLUMNS = (5, 10, 25, 50, 100)
EPSILON = 0.01
MAX_ITER = 10_000  # the paper stops when nothing moves; no sweep needs nearly as many
_QUICK = [(400, 20, 5), (800, 20, 5), (400, 40, 5), (400, 20, 10)]


def plan(options: Options) -> list[Cell]:
    """The sweeps over n, m and p, small tables first; the middle of the sweeps is measured once."""
    if options.quick:
        settings = _QUICK
    else:
        sweeps = (
            [(n, M, P) for n in ROWS]
            + [(N, m, P) for m in SIZES]
            + [(N, M, p) for p in COLUMNS]
        )
        settings = sorted(dict.fromkeys(sweeps))
    return [
        {"n": n, "m": m, "p": p, "run": run}
        for n, m, p in settings
        for run in range(options.runs)
    ]


def measure(cell: Cell, options: Options) -> list[Row]:
    """One run to convergence, L1, free representatives; the compiled code is loaded before."""
    from fwc_llm.coreset import FairCoreset

    table = synthetic(cell["n"], cell["p"], seed=cell["run"])
    solver = FairCoreset(
        cell["m"],
        epsilon=EPSILON,
        max_iter=MAX_ITER,
        random_state=cell["run"],
        n_init=1,
    )
    _warm()
    start = time.perf_counter()
    solver.fit(table.features, table.outcome, table.sensitive)
    return [
        {
            "seconds": time.perf_counter() - start,
            "iterations": solver.n_iter_,
            "objective": solver.objective_,
            "gap": (solver.objective_ - solver.lower_bound_)
            / max(1.0, abs(solver.objective_)),
            "violation": solver.violation_,
        }
    ]


@cache
def _warm() -> None:
    """Loads the compiled code, once per process."""
    from fwc_llm.coreset import FairCoreset

    table = synthetic(20_000, P, seed=0)
    FairCoreset(M, epsilon=EPSILON, max_iter=2, random_state=0).fit(
        table.features, table.outcome, table.sensitive
    )


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown, and `runtime.svg` beside it."""
    table = mean_sd(
        frame,
        ["n", "m", "p"],
        ["seconds", "iterations", "objective", "gap", "violation"],
    )
    m = table["m"].mode()[0]
    p = table["p"].mode()[0]
    rows = table[(table["m"] == m) & (table["p"] == p)].sort_values("n")
    if N in set(rows["n"]):
        n = N
    else:
        n = rows["n"].min()
    sizes = table[(table["n"] == n) & (table["p"] == p)].sort_values("m")
    columns = table[(table["n"] == n) & (table["m"] == m)].sort_values("p")
    growth_figure(
        {
            "n": (rows, "n", published("runtime")),
            "m": (sizes, "m", None),
            "p": (columns, "p", None),
        },
        folder / "runtime.svg",
    )
    return "\n".join(
        [*_growth(rows), *_sweep(sizes, "m"), *_sweep(columns, "p"), *_exact(frame)]
    )


def _growth(rows: "pd.DataFrame") -> Iterator[str]:
    paper = published("runtime").set_index("n")["seconds"]
    first = rows.iloc[0]
    m = int(rows["m"].iloc[0])
    p = int(rows["p"].iloc[0])
    yield f"## Growth with n (m = {m}, p = {p}, ε = {EPSILON}, L1, to convergence)\n"
    yield (
        f"*× linear* and *× quadratic*: our time over that at n = {int(first['n']):,} extrapolated "
        f"so. We "
        "use every core; the paper's machine is another one. On large tables the solver starts on "
        "growing "
        "samples; iterations are moves on all rows.\n"
    )
    lines = []
    for row in rows.to_dict("records"):
        growth = row["n"] / first["n"]
        known = float(paper.get(row["n"], float("nan")))
        lines.append(
            [
                f"{row['n']:,}",
                f"{significant(row['seconds'])} ± {significant(row['seconds_sd'], 2)}",
                plus_minus(row["iterations"], row["iterations_sd"], 1),
                significant(row["seconds"] / (first["seconds"] * growth), 2),
                significant(row["seconds"] / (first["seconds"] * growth**2), 2),
                int(row["runs"]),
                f"{known:,.2f}".rstrip("0").rstrip(".") if known == known else "–",
                f"{known / row['seconds']:,.0f}" if known == known else "–",
            ]
        )
    yield markdown(
        [
            "n",
            "seconds",
            "iterations",
            "× linear",
            "× quadratic",
            "runs",
            "paper: seconds",
            "times faster",
        ],
        lines,
    )


def _sweep(table: "pd.DataFrame", key: str) -> Iterator[str]:
    yield f"\n## Growth with {key}\n"
    yield markdown(
        [key, "seconds", "iterations", "ms per iteration", "runs"],
        (
            [
                row[key],
                f"{significant(row['seconds'])} ± {significant(row['seconds_sd'], 2)}",
                plus_minus(row["iterations"], row["iterations_sd"], 1),
                significant(1000 * row["seconds"] / max(1.0, row["iterations"])),
                int(row["runs"]),
            ]
            for row in table.to_dict("records")
        ),
    )


def _exact(frame: "pd.DataFrame") -> Iterator[str]:
    yield (
        "\nOver all runs: largest relative gap to the inner problem's lower bound "
        f"{significant(frame['gap'].max())}, largest excess over the parity limit "
        f"{significant((frame['violation'] - EPSILON).max())}.\n"
    )


EXPERIMENT = Experiment(
    name="runtime",
    title="Runtime",
    keys=("n", "m", "p", "run"),
    values=("seconds", "iterations", "objective", "gap", "violation"),
    plan=plan,
    measure=measure,
    report=report,
    threads=True,
)
