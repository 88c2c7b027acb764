"""A table with a column of its own for every category, for what needs vectors: regressions and maps."""

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fwc_llm.coreset.problem.encoding import Encoder

if TYPE_CHECKING:
    import pandas as pd

MOST = 1000  # columns of what is squared


def one_hot(encoder: Encoder, frame: "pd.DataFrame") -> sparse.csr_array:
    """The rows (n, q) with a column of its own for every category; one never seen is all zeros.

    Half-scaled, so that a mismatch moves a row by 1 in L1, as the solver counts it
    (docs/method.md, "Ground cost and scaling"). Every row has one entry a column of the frame, so the matrix
    is as small as the frame.
    """
    table = encoder.encode(frame, strict=False)
    sizes = [len(column.values) for column in encoder.columns[table.n_numeric :]]
    starts = table.n_numeric + np.cumsum([0, *sizes[:-1]])
    data = np.hstack([table.numbers, np.where(table.codes >= 0, 0.5, 0.0)])
    numeric = np.broadcast_to(np.arange(table.n_numeric), table.numbers.shape)
    place = np.hstack([numeric, starts[: len(sizes)] + np.maximum(table.codes, 0)])
    rows = np.arange(table.n + 1) * table.p
    shape = (table.n, table.n_numeric + sum(sizes))
    return sparse.csr_array((data.ravel(), place.ravel(), rows), shape=shape)


def frequent(encoded: sparse.csr_array, most: int = MOST) -> np.ndarray:
    """The positions of the `most` columns with the most entries, in their order.

    A column of free text has thousands of categories: squared, they fill the memory and tell nothing.
    """
    entries = np.bincount(encoded.indices, minlength=encoded.shape[1])
    return np.sort(np.argsort(-entries, kind="stable")[:most])
