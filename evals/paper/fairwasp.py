"""Weights for all train rows: FairWASP, the paper's predecessor, against reweighing (Kamiran,
Calders).

Both keep the rows and change their weights. How far does each move the rows' distribution (exact
Wasserstein distance, standardised L1), and what parity does it reach? The paper has no numbers on
this. On Adult the distance of reweighing would be a transport between tens of thousands of rows. So
both are compared on 4,000 random rows, and FairWASP also runs on all rows.
"""

import time
from dataclasses import dataclass

import numpy as np

from evals.paper.data import Part, open_space
from evals.paper.distances import network_simplex, parity_violation
from evals.paper.experiment import Cell, Experiment, Options, Row, smaller_first
from evals.paper.fairwasp_report import report
from evals.paper.fairwasp_weights import FairWASP
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import cost_matrix

FAIRWASP = {
    "fairwasp-0": 0.0,
    "fairwasp-0.01": 0.01,
    "fairwasp-0.05": 0.05,
    "fairwasp-0.1": 0.1,
}
PART = 4000  # train rows of Adult on which both are compared
QUICK_ROWS = 400


@dataclass(frozen=True)
class Weighted:
    """Weights (n,) of the train rows; the distance moved if the method computes it, else NaN."""

    weights: np.ndarray
    distance: float


def plan(options: Options) -> list[Cell]:
    """Every data set, run and method; `part` says which train rows."""
    cells: list[Cell] = []
    for dataset in smaller_first(options.datasets):
        whole = dataset != "adult" or options.quick
        for run in range(options.runs):
            part = "all" if whole else f"{PART} rows"
            cells += [
                {"dataset": dataset, "part": part, "method": method, "run": run}
                for method in (*FAIRWASP, "reweighing")
            ]
            if not whole:
                cells.append(
                    {
                        "dataset": dataset,
                        "part": "all",
                        "method": "fairwasp-0.01",
                        "run": run,
                    }
                )
    return cells


def measure(cell: Cell, options: Options) -> list[Row]:
    """Distance moved, parity reached and how uneven the weights are."""
    limit = (
        QUICK_ROWS
        if options.quick
        else None
        if cell["part"] == "all"
        else round(PART / 0.75)
    )
    space = open_space(
        cell["dataset"], cell["run"], "standardised", options.data_dir, limit
    )
    rows = space.split.train
    start = time.perf_counter()
    if cell["method"] == "reweighing":
        found = _reweighed(rows)
    else:
        found = _fairwasp(rows, FAIRWASP[cell["method"]])
    seconds = time.perf_counter() - start
    distance = found.distance
    exact = np.nan
    if rows.n <= PART:
        exact = moved(space.rows(rows, "l1"), found.weights)
        if np.isnan(distance):
            distance = exact
        else:
            distance = distance
    return [
        {
            "n": rows.n,
            "seconds": seconds,
            "distance": distance,
            "error": abs(exact - found.distance),
            "violation": parity_violation(rows.d, rows.y, found.weights, rows.y.mean()),
            "dropped": float(np.mean(found.weights <= 1e-12)),
            "largest": float(found.weights.max() / found.weights.mean()),
            "effective": float(
                found.weights.sum() ** 2 / (found.weights**2).sum() / rows.n
            ),
        }
    ]


def _reweighed(rows: Part) -> Weighted:
    from evals.paper.sampling import reweigh

    return Weighted(reweigh(rows.y, rows.d), np.nan)


def _fairwasp(rows: Part, epsilon: float) -> Weighted:
    fitted = FairWASP(epsilon=epsilon).fit(rows.frame, rows.y, rows.d)
    return Weighted(fitted.weights_, fitted.objective_)


def moved(rows: EncodedTable, weights: np.ndarray) -> float:
    """Exact W1 between the rows with equal weights and the same rows with `weights` (n,).

    The cost is a metric, so the common mass does not move: only rows that lose or gain mass enter
    the transport problem.
    """
    change = weights / weights.sum() - 1 / len(weights)
    losing = np.flatnonzero(change < -1e-15)
    gaining = np.flatnonzero(change > 1e-15)
    if not len(losing) or not len(gaining):
        return 0.0
    total = change[gaining].sum()
    cost = cost_matrix(rows.take(losing), rows.take(gaining), "l1")
    moved = network_simplex(
        change[losing] / change[losing].sum(), change[gaining] / total, cost
    )
    return float(total * moved)


EXPERIMENT = Experiment(
    name="fairwasp",
    title="Weights for all rows: FairWASP against reweighing",
    keys=("dataset", "part", "method", "run"),
    values=(
        "n",
        "seconds",
        "distance",
        "error",
        "violation",
        "dropped",
        "largest",
        "effective",
    ),
    plan=plan,
    measure=measure,
    report=report,
)
