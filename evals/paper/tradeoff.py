"""Fairness and utility of a classifier trained on each weighted coreset, rivals also reweighed.

Units are standardised or raw. In raw units, coreset and classifier both use the columns unscaled.
The paper does not say which it used.
"""

from dataclasses import asdict
from itertools import product

import numpy as np

from evals.paper.data import UNITS, open_space
from evals.paper.downstream import EPOCHS, QUICK_EPOCHS, judge, train
from evals.paper.experiment import (
    Cell,
    Experiment,
    Options,
    Row,
    runs_on,
    sizes,
    smaller_first,
)
from evals.paper.methods import METHODS, PAPER_FWC, choose
from evals.paper.tradeoff_report import report
from fwc_llm.errors import FwcError

FULL = "full-data"
QUICK_ROWS = 300


def plan(options: Options) -> list[Cell]:
    """Every data set, unit, run, size and method, and the classifier trained on all train rows
    (size 1).
    """
    cells: list[Cell] = []
    methods = ("fwc-0.01", "uniform", "kmeans") if options.quick else METHODS
    for dataset in smaller_first(options.datasets):
        for run, units in product(runs_on(dataset, options), UNITS):
            here = {"dataset": dataset, "units": units, "run": run}
            cells.append({**here, "size": 1, "method": FULL})
            cells += [
                {**here, "size": size, "method": method}
                for size in sizes(dataset, options.quick)
                for method in methods
            ]
    return cells


def measure(cell: Cell, options: Options) -> list[Row]:
    """One row for the coreset's own weights (arm plain), one for reweighed ones unless the
    method is FWC.
    """
    from evals.paper.sampling import reweigh

    limit = QUICK_ROWS if options.quick else None
    space = open_space(
        cell["dataset"], cell["run"], cell["units"], options.data_dir, limit
    )
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    rows = space.split.train
    seed = cell["run"]
    if cell["method"] == FULL:
        X = space.design(rows.frame, rows.d)
        y = rows.y
        d = rows.d
        weights = np.ones(rows.n)
    else:
        try:
            chosen = choose(
                cell["method"], space, rows, round(cell["size"] * rows.n), seed
            )
        except FwcError as error:
            return [{"arm": "plain", "note": str(error)}]
        y = chosen.y
        d = chosen.d
        weights = chosen.weights
        X = space.design(chosen.points, chosen.d)
    arms = {"plain": weights}
    if cell["method"] not in PAPER_FWC:
        arms["reweighed"] = reweigh(y, d, weights)
    test = space.split.test
    seen = space.design(test.frame, test.d)
    return [
        {
            "arm": arm,
            "m": len(y),
            **asdict(judge(*train(X, y, used, seed, epochs), seen, test.y, test.d)),
        }
        for arm, used in arms.items()
    ]


EXPERIMENT = Experiment(
    name="tradeoff",
    title="Fairness and utility of a classifier trained on the coreset",
    keys=("dataset", "units", "size", "method", "run"),
    values=("arm", "m", "dd", "auc", "odds", "accuracy", "trivial", "epochs", "note"),
    plan=plan,
    measure=measure,
    report=report,
)
