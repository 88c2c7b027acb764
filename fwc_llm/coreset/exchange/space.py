"""Where swaps are sought: rows and points, and what it costs that a point stands for a row."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Space:
    """n rows, and the prices of the cells.

    The cost of a row at a point of cell g is F less the price of g, or F² less it, where F is a metric. In L1
    and L2 F is the distance of the numbers, plus 1 for every code that differs, plus what `move` says of the
    two cells; in L2 it is the root of such a sum of squares. The cost "sqeuclidean" is F² of L2.

    `values` (n, p) float32 are `n_numeric` columns of numbers, then codes. `cell` (n,) is each row's cell,
    `move` (G, G) symmetric, `prices` (G,), and `cost` "l1", "l2" or "sqeuclidean". `mass` (n,)
    float32 says how much each row counts; None stands for 1.
    """

    values: np.ndarray
    n_numeric: int
    cell: np.ndarray
    move: np.ndarray
    prices: np.ndarray
    cost: str
    mass: np.ndarray | None = None


@dataclass(frozen=True)
class Points:
    """m points: `values` (m, p) float32, `cells` (m,), and `keys` (m,), −1 for what is no row."""

    values: np.ndarray
    cells: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Nearest:
    """The two nearest points of every row: `first` and `second` (n,), and what the row costs there.

    A single point has no second: −1, and a cost that no row can exceed.
    """

    first: np.ndarray
    second: np.ndarray
    d_first: np.ndarray
    d_second: np.ndarray

    def removal(self, m: int, mass: np.ndarray | None) -> np.ndarray:
        """(m,) by how much the loss of rows of this `mass` rises without each point."""
        rises = self.d_second.astype(np.float64) - self.d_first
        if mass is not None:
            rises *= mass
        return np.bincount(self.first, rises, minlength=m)
