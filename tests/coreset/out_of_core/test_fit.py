"""Tables beyond memory: the certificate is that of the whole table, however its rows are cut and
read.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.out_of_core import block_tables, certifying_pass
from fwc_llm.notices import SampleWarning
from tests.coreset.people import consistent, people
from tests.refusals import refused

N = 5000
M = 6


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables have more rows than the samples, and several blocks."""
    monkeypatch.setattr("fwc_llm.coreset.problem.ground_cost.L1.sampled", 300)
    monkeypatch.setattr("fwc_llm.coreset.problem.ground_cost.SQUARED_L2.sampled", 400)
    monkeypatch.setattr(block_tables, "BLOCK_ROWS", 1024)


def made(
    levels: int = 2, dtype: Any = np.float32, ties: bool = False, n: int = N
) -> tuple[Any, Any, Any]:
    """Rows, outcomes and levels that are not fair; `ties`: of small whole numbers."""
    rng = np.random.default_rng(0)
    d = rng.integers(0, levels, n)
    x = rng.normal(0, [1, 2, 1, 0.5], size=(n, 4)) + 0.2 * d[:, None]
    y = (x[:, 0] + rng.normal(size=n) > 0.5 * d).astype(int)
    values = (np.round(2 * x) if ties else x).astype(dtype)
    return pd.DataFrame(values, columns=list("abef")), y, d


def on_disk(folder: Path, x: pd.DataFrame, y: Any, d: Any, **more: Any) -> Any:
    """The table in a file, and the names of its labels: what `fit` takes."""
    path = folder / "table.parquet"
    x.assign(y=y, d=d, **more).to_parquet(path, row_group_size=700)
    weight = {"sample_weight": "w"} if more else {}
    return {"X": path, "y": "y", "sensitive": "d", **weight}


def model(**options: Any) -> FairCoreset:
    """A fit by blocks, of one start: what is searched is of other tests."""
    return FairCoreset(M, sample=1, swaps=False, random_state=0, **options)


def read(folder: Path, x: pd.DataFrame, y: Any, d: Any, **options: Any) -> FairCoreset:
    """A fit of the table in a file, as `model` says."""
    return model(**options).fit(**on_disk(folder, x, y, d))


def check(fitted: FairCoreset, X: Any, y: Any, d: Any, weight: Any = None) -> None:
    """The certificate is what the whole table in memory gives for the same representatives."""
    consistent(fitted, X, y, d, weight)
    assert fitted.labels_ is None


@pytest.mark.parametrize(
    ("options", "table"),
    [
        ({}, {}),
        ({"epsilon": None}, {"dtype": np.float64}),
        ({"epsilon": 0, "cost": "sqeuclidean"}, {"dtype": np.float64}),
        ({"epsilon": 0.05, "scale": True}, {"levels": 3}),
        ({"epsilon": 0}, {"ties": True}),
        ({"scale": True, "column_weights": [2, 1, 0, 0.5]}, {}),
        ({"column_weights": {"a": 3.0}}, {"dtype": np.float64}),
    ],
)
def test_the_certificate_is_that_of_the_whole_table(
    tmp_path: Path, options: Any, table: Any
) -> None:
    x, y, d = made(**table)
    fitted = read(tmp_path, x, y, d, n_init=3, **options)
    check(fitted, x, y, d)
    here = FairCoreset(M, n_init=3, swaps=False, random_state=0, **options).fit(x, y, d)
    assert fitted.objective_ == pytest.approx(here.objective_, rel=0.03)


@pytest.mark.parametrize("support", ["rows", "features"])
def test_representatives_are_rows_of_the_table(tmp_path: Path, support: str) -> None:
    x, y, d = made()
    fitted = read(tmp_path, x, y, d, support=support)
    rows = fitted.row_index_
    pd.testing.assert_frame_equal(fitted.representatives_, x.iloc[rows])
    assert len(set(rows.tolist())) == M
    if support == "rows":
        np.testing.assert_array_equal(fitted.y_, y[rows])
        np.testing.assert_array_equal(fitted.sensitive_, d[rows])
    check(fitted, x, y, d)


def test_columns_of_all_kinds_and_weights(tmp_path: Path) -> None:
    X, y, d = people(N)
    rng = np.random.default_rng(1)
    weight = np.where(rng.random(N) < 0.1, 0, rng.lognormal(0, 1, N))
    X = X.assign(far=rng.normal(1e6, 3, N), truth=rng.random(N) < 0.3)
    X["town"] = X["town"].mask(weight == 0, "only without weight")
    frame = X.assign(y=y, d=d, r=rng.integers(0, 2, N), w=weight)
    for k in range(3):
        part = frame.iloc[k * 1700 : (k + 1) * 1700]
        part.to_parquet(tmp_path / f"{k}.parquet", row_group_size=300)
    there = FairCoreset(8, sample=1, swaps=False, random_state=0).fit(
        str(tmp_path / "*.parquet"), "y", ["d", "r"], sample_weight="w"
    )
    check(there, X, y, frame[["d", "r"]], weight)
    assert there.representatives_["town"].dtype == X["town"].dtype
    assert there.feature_names_in_.tolist() == list(X.columns)


