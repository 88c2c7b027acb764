"""The memory of reading a table, as numpy tells it: no second copy of the numbers."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd

from fwc_llm.coreset.problem.encoding import encode


def peak(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_float64_array_is_read_where_it_is() -> None:
    X = np.random.default_rng(0).normal(size=(400_000, 10))  # far more than the rows whose scale is looked at
    assert peak(lambda: encode(X)) < 0.1 * X.nbytes


def test_a_frame_is_written_column_by_column_into_one_matrix() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 25))
    frame = pd.DataFrame(X)
    encode(frame)  # imports
    assert peak(lambda: encode(frame)) < 1.5 * X.nbytes
