"""The group of every row: its protected levels, crossed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def crossed(frame: "pd.DataFrame", protected: Sequence[str]) -> "np.ndarray":
    """The protected level (n,) of every row as str; several attributes are crossed with " & "."""
    levels = frame[protected[0]]
    for name in protected[1:]:
        levels = levels + " & " + frame[name]
    return levels.to_numpy(dtype=str)