def test_threads_and_files_change_nothing(tmp_path: Path) -> None:
    x, y, d = made()
    frame = x.assign(y=y, d=d)
    for name, step in (("a", 1700), ("b", 701)):
        (tmp_path / name).mkdir()
        for low in range(0, N, step):
            frame.iloc[low : low + step].to_parquet(
                tmp_path / name / f"{low:06}.parquet", row_group_size=200
            )
    fits = [
        model(n_jobs=jobs).fit(tmp_path / name, y="y", sensitive="d")
        for name, jobs in (("a", 1), ("a", 3), ("b", 2))
    ]
    for other in fits[1:]:
        pd.testing.assert_frame_equal(other.representatives_, fits[0].representatives_)
        assert other.objective_ == fits[0].objective_
        assert other.weights_.tolist() == fits[0].weights_.tolist()


def test_prices_far_off_take_another_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, d = made()
    monkeypatch.setattr(certifying_pass, "sampled_doubt", lambda cells, rows: 0.0)
    said: list[str] = []
    table = on_disk(tmp_path, x, y, d)
    fitted = model(epsilon=0).fit(**table, progress=said.append)
    check(fitted, x, y, d)
    assert any(line.startswith("pass 3") for line in said)
    monkeypatch.setattr(certifying_pass, "ROOM", 1000)
    monkeypatch.setattr(certifying_pass, "sampled_doubt", lambda cells, rows: 1.0)
    with refused("kept in memory"):
        read(tmp_path, x, y, d)


def test_rare_cells_are_in_the_sample(tmp_path: Path) -> None:
    x, y, d = made()
    d = np.where(np.arange(N) % 125 == 7, 2, d)  # 40 rows
    y[d == 2] = np.arange((d == 2).sum()) % 2
    fitted = read(tmp_path, x, y, d, slots="equal", max_iter=1, support="rows")
    assert sorted(set(fitted.sensitive_.tolist())) == [0, 1, 2]
    check(fitted, x, y, d)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_table_within_the_sample_is_fitted_as_in_memory(
    tmp_path: Path, weighted: bool
) -> None:
    x, y, d = made(n=600)
    frame = x.assign(job=np.where(y, "cook", "clerk"))
    weights = pd.Series(np.arange(600) % 4) if weighted else None
    given = {"w": weights} if weighted else {}
    there = model(support="rows", n_init=1).fit(
        **on_disk(tmp_path, frame, y, d, **given)
    )
    here = model(support="rows", n_init=1).fit(frame, y, d, sample_weight=weights)
    assert there.objective_ == here.objective_
    assert there.row_index_.tolist() == here.row_index_.tolist()
    assert there.labels_.tolist() == here.labels_.tolist()


def test_a_sample_that_lacks_far_rows_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fwc_llm.coreset.problem.ground_cost.L1.sampled", 100)
    x, y, d = made()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path, x, y, d)
    x[:30] *= 1e5
    with pytest.warns(SampleWarning, match="sample") as told:
        read(tmp_path, x, y, d)
    assert [Path(each.filename).name for each in told] == ["test_fit.py"]


def test_what_needs_all_rows_in_memory_is_refused(tmp_path: Path) -> None:
    table = on_disk(tmp_path, *made(n=800))
    for options, more in (
        ({"support": "rows"}, {"candidates": [1, 2]}),
        ({"init": np.arange(M)}, {}),
    ):
        with refused("in memory"):
            FairCoreset(M, **options).fit(**table, **more)


@pytest.mark.parametrize(
    ("change", "word"), [({"y": 5}, "new"), ({"w": 2.0}, "other rows")]
)
def test_a_table_that_changes_is_not_certified(
    tmp_path: Path, change: Any, word: str
) -> None:
    x, y, d = made()
    path = tmp_path / "table.csv"
    before = x.assign(y=y, d=d, w=1.0)
    before.to_csv(path, index=False)
    rows = ds.dataset(path, format="csv")  # which reads the file anew in each pass

    def say(words: str) -> None:
        if words.startswith("solving"):
            after = before.copy()
            after.loc[:2000, list(change)] = list(change.values())
            after.to_csv(path, index=False)

    with refused(f"changed while it was read: .*{word}"):
        model().fit(rows, "y", "d", sample_weight="w", progress=say)
