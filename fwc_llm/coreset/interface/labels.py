"""The cells of rows whose outcomes and protected levels may be left out, and each row's representative."""

from typing import Any

import numpy as np

from fwc_llm.coreset.descent.updates import Shares
from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.errors import InputError


def given_cells(y: Any, sensitive: Any, n: int, epsilon: float | None) -> Cells:
    """The cells of n rows; without a parity limit, `y` and `sensitive` may be None: all rows are alike."""
    if epsilon is not None and n == 1:
        raise InputError("X has 1 sample, but a parity limit compares at least two protected levels")
    if epsilon is not None and y is None:
        raise InputError(
            "a parity limit requires y to be passed, but the target y is None: pass y, or epsilon=None "
            "for no limit"
        )
    if epsilon is not None and sensitive is None:
        raise InputError(
            "a parity limit needs the protected levels: pass sensitive, one level a row (in a pipeline, by "
            "metadata routing), or epsilon=None for no limit"
        )
    alike = np.zeros(n, np.int8)
    return find_cells(alike if y is None else y, alike if sensitive is None else sensitive, n)


def main_labels(shares: Shares) -> np.ndarray:
    """(n,) the representative that carries most of each row; of equal parts, that of the lowest number."""
    labels = np.array(shares.label)
    for row in np.unique(shares.part_row):
        parts = shares.part_row == row
        carried = np.zeros(shares.m)
        np.add.at(carried, shares.part_label[parts], shares.part_weight[parts])
        carried[labels[row]] += 1 - carried.sum()
        labels[row] = carried.argmax()
    return labels
