"""Strategies from coresets (docs/baselines.md): FWC, clustering, and rows near the queried one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from fwc_llm.coreset.checks import check_whole
from fwc_llm.coreset.fit import CoresetFit
from fwc_llm.coreset.problem.encoding import Encoder, encode
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.rivals import clustering
from fwc_llm.coreset.rivals.base import sizes
from fwc_llm.errors import FwcError
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import examples
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import COUNTER, features_frame, make_shots, read_slots
from fwc_llm.shots.registry import strategy
from fwc_llm.shots.select import order_shots

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


@strategy(
    slots="balanced-positive",
    n_init=None,
    max_iter=300,
    column_weights=None,
    penalty=None,
    crossed=True,
    prove=False,
)
def fwc(
    request: Request,
    slots: Mapping[Any, int] | str | None,
    n_init: int | None,
    max_iter: int,
    column_weights: Mapping[str, float] | str | None,
    penalty: float | None,
    crossed: bool,
    prove: bool,
) -> Shots:
    """m weighted real rows distributed like the table, within the parity limit ε.

    Fair Wasserstein Coresets (Xiong, Dalmasso et al., NeurIPS 2024; docs/method.md) with
    representatives among the candidate rows, in order of weight, highest first. The distance is L1
    over z-scored features; a categorical mismatch, another protected level and another outcome cost
    1 each.

    Options:
    * `slots`: number of examples per cell (docs/method.md, "Slots"), a rule, a mapping, a text such
      as `Female:no=6,Female:yes=2,Male:no=6,Male:yes=2`, or `counter`, against the base rates;
    * `n_init`: number of starts; None: the solver chooses;
    * `max_iter`: iterations of one start, at most;
    * `column_weights`: weights of features in the distance, a mapping or a text such as
      `age=2,hours=0.5`; by default those of the task;
    * `penalty`: a soft limit instead of ε;
    * `crossed`: False applies ε to the levels of each protected attribute, not to their
        combinations;
    * `prove`: True adds a lower bound over all choices of rows (docs/method.md, "The outer bound").
    """
    task = request.task
    pool = request.pool
    given_slots = isinstance(slots, str) and (":" in slots or slots == COUNTER)
    counts = read_slots(slots, request) if given_slots else slots
    settings = _settings(
        task, request.m, request.epsilon, request.seed, column_weights, penalty
    )
    settings |= {
        "slots": counts,
        "max_iter": max_iter,
        **({} if n_init is None else {"n_init": n_init}),
    }
    estimator = CoresetFit(**settings, crossed=crossed, prove=prove).fit(
        features_frame(task, pool),
        task.labels(pool),
        task.sensitive(pool) if crossed else pool[list(task.protected)],
        candidates=request.candidates,
        sample_weight=request.weights,
    )
    chosen = replace(request, pool=pool.iloc[np.asarray(estimator.row_index_)])
    return _certified(chosen, estimator, slots if isinstance(slots, str) else "given")


def _settings(
    task: "Task",
    m: int,
    epsilon: float | None,
    seed: int,
    column_weights: Any,
    penalty: float | None,
) -> Json:
    """The arguments of the estimator; a penalty replaces ε."""
    if column_weights is None:
        features = {column.name for column in task.features}
        column_weights = {
            name: n for name, n in task.rules.column_weights.items() if name in features
        }
    elif isinstance(column_weights, str):
        pairs = (pair.rpartition("=") for pair in column_weights.split(","))
        try:
            column_weights = {name.strip(): float(weight) for name, _, weight in pairs}
        except ValueError:
            raise FwcError(
                f"column_weights={column_weights!r}: write COLUMN=WEIGHT,…, as in age=2,hours=0.5"
            ) from None
    for name in column_weights:
        task.column(name)
    settings = {
        "m": m,
        "support": "rows",
        "scale": True,
        "random_state": seed,
        "column_weights": column_weights or None,
    }
    return settings | {
        "epsilon": epsilon if penalty is None else None,
        "penalty": penalty,
    }


def _certified(request: Request, estimator: CoresetFit, slots: str) -> Shots:
    """Make shots with a certificate; the pool of `request` has only the m chosen rows."""
    recorded: Json = {
        "column_weights": estimator.column_weights,
        "penalty": estimator.penalty,
        "crossed": None if estimator.crossed else False,
        "prove": estimator.prove or None,
    }
    task = request.task
    rows = request.pool
    weights = np.asarray(estimator.weights_)
    sensitive = task.sensitive(rows)
    labels = task.labels(rows)
    options: Json = {"epsilon": estimator.epsilon, "slots": slots}
    options |= {name: value for name, value in recorded.items() if value is not None}
    counts = Counter(zip(sensitive.tolist(), labels.tolist(), strict=True))
    shots = make_shots(request, "fwc", range(len(rows)), weights, **options)
    certificate = {
        "objective": float(estimator.objective_),
        "lower_bound": float(estimator.lower_bound_),
        **(
            {}
            if estimator.outer_bound_ is None
            else {"outer_bound": estimator.outer_bound_}
        ),
        "violation": float(estimator.violation_),
        **({} if estimator.penalty is None else {"imbalance": estimator.imbalance_}),
        "slots": [
            {"level": str(level), "label": label, "count": counts[level, code]}
            for level, (code, label) in product(
                np.unique(sensitive).tolist(), enumerate(task.example_labels)
            )
        ],
        "rows": [example.row for example in shots.examples],
        "weights": [example.weight for example in shots.examples],
        "iterations": int(estimator.n_iter_),
        "restarts": estimator.n_starts_,
        "agreeing": estimator.n_agreeing_,
        "seed": shots.seed,
        "fingerprint": shots.fingerprint,
    }
    return replace(shots, certificate=certificate)


@strategy()
def fwc_counter(request: Request) -> Shots:
    """FWC's rows in slots against the base rates (docs/method.md, "Slots"), unweighted.

    Labels alternate: no, yes, no, … A lead, not a finding: in these slots one small model had a
    smaller gap with FWC's rows than with random ones, and a second one had not
    (evals/results/fairer-examples.md).
    """
    chosen = fwc(replace(request, options={"slots": COUNTER}))
    unweighted = tuple(replace(example, weight=None) for example in chosen.examples)
    drawn = replace(
        chosen, strategy="fwc-counter", examples=unweighted, certificate=None
    )
    return order_shots(drawn, "alternate")


@strategy(max_iter=300)
def kmeans(request: Request, max_iter: int) -> Shots:
    """The nearest row to each of m k-means centres, weighted by cluster size.

    In order of falling weight, each centre gets the nearest candidate left in its cell or, if none
    is left there, in any cell.
    """
    rows = examples.labelled_pool(request.task, request.pool, request.weights)
    points = rows.squared_points()
    check_whole("max_iter", max_iter, 1)
    clusters = clustering.lloyd(points, request.m, request.seed, max_iter, rows.mass)
    centres = clusters.cluster_centers_
    weights = sizes(clusters.labels_, request.m, rows)
    starts = np.cumsum([rows.n_numeric, *rows.sizes])[-3:-1]
    labels = [part.argmax(1) for part in np.split(centres, starts, axis=1)[1:]]
    half_norms = 0.5 * np.einsum("ij,ij->i", points, points)
    free = request.candidates.copy()
    chosen = np.empty(request.m, np.int64)
    for j in np.argsort(-weights, kind="stable"):
        cell = [label[j] for label in labels]
        allowed = np.flatnonzero(free & (rows.codes[:, -2:] == cell).all(axis=1))
        if not len(allowed):
            allowed = np.flatnonzero(free)
        away = half_norms[allowed] - (points @ centres[j])[allowed]
        chosen[j] = allowed[np.argmin(away)]
        free[chosen[j]] = False
    return make_shots(request, "kmeans", chosen, weights)


@strategy(metric="l1", max_passes=20)
def kmedoids(request: Request, metric: Literal["l1", "l2"], max_passes: int) -> Shots:
    """m medoids among the candidates, weighted by the size of their clusters."""
    check_whole("max_passes", max_passes, 1)
    rows = examples.labelled_pool(request.task, request.pool, request.weights)
    allowed = np.flatnonzero(request.candidates & (rows.mass > 0))
    rng = np.random.default_rng(request.seed)
    found, note = clustering.kmedoids(rows, request.m, rng, allowed, metric, max_passes)
    weights = sizes(found.labels, request.m, rows)
    return make_shots(request, "kmedoids", found.rows, weights, note, metric=metric)


_DIGITS = 9  # decimals of a distance that count, so that rounding breaks no tie


@strategy(per_row=True, within="all")
def nearest(request: Request, within: Literal["all", "cell"]) -> Shots:
    """The m candidates nearest to the queried row, nearest first, unweighted.

    The distance is FWC's without the outcome. Ties go to the earlier row. With `within="cell"`, the
    numbers of rows of two cells differ by at most one.
    """
    if request.query is None:
        raise FwcError(
            "nearest chooses examples for a queried row: pass query, or evaluate the strategy"
        )
    encoded = examples.once_a_pool(request, "nearest", lambda: _encode(request))
    distance = _distances(request.task, request.query, *encoded)
    distance[~request.candidates] = np.inf
    chosen = np.argsort(distance, kind="stable")[: request.m]
    if within == "cell":
        shares = examples.cell_shares(request)
        nearest_of_cells = (
            rows[np.argsort(distance[rows], kind="stable")[:wanted]]
            for _, rows, wanted in shares
        )
        chosen = np.concatenate([*nearest_of_cells])
        chosen = chosen[np.argsort(distance[chosen], kind="stable")]
    return examples.make_shots(request, "nearest", chosen, within=within)


def _encode(request: Request) -> tuple[Encoder, np.ndarray]:
    """Return the pool's encoder and its encoded rows (p, n)."""
    rows = examples.features_frame(request.task, request.pool, protected=True)
    encoder, table, _ = encode(rows, scale=True)
    return encoder, np.ascontiguousarray(table.values.T)


def _distances(
    task: "Task", query: Fields, encoder: Encoder, values: np.ndarray
) -> np.ndarray:
    """Return (n,) the distances of all rows to the query; an unseen category differs from all
    others.
    """
    query_row = examples.features_frame(
        task, pd.DataFrame([dict(query)]), protected=True
    )
    point = encoder.encode(query_row, strict=False, role="the queried row")
    return FeatureCost.of(point, "l1").between(values, point.values[0]).round(_DIGITS)
