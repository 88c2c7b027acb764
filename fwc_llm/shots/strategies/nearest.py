"""`nearest`: the table's rows most like the queried row."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import features_frame, make_shots
from fwc_llm.shots.registry import strategy

if TYPE_CHECKING:
    from fwc_llm.coreset.problem.encoding import Encoder


_DIGITS = 9  # digits of a distance that count, so that rounding breaks no tie


@strategy(per_row=True, within="all")
def nearest(request: Request, within: str) -> Shots:
    """The m candidates nearest to the queried row, nearest first, unweighted.

    Cherepanova et al., *Improving LLM Group Fairness on Tabular Data via In-Context Learning* (2025). The
    distance is FWC's without the outcome: L1 over z-scored numbers, 1 for a categorical mismatch and 1 for
    another protected level. Ties go to the earlier row.

    Options: `within="all"`, or `"cell"` for the nearest rows of every cell of protected level and outcome, in
    numbers that differ by at most one.

    Errors: `FwcError` without a queried row, for one that lacks a feature, and for a cell that is too small.
    """
    if request.query is None:
        raise FwcError("nearest chooses examples for a queried row: pass query, or use it in `fwc-llm eval`")
    if within not in {"all", "cell"}:
        raise FwcError(f"within is {within!r}: choose 'all' or 'cell'")
    pool = _Pool.of(request)
    distance = pool.distances(request.query)
    distance[~request.candidates] = np.inf
    if within == "all":
        chosen = _smallest(distance, request.m)
    else:
        chosen = np.concatenate(
            [rows[_smallest(distance[rows], wanted)] for rows, wanted in _shares(pool, request)]
        )
        chosen = chosen[np.argsort(distance[chosen], kind="stable")]
    return make_shots(request, "nearest", chosen, within=within)


def _smallest(distance: np.ndarray, m: int) -> np.ndarray:
    """Positions of the m smallest, ascending, ties to the earlier."""
    if m >= len(distance):
        return np.argsort(distance, kind="stable")
    limit = np.partition(distance, m - 1)[m - 1] if m else -np.inf
    within = np.flatnonzero(distance <= limit)
    return np.asarray(within[np.argsort(distance[within], kind="stable")][:m])


def _shares(pool: "_Pool", request: Request) -> list[tuple[np.ndarray, int]]:
    """Each cell's candidates and how many of them are wanted."""
    shares = []
    for number, (name, rows) in enumerate(pool.cells.items()):
        wanted = request.m // len(pool.cells) + (number < request.m % len(pool.cells))
        rows = rows[request.candidates[rows]]
        if wanted > len(rows):
            raise FwcError(
                f"the cell {name} is too small: it must give {wanted} examples, and "
                f"{len(rows)} rows may become examples; lower m"
            )
        shares.append((rows, wanted))
    return shares


@dataclass(frozen=True)
class _Pool:
    """A pool encoded once for all queries: `columns` are its table's numbers (k, n) and codes (c, n)."""

    encoder: "Encoder"
    columns: tuple[np.ndarray, np.ndarray]
    cells: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, request: Request) -> "_Pool":
        """The encoded pool; the last one is cached until its pool is deleted."""
        key = (id(request.pool), request.task.name, request.task.fingerprint)
        if key not in _kept:
            _kept.clear()
            _kept[key] = cls._encode(request)
            weakref.finalize(request.pool, partial(_kept.pop, key, None))
        return _kept[key]

    @classmethod
    def _encode(cls, request: Request) -> "_Pool":
        from fwc_llm.coreset.problem.encoding import Encoder
        from fwc_llm.shots.examples import LABELS

        task, pool = request.task, request.pool
        encoder, table = Encoder.fit(features_frame(task, pool, protected=True))
        sensitive, labels = task.sensitive(pool), task.labels(pool)
        cells = {
            f"'{level}', {LABELS[label]!r}": np.flatnonzero((sensitive == level) & (labels == label))
            for level in np.unique(sensitive)
            for label in (0, 1)
        }
        columns = np.ascontiguousarray(table.numbers.T), np.ascontiguousarray(table.codes.T)
        return cls(encoder, columns, cells)

    def distances(self, query: Mapping[str, Any]) -> np.ndarray:
        """(n,) distance of every row to the query; an unseen category differs from all."""
        from fwc_llm.coreset.problem.ground_cost import column_costs

        numbers: list[float] = []
        codes: list[int] = []
        for column in self.encoder.columns:
            if column.name not in query:
                raise FwcError(f"the queried row has no value for {str(column.name)!r}")
            value = query[column.name]
            if column.kind == "categorical":
                codes.append(column.place(str(value)))
                continue
            if column.kind == "ordinal":
                value = column.place(value)
            try:
                numbers.append((float(value) - column.mean) / column.scale)
            except (TypeError, ValueError):
                raise FwcError(
                    f"the queried row has {value!r} for {str(column.name)!r}, which is no number"
                ) from None
        costs = column_costs(*self.columns, np.array(numbers), np.array(codes), "l1")
        return costs.round(_DIGITS)


_kept: dict[tuple[int, str, str], _Pool] = {}
