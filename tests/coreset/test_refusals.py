"""What a fit refuses: parameters, tables, labels, weights and names, each in words of its own."""

from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from tests.command import corpus
from tests.coreset.people import people, quick
from tests.refusals import refused

N = 200
X, Y, D = people(N)
PAY = X[["pay"]]
NAMED = X.assign(sex=D, hired=Y)
ROWS = np.arange(N)
NONE = np.zeros(N, bool)
MEASURED = np.random.default_rng(0).normal(size=N)
TIMES = pd.Series(pd.date_range("2020-01-01", periods=N)).where(ROWS != 7)
NO_LABEL = "200 distinct values: bin it"
NO_VALUE = "sensitive has no value in row 7"
ONCE = "each of them once"
RANGE = "from 0 to 199"


def weight(value: Any) -> Any:
    """Weights of 1, but for row 7."""
    return pd.Series(1.0, ROWS, dtype=object).where(ROWS != 7, value)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": float("nan")}, "epsilon is nan"),
    ({"init": np.arange(3)}, "init must be m=12 row numbers"),
    ({"init": np.zeros(12, int)}, ONCE),
    ({"scale": np.array([1])}, "scale="),
    # cells and candidates
    ({"sensitive": ["f"] * N}, "one level only"),
    ({"y": np.where(D == "m", "no", Y)}, r"\(sensitive = m, y = yes\) has no rows"),
    ({"candidates": NONE}, "takes no candidates"),
    ({"support": "rows", "candidates": NONE}, "allow one of them as a candidate"),
    ({"support": "rows", "candidates": ROWS / 2}, "boolean mask"),
    ({"support": "rows", "candidates": [3, 5, 3]}, ONCE),
    ({"support": "rows", "candidates": [0, N]}, RANGE),
    ({"support": "rows", "candidates": [-1]}, RANGE),
    # labels
    ({"y": MEASURED}, NO_LABEL),
    ({"sensitive": MEASURED}, NO_LABEL),
    ({"sensitive": np.column_stack([MEASURED, NONE])}, NO_LABEL),
    ({"sensitive": TIMES}, NO_VALUE),
    ({"sensitive": TIMES.astype(object)}, NO_VALUE),
    ({"sensitive": pl.Series(["x"] * 7 + [None] + ["y"] * 192)}, NO_VALUE),
    ({"y": pd.Series(Y).where(ROWS != 2)}, "y has no value in row 2"),
    ({"y": X[["age", "pay"]]}, "one value per row"),
    # tables
    (
        {"X": PAY.assign(when=[timedelta(k) for k in range(N)])},
        "'when' holds timedelta",
    ),
    (
        {"X": PAY.assign(when=pd.period_range("2020-01", periods=N, freq="M"))},
        "'when' holds period",
    ),
    ({"X": PAY.assign(when=date(2020, 1, 1))}, "'when' holds date"),
    (
        {"X": PAY.assign(when=pd.date_range("2020-01-01", periods=N, tz="UTC"))},
        "'when' holds date",
    ),
    ({"X": PAY.assign(when=[[k] for k in ROWS])}, "'when' holds a list in row 0"),
    ({"X": np.ma.masked_greater(np.eye(N), 0.5)}, "masked values"),
    ({"X": csr_array(np.eye(N))}, r"Sparse data .* Use '.toarray\(\)'"),
    ({"X": np.eye(N) * 1j}, "Complex data not supported"),
    ({"X": np.full((N, 2), np.datetime64("2020-01-01"))}, "X holds dates"),
    ({"X": MEASURED}, r"shape \(200,\): give a table"),
    ({"X": np.empty((0, 3))}, r"shape \(0, 3\): give a table"),
    ({"X": [[1.0], [np.nan]]}, "contains NaN in row 1, column 0"),
    ({"X": [[1.0, 2.0], [1.0, -np.inf]]}, "contains infinity in row 1, column 1"),
    # names of columns
    (
        {"X": NAMED, "y": "z", "sensitive": "sex"},
        "y names the column 'z', which X does not have: it has 'town', 'pay'",
    ),
    (
        {"X": NAMED, "y": "hired", "sensitive": ["sex", "race"]},
        "sensitive names the column 'race'",
    ),
    ({"X": PAY.to_numpy(), "y": "hired"}, "the columns of X have no names"),
    # weights of rows
    ({"sample_weight": NONE}, "is zero"),
    (
        {"sample_weight": weight(-0.5)},
        "of row 7 is -0.5: weights are finite numbers of at least 0",
    ),
    ({"sample_weight": weight(np.nan)}, "of row 7 is nan"),
    ({"sample_weight": weight(np.inf)}, "of row 7 is inf"),
    ({"sample_weight": weight("x")}, "must be numbers"),
    ({"sample_weight": weight(None)}, "of row 7 is nan"),
    (
        {"sample_weight": weight(1).astype("Int64").where(ROWS != 7)},
        "must be numbers|of row 7 is nan|masked values",
    ),
    # weights of columns
    ({"column_weights": dict.fromkeys(X, 0)}, "are all 0: give at least one"),
]


@pytest.mark.parametrize(("change", "words"), [*corpus("mistakes/fits"), *REFUSED])
def test_what_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    given = {"m": 12, "X": X, "y": Y, "sensitive": D, **change}
    named = "X", "y", "sensitive", "candidates", "sample_weight"
    table = {name: given.pop(name) for name in named if name in given}
    with refused(words):
        quick(**given).fit(**table)
