"""The caller's rows, checked and encoded."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.checks import (
    check_choice,
    check_epsilon,
    check_not_negative,
    check_penalty,
)
from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.encoding import Encoder, encode
from fwc_llm.coreset.problem.frames import Columns, take_named
from fwc_llm.coreset.problem.ground_cost import COSTS, check_costs
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class EncodedInput:
    """The encoded rows of X with a positive weight."""

    X: Any
    encoder: Encoder
    table: EncodedTable
    cells: Cells
    masses: Masses
    used: Array  # (n',) positions of these rows in X
    n: int  # number of rows of X
    has_y: bool  # whether outcomes were given
    has_levels: bool


def check_terms(params: Any) -> None:
    """Check the parameters of an estimator that set its problem (`FairCoreset` documents them)."""
    check_choice("cost", params.cost, tuple(COSTS))
    check_epsilon(params.epsilon)
    check_penalty(params.penalty, params.epsilon)
    if not isinstance(params.crossed, bool) or (
        params.penalty is not None and not params.crossed
    ):
        raise InputError(
            f"crossed={params.crossed!r}: use True or, without a penalty, False"
        )
    check_not_negative("cost_sensitive", params.cost_sensitive)
    check_not_negative("cost_outcome", params.cost_outcome)


def read_rows(params: Any, columns: Columns) -> EncodedInput:
    """Check and encode rows for an estimator; those of weight 0 are checked, then left out."""
    X, y, sensitive, sample_weight = take_named(*columns)
    encoder, table, masses = encode(
        X, params.scale, sample_weight, params.column_weights, params.cost
    )
    n = table.n
    if is_constrained(params):
        _check_labels(y, sensitive, n)
    cells = find_cells(y, sensitive, n, masses)
    if is_constrained(params) and cells.n_levels == 1:
        raise InputError(
            f"sensitive has one level only ({cells.labels(0)[0]}), but parity needs at least two: "
            "pass another attribute, or --epsilon none"
        )
    used = masses.positive
    if len(used) < n:
        table = table.take(used)
        masses = masses.take(used)
    check_costs(table, params.cost)
    return EncodedInput(
        X, encoder, table, cells, masses, used, n, y is not None, sensitive is not None
    )


def _check_labels(y: Any, sensitive: Any, n: int) -> None:
    """Refuse rows to which no limit can apply."""
    if n == 1:
        raise InputError(
            "X has 1 sample, but a parity limit compares at least two protected levels"
        )
    if y is None:
        raise InputError(
            "a parity limit requires y to be passed, but the target y is None: pass y, or "
            "--epsilon none for no limit"
        )
    if sensitive is None:
        raise InputError(
            "a parity limit needs the protected levels: pass sensitive, one level a row (in a "
            "pipeline, by metadata routing), or --epsilon none for no limit"
        )


def is_constrained(terms: Any) -> bool:
    """Whether the parameters have a parity limit or a penalty."""
    return terms.epsilon is not None or terms.penalty is not None


def set_features(model: Any, rows: EncodedInput) -> None:
    """Set a model's `n_features_in_` and, for a DataFrame, `feature_names_in_`."""
    model.n_features_in_ = rows.table.p
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if rows.encoder.dtype is None:
        model.feature_names_in_ = np.array(rows.encoder.order, dtype=object)
