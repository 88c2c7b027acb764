"""Plans of the inner problem as matrices."""

import numpy as np
from scipy.sparse import coo_array

from fwc_llm.coreset.transport.inner_problem import Transport


def plan_of(found: Transport) -> coo_array:
    """The plan (n, G), sparse float64 (n + s entries); a row sums to its mass."""
    n = len(found.cell)
    rest = np.ones(n)
    np.subtract.at(rest, found.split_row, found.split_share)
    row = np.append(np.arange(n), found.split_row)
    mass = np.append(rest, found.split_share) * found.row_mass[row]
    cell = np.append(found.cell, found.split_cell)
    return coo_array((mass, (row, cell)), shape=(n, len(found.mass)))
