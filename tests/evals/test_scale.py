"""The benchmark of tables beyond memory: the same rows in every form."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from evals.bench import scale


def test_both_forms_hold_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "PART", 40)
    scale.write_arrays(100, tmp_path)
    scale.write_parquet(100, tmp_path)
    x, y, d = scale.opened(tmp_path, "arrays")
    pattern, *names = scale.opened(tmp_path, "parquet")
    files = sorted(Path(pattern).parent.glob(Path(pattern).name))
    frame = pq.ParquetDataset(files).read().to_pandas()
    assert len(files) == 3
    assert np.array_equal(frame.drop(columns=names).to_numpy(), x)
    assert frame["y"].tolist() == y.tolist()
    assert frame["d"].tolist() == d.tolist()
