"""The distance of each method's coreset to the train rows and to held-out rows.

Exact Wasserstein distance in L1 and clustering cost (mean squared distance to the nearest
representative), on train and on held-out rows, in standardised and in raw columns. If a method has
a choice of metric, the distance is that of its coreset in L1, and the clustering cost that of its
coreset in squared L2.
"""

import numpy as np

from evals.paper.closeness_report import report
from evals.paper.data import UNITS, Space, Split, open_space
from evals.paper.distances import clustering_cost, parity_violation, wasserstein
from evals.paper.experiment import (
    Cell,
    Experiment,
    Options,
    Row,
    runs_on,
    sizes,
    smaller_first,
)
from evals.paper.methods import TITLES, Chosen, choose, has_metric
from fwc_llm.errors import FwcError

QUICK_ROWS = 240
_CHECKED_ROWS = (
    5000  # up to here FWC's objective is also compared with POT's network simplex
)


def plan(options: Options) -> list[Cell]:
    """Every data set, unit, size, run and method; the smaller tables first."""
    cells: list[Cell] = []
    for dataset in smaller_first(options.datasets):
        cells += [
            {
                "dataset": dataset,
                "units": units,
                "size": size,
                "method": method,
                "run": run,
            }
            for run in runs_on(dataset, options)
            for units in UNITS
            for size in sizes(dataset, options.quick)
            for method in TITLES
        ]
    return cells


def measure(cell: Cell, options: Options) -> list[Row]:
    """Distance, cost and parity of one coreset pair."""
    limit = QUICK_ROWS if options.quick else None
    space = open_space(
        cell["dataset"], cell["run"], cell["units"], options.data_dir, limit
    )
    split = space.split
    m = round(cell["size"] * split.train.n)
    try:
        first = choose(cell["method"], space, split.train, m, cell["run"], "l1")
        if has_metric(cell["method"]):
            second = choose(
                cell["method"], space, split.train, m, cell["run"], "sqeuclidean"
            )
        else:
            second = first
    except FwcError as error:
        return [{"m": m, "note": str(error)}]
    found = {"m": m, "seconds": first.seconds, "note": first.note}
    return [
        {**found, **_distances(space, split, first), **_costs(space, split, second)}
    ]


def _distances(space: Space, split: Split, chosen: Chosen) -> Row:
    train = split.train
    test = split.test
    points = space.table(chosen.points, chosen.d, chosen.y)
    rows = space.rows(train, "l1")
    w1_train = chosen.objective
    error = np.nan
    if np.isnan(chosen.objective):
        w1_train = wasserstein(rows, points, chosen.weights)
    elif train.n <= _CHECKED_ROWS:
        error = abs(wasserstein(rows, points, chosen.weights) - chosen.objective)
    return {
        "w1_train": w1_train,
        "w1_test": wasserstein(space.rows(test, "l1"), points, chosen.weights),
        "objective_error": error,
        "gap": (chosen.objective - chosen.lower_bound)
        / max(1.0, abs(chosen.objective)),
        "violation_train": parity_violation(
            chosen.d, chosen.y, chosen.weights, train.y.mean()
        ),
        "violation_test": parity_violation(
            chosen.d, chosen.y, chosen.weights, test.y.mean()
        ),
    }


def _costs(space: Space, split: Split, chosen: Chosen) -> Row:
    carrying = chosen.weights > 0
    points = space.table(chosen.points, chosen.d, chosen.y).take(carrying)
    return {
        f"cost_{name}": clustering_cost(space.rows(part, "sqeuclidean"), points)
        for name, part in (("train", split.train), ("test", split.test))
    }


EXPERIMENT = Experiment(
    name="closeness",
    title="Closeness to the data",
    keys=("dataset", "units", "size", "method", "run"),
    values=(
        *("m", "seconds", "w1_train", "w1_test", "cost_train", "cost_test"),
        *("violation_train", "violation_test", "objective_error", "gap", "note"),
    ),
    plan=plan,
    measure=measure,
    report=report,
)
