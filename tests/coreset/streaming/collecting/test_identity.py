"""Check sums of blocks: every value counts, wherever it is."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.streaming.blocks import Source
from fwc_llm.coreset.streaming.sources.opening import open_source
from fwc_llm.coreset.streaming.survey import survey
from fwc_llm.errors import InputError
from tests.coreset.streaming.blocked import Blocks

N = 20_000


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    words = rng.choice(["cook", "clerk", "nurse"], N)
    return pd.DataFrame(
        {
            "text": words,
            "object": pd.Series(words, dtype=object),
            "kind": pd.Categorical(words),
            "grade": pd.Categorical(words, ordered=True),
            "flag": rng.integers(0, 2, N).astype(bool),
            "count": pd.array(rng.integers(0, 9, N), "Int64"),
            "number": rng.normal(size=N),
            "small": rng.integers(0, 9, N).astype(np.int8),
        }
    )


@pytest.mark.parametrize("form", ["frame", "array"])
def test_one_value_that_changes_in_a_large_block_is_found(form: str) -> None:
    rng = np.random.default_rng(1)
    y, d, weight = np.arange(N) % 2, np.arange(N) // 2 % 2, np.linspace(1, 2, N)
    rows: Any = table() if form == "frame" else rng.normal(size=(N, 3)).astype(np.float32)
    first = survey(given(rows, y, d, weight), sample=500)

    def read_again(*parts: Any) -> int:
        return given(*parts).reduce(lambda block: first.reader(block).index, max)

    assert read_again(rows, y, d, weight) == 0
    for row in (1, 777, N - 1):
        for k in range(rows.shape[1]):
            changed = rows.copy()
            if form == "frame":
                known = rows.iloc[:, k]
                changed.iloc[row, k] = next(value for value in known if value != known[row])
            else:
                changed[row, k] = np.nextafter(changed[row, k], np.float32(9))
            with pytest.raises(InputError, match="holds other rows than at the first reading"):
                read_again(changed, y, d, weight)
        for k in range(3):
            parts = [y.copy(), d.copy(), weight.copy()]
            parts[k][row] = 1 - parts[k][row] if k < 2 else 1.5
            with pytest.raises(InputError, match="holds other rows than at the first reading"):
                read_again(rows, *parts)


def given(*parts: Any) -> Source:
    """A source of one block."""
    source = open_source(Blocks(*parts, size=N), threads=1)
    assert source is not None
    return source
