"""The share of rows that the optimal plan of FWC moves to another cell, level or outcome.

The plan minimises a distance, not a number of rows. If a change of cell costs little compared to
the features, it moves more rows than parity requires. `least` is the share that parity requires:
the smallest share of rows that have to change their cell.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evals.paper.data import UNITS, open_space
from evals.paper.experiment import (
    DATASETS,
    Cell,
    Experiment,
    Options,
    Row,
    sizes,
    smaller_first,
)
from evals.paper.methods import FWC, choose
from evals.paper.tables import percent
from evals.plans import plan_of
from evals.record import markdown
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.transport.inner_problem import fair_transport

if TYPE_CHECKING:
    import pandas as pd

QUICK_ROWS = 300
METHOD = "fwc-0.01"


def plan(options: Options) -> list[Cell]:
    """Every data set, run, unit and size; the smaller tables first."""
    return [
        {"dataset": dataset, "units": units, "size": size, "run": run}
        for dataset in smaller_first(options.datasets)
        for run, units in product(range(options.runs), UNITS)
        for size in sizes(dataset, options.quick)
    ]


def measure(cell: Cell, options: Options) -> list[Row]:
    """The shares of rows that the optimum of one coreset moves."""
    limit = QUICK_ROWS if options.quick else None
    space = open_space(
        cell["dataset"], cell["run"], cell["units"], options.data_dir, limit
    )
    train = space.split.train
    chosen = choose(METHOD, space, train, round(cell["size"] * train.n), cell["run"])
    cells = find_cells(train.y, train.d, train.n)
    level, outcome = np.divmod(np.arange(cells.n_cells), cells.n_outcomes)
    positions = {
        (d, y): g
        for g, (d, y) in enumerate(
            product(cells.levels.tolist(), cells.outcomes.tolist())
        )
    }
    place = np.array(
        [
            positions[key]
            for key in zip(chosen.d.tolist(), chosen.y.tolist(), strict=True)
        ]
    )
    distance = cost_matrix(
        space.rows(train, "l1"), space.table(chosen.points, chosen.d, chosen.y), "l1"
    )
    cost = np.full((train.n, cells.n_cells), np.inf)
    for g in np.unique(place):
        cost[:, g] = distance[:, place == g].min(axis=1)
    target = np.bincount(train.y, minlength=2) / train.n
    shape = (cells.n_levels, cells.n_outcomes)
    epsilon = FWC[METHOD]
    found = fair_transport(cost, *shape, target, epsilon)
    elsewhere = (np.arange(cells.n_cells) != cells.cell[:, None]).astype(float)
    to = plan_of(found)
    own = cells.cell[to.row]
    return [
        {
            "m": len(chosen.d),
            "cell": float(to.data[to.col != own].sum()),
            "level": float(to.data[level[to.col] != level[own]].sum()),
            "outcome": float(to.data[outcome[to.col] != outcome[own]].sum()),
            "least": fair_transport(elsewhere, *shape, target, epsilon).objective,
            "distance": found.objective,
            "solver": chosen.objective,
        }
    ]


def report(frame: "pd.DataFrame", folder: Path) -> str:
    """Markdown: the smallest and the largest mean share over sizes, by data set and units."""
    shares = ["cell", "least", "level", "outcome"]
    means = (
        frame.groupby(["dataset", "units", "size"])[[*shares, "distance"]]
        .mean()
        .reset_index()
    )
    head = [
        "data set",
        "units",
        "change their cell",
        "at least",
        "change their level",
        "their outcome",
    ]
    head += ["mean distance"]
    lines = []
    for dataset, units in product(DATASETS, UNITS):
        here = means[(means["dataset"] == dataset) & (means["units"] == units)]
        if here.empty:
            continue
        line = [
            DATASETS[dataset],
            units,
            *(_range(here[column].tolist(), percent) for column in shares),
        ]
        lines.append([*line, _range(here["distance"].tolist(), "{:.3g}".format)])
    return (
        "Share of the train rows that the optimal plan of FWC (ε 0.01, free representatives) "
        "moves, smallest "
        "and largest mean over the sizes. *At least*: what parity alone asks for. A change of "
        "level or of "
        "outcome costs 1; the mean distance says how that compares with the features.\n\n"
        f"{markdown(head, lines)}\n"
    )


def _range(values: list[float], written: Callable[[float], str]) -> str:
    low = written(min(values))
    high = written(max(values))
    if low == high:
        return low
    return f"{low} – {high}"


EXPERIMENT = Experiment(
    name="moves",
    title="Rows that the optimal plan moves between cells",
    keys=("dataset", "units", "size", "run"),
    values=("m", "cell", "level", "outcome", "least", "distance", "solver"),
    plan=plan,
    measure=measure,
    report=report,
)
