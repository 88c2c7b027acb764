"""The caller's input, checked and encoded: parameters and rows."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from fwc_llm.coreset.checks import check_choice, check_epsilon, check_not_negative, check_penalty
from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.encoding import ColumnWeights, Encoder, encode
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
    masses: Masses | None  # None: 1 per row
    used: np.ndarray | None  # (n',) positions of these rows in X; None: all rows
    n: int  # number of rows of X
    has_y: bool  # whether outcomes were given
    has_levels: bool

    def of_all(self, values: np.ndarray) -> np.ndarray:
        """Select from `values`, one per row of X, those of the encoded rows."""
        return values if self.used is None else values[self.used]

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Positions in X of some encoded rows."""
        return rows if self.used is None else self.used[rows]


@dataclass(frozen=True)
class ProblemParams:
    """The parameters that `FairCoreset` (documented there) and `certify` share."""

    epsilon: float | Mapping[Any, float] | None
    cost: str
    target: Any
    cost_sensitive: float
    cost_outcome: float
    scale: bool | str
    column_weights: ColumnWeights = None
    penalty: float | None = None
    crossed: bool = True

    def __post_init__(self) -> None:
        check_choice("cost", self.cost, tuple(COSTS))
        check_epsilon(self.epsilon)
        check_penalty(self.penalty, self.epsilon)
        if not isinstance(self.crossed, bool) or (self.penalty is not None and not self.crossed):
            raise InputError(f"crossed={self.crossed!r}: use True or, without a penalty, False")
        check_not_negative("cost_sensitive", self.cost_sensitive)
        check_not_negative("cost_outcome", self.cost_outcome)

    @classmethod
    def of(cls, model: Any) -> Self:
        """Read the parameters of an estimator, and check them."""
        return cls(*(getattr(model, field.name) for field in fields(cls)))

    def read(self, columns: Columns) -> EncodedInput:
        """Check and encode rows; those of weight 0 are checked, then left out."""
        X, y, sensitive, sample_weight = take_named(*columns)
        encoder, table, masses = encode(
            X, self.scale, sample_weight, self.column_weights, self.cost
        )
        n = table.n
        constrained = is_constrained(self)
        if constrained and n == 1:
            raise InputError(
                "X has 1 sample, but a parity limit compares at least two protected levels"
            )
        if constrained and y is None:
            raise InputError(
                "a parity limit requires y to be passed, but the target y is None: pass y, or "
                "epsilon=None "
                "for no limit"
            )
        if constrained and sensitive is None:
            raise InputError(
                "a parity limit needs the protected levels: pass sensitive, one level a row (in a "
                "pipeline, "
                "by metadata routing), or epsilon=None for no limit"
            )
        cells = find_cells(y, sensitive, n, masses)
        if constrained and cells.n_levels == 1:
            raise InputError(
                f"sensitive has one level only ({cells.labels(0)[0]}), but parity needs at least "
                f"two: "
                "pass another attribute, or epsilon=None"
            )
        if masses is None:
            used = None
        else:
            used = masses.positive
        if masses is not None and used is not None:
            table = table.take(used)
            masses = masses.take(used)
        check_costs(table, self.cost)
        return EncodedInput(
            X, encoder, table, cells, masses, used, n, y is not None, sensitive is not None
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
