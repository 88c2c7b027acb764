"""The memory of a fit, as numpy tells it, in units of the table as float32 numbers."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset

ROWS, COLUMNS = 32_768, 25


def units(form: str, cells: int, support: str) -> float:
    """What the fit of a table in this form holds at its peak, beside what the caller holds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y, sensitive = rng.integers(0, 2, ROWS), rng.integers(0, cells // 2, ROWS)
    table = X
    if form == "mixed":
        table = pd.DataFrame(X.astype(np.float64)).add_prefix("x")
        for k in range(15, COLUMNS):
            table[f"x{k}"] = pd.Categorical.from_codes(rng.integers(0, 8, ROWS), list("abcdefgh"))
    options = {"support": support, "random_state": 0, "n_jobs": 2, "max_iter": 4}
    FairCoreset(40, **options).fit(table, y, sensitive)  # all code is there now
    tracemalloc.start()
    try:
        FairCoreset(40, **options).fit(table, y, sensitive)
        return tracemalloc.get_traced_memory()[1] / (4 * ROWS * COLUMNS)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "cells", "support", "most"),
    [
        ("float32", 4, "free", 2.7),
        ("float32", 16, "free", 3.5),
        ("mixed", 4, "free", 4.7),
        ("mixed", 16, "free", 5.1),
        ("float32", 16, "rows", 3.9),
    ],
)
def test_a_fit_holds_a_few_tables(form: str, cells: int, support: str, most: float) -> None:
    assert units(form, cells, support) < most
