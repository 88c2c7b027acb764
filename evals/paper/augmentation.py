"""Representatives appended to the train rows in steps, after Sharma et al.

k-means runs on the train rows. Representatives are ranked by their distance to the nearest centroid
with the same protected level and outcome, nearest first; prefixes of that order are appended. Rows
have weight 1, representatives their coreset weight, scaled to a mean of 1 (the paper does not say).
On Drug the classifier is also trained without the protected attribute.
"""

from dataclasses import asdict

import numpy as np

from evals.paper.augmentation_report import report
from evals.paper.data import Part, Space, open_space
from evals.paper.downstream import EPOCHS, QUICK_EPOCHS, judge, train
from evals.paper.experiment import (
    Cell,
    Experiment,
    Options,
    Row,
    runs_on,
    smaller_first,
)
from evals.paper.methods import PAPER_FWC, Chosen, balance, choose
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.errors import FwcError

NONE = "none"
METHODS = (
    *PAPER_FWC,
    "fairlets-kmeans",
    "fairlets-kmedoids",
    "indfair",
    "uniform",
    "kmedoids",
)
CENTROIDS = (
    50  # of the ranking k-means; the paper does not say, its other methods use 50
)
QUICK_ROWS = 200
_STEPS = {
    "adult": (0.2, 0.025)
}  # largest share of the train rows appended, and the step
_OTHER_STEPS = (0.5, 0.05)


def plan(options: Options) -> list[Cell]:
    """Every data set, run and method, and the plain train rows (method "none")."""
    methods = ("fwc-0.01", "uniform") if options.quick else METHODS
    return [
        {"dataset": dataset, "features": features, "method": method, "run": run}
        for dataset in smaller_first(options.datasets)
        for features in (("with D", "without D") if dataset == "drug" else ("with D",))
        for run in runs_on(dataset, options)
        for method in (NONE, *methods)
    ]


def measure(cell: Cell, options: Options) -> list[Row]:
    """One row per step; `share` is the number of rows appended, over the train rows."""
    limit = QUICK_ROWS if options.quick else None
    space = open_space(
        cell["dataset"], cell["run"], "standardised", options.data_dir, limit
    )
    rows = space.split.train
    seed = cell["run"]
    if cell["method"] == NONE:
        return [{"share": 0.0, **_learn(space, cell, None, np.empty(0, int), options)}]
    largest, step = _STEPS.get(cell["dataset"], _OTHER_STEPS)
    try:
        chosen = choose_up_to(
            cell["method"], space, rows, round(largest * rows.n), seed
        )
    except FwcError as error:
        return [{"note": str(error)}]
    order = rank(space, rows, chosen, seed)
    shares = [step * k for k in range(1, round(largest / step) + 1)][
        :: 5 if options.quick else 1
    ]
    return [
        {
            "share": share,
            **_learn(space, cell, chosen, order[: round(share * rows.n)], options),
        }
        for share in shares
    ]


def choose_up_to(method: str, space: Space, rows: Part, m: int, seed: int) -> Chosen:
    """The coreset of `method` with m representatives, or as many as there are fairlets."""
    if method.startswith("fairlets"):
        from evals.paper.fairlet_clustering import decompose
        from fwc_llm.coreset.rivals.base import as_rows

        among = as_rows(space.features(rows, "l1"), rows.y, rows.d)
        m = min(m, len(decompose(among, balance(rows.d), np.random.default_rng(seed))))
    return choose(method, space, rows, m, seed)


def rank(space: Space, rows: Part, chosen: Chosen, seed: int) -> np.ndarray:
    """Positions of representatives with positive weight, nearest first to a centroid of their
    own cell.
    """
    from evals.paper.rivals import kmeans

    found = kmeans(
        space.features(rows, "l1"), rows.y, rows.d, min(CENTROIDS, rows.n), seed=seed
    )
    centroids = space.table(found.points, found.sensitive, found.y)
    distance = cost_matrix(
        space.table(chosen.points, chosen.d, chosen.y), centroids, "l1"
    )
    distance[
        (chosen.d[:, None] != found.sensitive) | (chosen.y[:, None] != found.y)
    ] = np.inf
    order = np.argsort(distance.min(axis=1), kind="stable")
    return np.asarray(order[chosen.weights[order] > 0])


def _learn(
    space: Space,
    cell: Cell,
    chosen: Chosen | None,
    positions: np.ndarray,
    options: Options,
) -> Row:
    """The classifier of the train rows with these representatives appended."""
    rows = space.split.train
    test = space.split.test
    design = (
        space.design
        if cell["features"] == "with D"
        else lambda frame, d: space.design_without(frame)
    )
    X = design(rows.frame, rows.d)
    y = rows.y
    weights = np.ones(rows.n)
    if chosen is not None:
        X = np.vstack([X, design(chosen.points, chosen.d)[positions]])
        y = np.concatenate([y, chosen.y[positions]])
        weights = np.concatenate(
            [weights, (chosen.weights / chosen.weights.mean())[positions]]
        )
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    fitted = train(X, y, weights, cell["run"], epochs)
    return {
        "appended": len(positions),
        **asdict(judge(*fitted, design(test.frame, test.d), test.y, test.d)),
    }


EXPERIMENT = Experiment(
    name="augmentation",
    title="Representatives as additional training data",
    keys=("dataset", "features", "method", "run"),
    values=(
        "share",
        "appended",
        "dd",
        "auc",
        "odds",
        "accuracy",
        "trivial",
        "epochs",
        "note",
    ),
    plan=plan,
    measure=measure,
    report=report,
)
