"""Turn a task's rows into `Shots`: functions that strategies share."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.shots.base import Example, Request, Shots

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.coreset.rivals.base import Coreset, LabelledTable
    from fwc_llm.tasks import Task

LABELS = ("no", "yes")


def make_shots(
    request: Request,
    strategy: str,
    positions: "Sequence[int] | np.ndarray",
    weights: "np.ndarray | None" = None,
    certificate: Mapping[str, Any] | None = None,
    **options: Any,
) -> Shots:
    """The rows of the pool at `positions`, in this order, as shots.

    `weights` (m,) are scaled so that they sum to m; None makes unweighted shots. `options` are recorded
    beside m, so that the file says how its examples were chosen.
    """
    rows = request.pool.iloc[np.asarray(positions, dtype=np.int64)]
    return Shots(
        strategy=strategy,
        task=request.task.name,
        fingerprint=request.task.fingerprint,
        protected=request.task.protected,
        seed=request.seed,
        examples=make_examples(request.task, rows, weights),
        certificate=certificate,
        options={"m": request.m, **options},
    )


def make_examples(
    task: "Task", rows: "pd.DataFrame", weights: "np.ndarray | None" = None
) -> tuple[Example, ...]:
    """Rows of the table, in this order, as examples; `weights` (m,) are scaled so that they sum to m."""
    labels = task.labels(rows)
    theta: list[float | None] = [None] * len(rows)
    if weights is not None and len(rows):
        theta = [float(weight) for weight in np.asarray(weights, float) * (len(rows) / np.sum(weights))]
    names = [column.name for column in task.shown]
    return tuple(
        Example(str(row), {name: plain(values[name]) for name in names}, LABELS[int(label)], weight)  # type: ignore[arg-type]
        for row, values, label, weight in zip(rows.index, rows.to_dict("records"), labels, theta, strict=True)
    )


def make_weighted(
    request: Request,
    strategy: str,
    positions: "Sequence[int] | np.ndarray | None",
    weights: np.ndarray,
    note: str = "",
    **options: Any,
) -> Shots:
    """Weighted shots in order of weight, highest first; a `note` names any bound that was applied."""
    order = np.argsort(-np.asarray(weights, float), kind="stable")
    chosen = np.asarray(positions, np.int64)[order]
    if note:
        options["note"] = note
    return make_shots(request, strategy, chosen, np.asarray(weights)[order], None, **options)


def plain(value: Any) -> Any:
    """A cell as a plain Python int, float or str."""
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, (int, float)) and math.isfinite(value) else str(value)


def cell_positions(request: Request) -> dict[tuple[str, str], np.ndarray]:
    """The candidates of every cell: (protected level, "no" or "yes") -> positions in the pool.

    Levels are in sorted order, "no" before "yes"; every level of the table has both cells, if only as an
    empty array.
    """
    sensitive = request.task.sensitive(request.pool)
    labels = request.task.labels(request.pool)
    return {
        (str(level), LABELS[label]): np.flatnonzero(
            (sensitive == level) & (labels == label) & request.candidates
        )
        for level in np.unique(sensitive)
        for label in (0, 1)
    }


def draw(request: Request, rng: np.random.Generator, rows: np.ndarray, count: int) -> np.ndarray:
    """`count` of the rows (positions), without replacement: uniformly, or in proportion to their weights."""
    if request.weights is None:
        return np.asarray(rng.choice(rows, count, replace=False))
    from fwc_llm.coreset.weights import random_order

    return np.asarray(rows[random_order(request.weights[rows], rng)[:count]])


def shuffle(request: Request, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """The rows (positions) in random order, the first drawn as `draw` draws them."""
    return rng.permutation(rows) if request.weights is None else draw(request, rng, rows, len(rows))


def features_frame(task: "Task", frame: "pd.DataFrame", protected: bool = False) -> "pd.DataFrame":
    """The columns that distances are measured on, in file order: the features, `protected` ones on request.

    Ordinal columns become ordered categoricals, so that encoders know their ranks.
    """
    import pandas as pd

    chosen = {column.name for column in task.features} | (set(task.protected) if protected else set())
    columns = [column for column in task.columns if column.name in chosen]
    table = frame[[column.name for column in columns]].copy()
    for column in columns:
        if column.kind == "ordinal":
            table[column.name] = pd.Categorical(
                table[column.name], categories=list(column.order), ordered=True
            )
        elif column.kind == "categorical":
            table[column.name] = table[column.name].astype(str)
    return table


def labelled_pool(task: "Task", pool: "pd.DataFrame", weights: np.ndarray | None = None) -> "LabelledTable":
    """The rows of the pool as points: features, protected level and answer, encoded as FWC encodes them."""
    from fwc_llm.coreset.rivals.base import as_rows

    return as_rows(features_frame(task, pool), task.labels(pool), task.sensitive(pool), weights)


def rival_coreset(request: Request, name: str, **options: Any) -> "Coreset":
    """The coreset of the pool by the named rival, chosen from the candidates."""
    from fwc_llm.coreset import rivals

    task, pool = request.task, request.pool
    choose = getattr(rivals, name)
    return choose(  # type: ignore[no-any-return]
        features_frame(task, pool),
        task.labels(pool),
        task.sensitive(pool),
        request.m,
        request.seed,
        candidates=request.candidates,
        **({} if request.weights is None else {"sample_weight": request.weights}),
        **options,
    )


def alternate(no: "Sequence[int] | np.ndarray", yes: "Sequence[int] | np.ndarray") -> list[int]:
    """Positions with labels alternating no, yes, …; the rest of the longer list comes last."""
    paired = min(len(no), len(yes))
    mixed = [int(position) for pair in zip(no, yes, strict=False) for position in pair]
    return mixed + [int(position) for position in (*no[paired:], *yes[paired:])]
