"""Fits of tables of Dask, by its threads in this process: what is found in memory, or a clear error."""

from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.errors import InputError

pytestmark = pytest.mark.slow
N = 1200
RNG = np.random.default_rng(3)
D = np.sort(RNG.integers(0, 2, N))  # sorted, so that no partition has all cells
Y = (RNG.random(N) < 0.3 + 0.3 * D).astype(int)
FRAME = pd.DataFrame(
    {"a": RNG.normal(size=N) + D, "b": np.where(RNG.random(N) < 0.5, "p", "q"), "y": Y, "d": D}
)


def coreset(**options: Any) -> FairCoreset:
    return FairCoreset(6, random_state=0, n_jobs=1, **options)


def parts(frame: pd.DataFrame, change: Any = lambda part, k: part) -> Any:
    """The frame in five partitions, of which the third is empty; `change`: what becomes of each."""
    frames = [frame[:300], frame[300:750], frame[750:750], frame[750:1000], frame[1000:]]
    frames = [change(part.copy(), k) for k, part in enumerate(frames)]
    return dd.from_map(lambda k: frames[k], range(5), meta=frames[0][:0])


def text(part: pd.DataFrame, k: int) -> pd.DataFrame:
    return part.astype({"b": "string[pyarrow]"})


def own_categories(part: pd.DataFrame, k: int) -> pd.DataFrame:
    """Categories that differ between partitions: in their order, and by those that nobody has."""
    names = ["q", "p"] if k % 2 else ["p", "unused", "q"]
    return part.assign(b=pd.Categorical(part.b, categories=names))


@pytest.mark.parametrize("change", [text, own_categories, lambda part, k: part], ids=lambda f: f.__name__)
def test_a_table_that_fits_has_the_result_that_it_has_in_memory(change: Any) -> None:
    wanted = coreset().fit(FRAME[["a", "b"]], Y, D)
    found = coreset().fit(parts(FRAME, change), y="y", sensitive="d")
    assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-9)
    assert found.representatives_.a.tolist() == pytest.approx(wanted.representatives_.a.tolist())
    assert found.representatives_.b.tolist() == wanted.representatives_.b.tolist()
    assert found.y_.tolist() == wanted.y_.tolist()


def test_categories_that_dask_does_not_know() -> None:
    ddf = parts(FRAME).astype({"b": "category"})
    assert not ddf.b.cat.known
    found = coreset().fit(ddf, y="y", sensitive="d")
    assert found.objective_ == pytest.approx(coreset().fit(FRAME[["a", "b"]], Y, D).objective_, rel=1e-9)


class Blocks:
    """The same rows as blocks of the caller's."""

    def __iter__(self) -> Any:
        return iter([FRAME[:300], FRAME[300:750], FRAME[750:1000], FRAME[1000:]])


def test_a_larger_table_has_the_result_that_it_has_in_blocks() -> None:
    options: dict[str, Any] = {"sample": 100, "max_passes": 6}
    wanted = coreset(**options).fit(Blocks(), y="y", sensitive="d")
    whole = dd.from_pandas(FRAME, npartitions=1).repartition(divisions=[0, 300, 750, 1000, 1199])
    found = coreset(**options).fit(whole, y="y", sensitive="d")
    assert found.n_passes_ == wanted.n_passes_ > 1
    assert found.objective_ == wanted.objective_
    pd.testing.assert_frame_equal(found.representatives_, wanted.representatives_)
    assert found.weights_.tolist() == wanted.weights_.tolist()
    assert found.lower_bound_ == pytest.approx(found.objective_, rel=1e-9)
    real = coreset(support="rows", **options).fit(whole[["a", "b"]], whole.y, whole[["d"]])
    assert real.representatives_.a.tolist() == FRAME.a[real.row_index_].tolist()


def ordered(part: pd.DataFrame, k: int) -> pd.DataFrame:
    names = ["p", "q"] if k < 3 else ["q", "p"]
    return part.assign(b=pd.Categorical(part.b, categories=names, ordered=True))


def hole(part: pd.DataFrame, k: int) -> pd.DataFrame:
    return part.assign(a=part.a.where(part.index != 755))


def other_column(part: pd.DataFrame, k: int) -> pd.DataFrame:
    return part.rename(columns={"a": "c"}) if k == 3 else part


@pytest.mark.parametrize(
    ("change", "words"),
    [(ordered, "'b'"), (hole, "'a' is missing in row 5 of partition 3"), (other_column, "partition 3")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_with_a_partition_is_said(change: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        coreset().fit(parts(FRAME, change), y="y", sensitive="d")
    assert words in str(caught.value)
    assert "dask DataFrame" in str(caught.value)


def test_a_cell_that_no_partition_has_is_refused() -> None:
    with pytest.raises(InputError, match="has no rows"):
        coreset().fit(parts(FRAME[(FRAME.y == 1) | (FRAME.d == 0)]), y="y", sensitive="d")


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="the dask array has no rows"):
        coreset().fit(da.zeros((0, 3)), da.zeros(0), da.zeros(0))
