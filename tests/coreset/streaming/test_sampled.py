"""A table in blocks that fits into the sample is fitted as in memory, to the last bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset


@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_table_that_fits_gives_the_fit_in_memory(tmp_path: Path, support: str) -> None:
    rng = np.random.default_rng(3)
    n = 500
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "debt": rng.normal(1e6, 3, n),
            "job": rng.choice(["cook", "clerk"], n),
            "rank": pd.Categorical(rng.choice(["lo", "hi"], n), ["lo", "hi"], ordered=True),
            "y": rng.choice(["no", "yes"], n),
            "d": rng.choice(["f", "m"], n),
            "w": rng.integers(0, 4, n) / 3,
        }
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=150)
    blocks = [frame[:100], frame[100:350], frame[350:]]
    rows = frame[["age", "debt"]].to_numpy()
    np.save(tmp_path / "x.npy", rows)

    def fitted(*given: Any, **named: Any) -> list[Any]:
        drawn = np.random.default_rng(5)
        found = FairCoreset(8, random_state=drawn, support=support, max_iter=5, scale=True)
        found.fit(*given, **named)
        index = [] if found.row_index_ is None else found.row_index_.tolist()
        parts = found.weights_, found.labels_, found.y_, found.sensitive_, np.asarray(found.representatives_)
        return [found.objective_, index, *(np.asarray(part).tolist() for part in parts)]

    for weight in ("w", None):
        names: dict[str, Any] = {"y": "y", "sensitive": "d", "sample_weight": weight}
        inner = fitted(frame, **names)
        assert fitted(tmp_path / "t.parquet", **names) == inner
        assert fitted(blocks, **names) == inner
        labels = frame["y"], frame["d"], None, weight and frame[weight]
        assert fitted(tmp_path / "x.npy", *labels) == fitted(rows, *labels)
