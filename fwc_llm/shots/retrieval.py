"""Examples near the queried row (docs/baselines.md)."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from fwc_llm.coreset.problem.encoding import Encoder, encode
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.errors import FwcError
from fwc_llm.sanitize import Fields
from fwc_llm.shots import examples
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.registry import strategy

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

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
    if within == "all":
        chosen = _smallest(distance, request.m)
    else:
        shares = examples.cell_shares(request)
        chosen = np.concatenate(
            [rows[_smallest(distance[rows], wanted)] for _, rows, wanted in shares]
        )
        chosen = chosen[np.argsort(distance[chosen], kind="stable")]
    return examples.make_shots(request, "nearest", chosen, within=within)


def _smallest(distance: np.ndarray, m: int) -> np.ndarray:
    """Return the positions of the m smallest distances, ascending; ties: the earlier row."""
    if m >= len(distance):
        return np.argsort(distance, kind="stable")
    if m:
        limit = np.partition(distance, m - 1)[m - 1]
    else:
        limit = -np.inf
    within = np.flatnonzero(distance <= limit)
    return np.asarray(within[np.argsort(distance[within], kind="stable")][:m])


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
