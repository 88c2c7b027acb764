"""The first reading finds what `read_given` finds in memory, whatever the blocks; its sample is fair."""

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fwc_llm.coreset.problem.encoding import Encoder
from fwc_llm.coreset.problem.input_rows import read_rows
from fwc_llm.coreset.streaming.blocks import Survey
from fwc_llm.coreset.streaming.columns.categories import MOST_CATEGORIES, Appeared
from fwc_llm.coreset.streaming.columns.moments import Moments, merged
from fwc_llm.coreset.streaming.sources.opening import open_source
from fwc_llm.coreset.streaming.survey import survey
from fwc_llm.errors import InputError, ScaleWarning

N = 3000


class Blocks:
    """(X, y, sensitive, weights) in blocks of some length, in any form, with an empty one among them."""

    def __init__(self, *parts: Any, length: int = 700) -> None:
        self.parts, self.length = parts, length

    def __iter__(self) -> Iterator[Any]:
        for low in (0, *range(0, len(self.parts[0]), self.length)):
            rows = slice(low, low + self.length) if low or self.__dict__.pop("begun", False) else slice(0, 0)
            self.__dict__["begun"] = low == 0
            yield tuple(
                p if p is None else p.iloc[rows] if hasattr(p, "iloc") else p[rows] for p in self.parts
            )


def mixed() -> tuple[pd.DataFrame, pd.Series, pd.DataFrame]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "far": rng.normal(1e6, 3, N),
            "whole": rng.integers(0, 9, N),
            "text": rng.choice(["u", "v", "w"], N),
            "rank": pd.Categorical(
                rng.choice(["lo", "mid", "hi"], N), categories=["lo", "mid", "hi", "top"], ordered=True
            ),
            "kind": pd.Categorical(rng.choice(["p", "q"], N)),
            "truth": rng.random(N) < 0.3,
            "huge": rng.normal(0, 1e200, N),
            "small": rng.normal(0, 1e-200, N),
            "single": rng.normal(0, 1, N).astype("f4"),
            "same": 3.0,
            "sorted": np.arange(N) / 7,
        }
    )
    frame.loc[: N - 2, "text"] = frame.loc[: N - 2, "text"].replace("w", "v")  # one block alone has it
    frame.loc[N - 1, "text"] = "w"
    levels = pd.DataFrame({"g": rng.choice(["x", "y"], N), "r": rng.integers(0, 3, N)})
    return frame, pd.Series(rng.integers(0, 2, N)), levels


def read(X: Any, *labels: Any, sample: int = N, **settings: Any) -> Survey:
    source = open_source(X, *labels, threads=settings.pop("threads", 2))
    assert source is not None
    return survey(source, sample=sample, **settings)


@pytest.mark.parametrize("scale", ["auto", False])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_frame_in_blocks_is_read_as_it_is_in_memory(scale: Any, weighted: bool) -> None:
    frame, y, d = mixed()
    weights = np.random.default_rng(2).integers(0, 4, N).astype(float) if weighted else None
    if scale is False:
        frame = frame.drop(columns=["huge"])
    inner = read_rows(frame, y, d, weights, "l1", scale, 0.1)
    outer = read(Blocks(frame, y, d, weights), scale=scale, epsilon=0.1)
    assert isinstance(inner.encoding, Encoder)
    assert isinstance(outer.encoding, Encoder)
    assert outer.encoding.order == inner.encoding.order
    for one, two in zip(inner.encoding.columns, outer.encoding.columns, strict=True):
        assert (one.name, one.kind, one.values.tolist()) == (two.name, two.kind, two.values.tolist())
        assert two.mean == pytest.approx(one.mean, rel=1e-12, abs=1e-14 * two.scale)
        assert two.scale == pytest.approx(one.scale, rel=1e-12)
    np.testing.assert_allclose(outer.sample.numbers, inner.table.numbers, atol=1e-9)
    assert np.array_equal(outer.sample.codes, inner.table.codes)
    for part in ("cell", "levels", "outcomes", "counts", "sizes"):
        expected = getattr(inner.cells, part)
        np.testing.assert_array_equal(getattr(outer.cells, part), expected)
        assert getattr(outer.cells, part).dtype == expected.dtype
    assert outer.n == N
    assert np.array_equal(outer.positions, np.arange(N) if weights is None else np.flatnonzero(weights))
    pd.testing.assert_frame_equal(outer.raw, frame.iloc[outer.positions])
    if inner.masses is None:
        assert outer.mass is None
    else:
        assert outer.mass is not None
        np.testing.assert_allclose(
            outer.mass / outer.mass.sum(), inner.masses.values / inner.masses.values.sum(), rtol=1e-12
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("scale", [True, False])
def test_an_array_in_blocks_is_read_as_it_is_in_memory(tmp_path: Path, dtype: Any, scale: bool) -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(N, 4)) * [2, 9, 1000, 2000] + [0, 5, 1000, 0]).astype(dtype)
    y, d = rng.integers(0, 2, N), rng.choice(["a", "b", "c"], N)
    np.save(tmp_path / "x.npy", rows)
    inner = read_rows(rows, y, d, None, "l1", scale, 0.1)
    for X, labels in ((tmp_path / "x.npy", (y, d)), (Blocks(rows, y, d), ())):
        outer = read(X, *labels, scale=scale, epsilon=0.1)
        assert outer.sample.numbers.dtype == inner.table.numbers.dtype
        np.testing.assert_allclose(outer.sample.numbers, inner.table.numbers, rtol=1e-6, atol=1e-6)
        assert np.array_equal(outer.cells.cell, inner.cells.cell)
        assert np.array_equal(outer.raw, rows)
        if scale:
            for one, two in zip(inner.encoding.columns, outer.encoding.columns, strict=True):  # type: ignore
                assert (two.mean, two.scale) == pytest.approx((one.mean, one.scale), rel=1e-12)
    with pytest.warns(ScaleWarning):
        read(tmp_path / "x.npy", y, d)


def test_the_sample_is_the_same_for_all_threads_and_holds_enough_of_every_cell() -> None:
    rng = np.random.default_rng(0)
    n = 60_000
    rows, y = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    d = np.where(rng.random(n) < 0.002, "rare", "common")
    d[:200], y[:20] = "rare", 1
    blocks = Blocks(rows, y, d, length=4096)
    one, two = (read(blocks, sample=5000, epsilon=0.1, seed=3, threads=k) for k in (1, 4))
    assert np.array_equal(one.positions, two.positions)
    assert np.array_equal(one.raw, rows[one.positions])
    assert not np.array_equal(one.positions[-20:], read(blocks, sample=5000, seed=4).positions[-20:])
    counts = np.bincount(one.cells.cell)
    rare = one.cells.counts < 512
    assert rare.sum() == 2
    assert np.array_equal(counts[rare], one.cells.counts[rare])
    assert (counts[~rare] > 2000).all()
    assert one.mass is not None
    held = np.bincount(one.cells.cell, one.mass)
    np.testing.assert_allclose(held / held.sum(), one.cells.counts / n, rtol=1e-12)
    # Uniform: positions of the common rows are spread over the table (within five standard deviations).
    common = one.positions[~rare[one.cells.cell]]
    spread = np.bincount(common * 10 // n, minlength=10)
    assert np.abs(spread - len(common) / 10).max() < 5 * np.sqrt(len(common) / 10)
    balanced = read(Blocks(rows, y, np.arange(n) % 2, length=4096), sample=5000, epsilon=0.1)
    assert balanced.mass is None
    assert len(balanced.positions) == 5000


def test_parquet_files_are_read_as_pandas_reads_them(tmp_path: Path) -> None:
    frame, y, d = mixed()
    frame = frame.assign(y=y, g=d["g"], r=d["r"], w=1.0)
    for k, low in enumerate(range(0, N, 1100)):
        frame.iloc[low : low + 1100].to_parquet(tmp_path / f"{k}.parquet", row_group_size=400)
    pattern = str(tmp_path / "*.parquet")
    inner = read_rows(frame.drop(columns=["y", "g", "r", "w"]), y, d, None, "l1", "auto", 0.1)
    outer = read(pattern, "y", ["g", "r"], "w", epsilon=0.1)
    np.testing.assert_allclose(outer.sample.numbers, inner.table.numbers, atol=1e-9)
    assert np.array_equal(outer.sample.codes, inner.table.codes)
    assert np.array_equal(outer.cells.cell, inner.cells.cell)
    assert outer.mass is None
    pd.testing.assert_frame_equal(outer.raw, frame.drop(columns=["y", "g", "r", "w"]))
    reader = pickle.loads(pickle.dumps(outer.reader))
    source = open_source(pattern, "y", ["g", "r"], "w")
    assert source is not None
    coded = source.reduce(lambda b: [reader(b)], lambda one, two: one + two)
    coded.sort(key=lambda part: part.index)
    assert np.array_equal(np.concatenate([part.table.numbers for part in coded]), outer.sample.numbers)
    assert np.array_equal(np.concatenate([part.table.codes for part in coded]), outer.sample.codes)
    assert np.array_equal(np.concatenate([part.cell for part in coded]), outer.cells.cell)
    assert [part.first for part in coded] == np.cumsum([0, *outer.lengths[:-1]]).tolist()

    changed = frame.iloc[:1100].assign(text="unseen")
    changed.to_parquet(tmp_path / "0.parquet", row_group_size=400)
    source = open_source(pattern, "y", ["g", "r"], "w")
    assert source is not None
    with pytest.raises(InputError, match=r"'text' holds in row 0 of .*0\.parquet, row groups 0 to 2 what"):
        source.reduce(reader, lambda one, two: one)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=90),
            "c": rng.choice(["u", "v"], 90),
            "y": [0, 1] * 45,
            "d": ["a", "b", "c"] * 30,
        }
    )


def test_what_is_wrong_in_a_block_is_named(tmp_path: Path) -> None:
    def refused(frame: pd.DataFrame | list[Any], words: str, **settings: Any) -> None:
        X: Any = frame
        if isinstance(frame, pd.DataFrame):
            frame.to_parquet(tmp_path / "t.parquet", row_group_size=40)
            X = tmp_path / "t.parquet"
        names: Any = (None, None) if isinstance(X, list) and isinstance(X[0], tuple) else ("y", "d")
        with pytest.raises(InputError, match=re.escape(words)):
            read(X, *names, **{"epsilon": 0.1} | settings)

    frame = table()
    where = f"{tmp_path}/t.parquet, row groups 0 to 2"
    refused(frame.assign(x=frame["x"].where(frame.index != 50)), f"'x' is missing in row 50 of {where}")
    refused(
        frame.assign(x=frame["x"].where(frame.index != 51, np.inf)), f"'x' is infinite in row 51 of {where}"
    )
    refused(frame.assign(c=frame["c"].where(frame.index != 52)), f"'c' is missing in row 52 of {where}")
    refused(frame.assign(d=frame["d"].where(frame.index != 53)), f"sensitive is missing in row 53 of {where}")
    refused(frame.assign(d="a"), "sensitive has one level only (a)")
    refused(frame[(frame.d != "c") | (frame.y == 1)], "cell (sensitive = c, y = 0) has no rows")
    read(tmp_path / "t.parquet", "y", "d")  # without a limit it needs none
    refused(
        frame.assign(x=frame["x"] * 1e200), "too large for double precision", cost="sqeuclidean", scale=False
    )
    refused(frame.assign(t=pd.Timestamp("2026-01-01")), "'t' holds dates")
    refused(frame[["y", "d"]], "no columns besides y")
    refused(frame.iloc[:0], "has no rows")
    refused([frame, frame.assign(c=1.5)], "column 'c' is categorical in block 0 and numeric in block 1")
    refused([frame, frame.rename(columns={"c": "b"})], "block 0 and block 1 differ: the column 'b' is in one")
    refused([(frame[["x"]], frame.y, frame.d), (frame[["x"]], frame.y)], "in some blocks alone")
    refused([(frame[["x"]], frame.y, frame.d), (frame[["x"]].to_numpy(), frame.y, frame.d)], "one form")
    ordered = [
        frame.assign(c=pd.Categorical(["u"] * 90, order, ordered=True)) for order in (["u", "v"], ["v", "u"])
    ]
    refused(ordered, "the ordered categories of column 'c' differ")
    rows = np.ones((90, 2))
    rows[7, 1] = np.nan
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(InputError, match=r"column 1 of X is missing in row 7 of .*x\.npy"):
        read(tmp_path / "x.npy", frame["y"], frame["d"])
    for weights, words in (
        (np.r_[-1.0, np.ones(89)], "of row 0 is -1"),
        (np.zeros(90), "zero for every row"),
    ):
        with pytest.raises(InputError, match=words):
            read(Blocks(frame[["x"]], frame["y"], frame["d"], weights))


def test_orders_that_agree_and_categories_of_single_blocks_are_joined() -> None:
    frame = table()
    shorter = frame.assign(c=pd.Categorical(["u"] * 90, ["u", "w"], ordered=True))
    longer = frame.assign(c=pd.Categorical(["v"] * 90, ["u", "v", "w"], ordered=True))
    found = read([shorter, longer], "y", "d", sample=200)
    assert isinstance(found.encoding, Encoder)
    column = next(c for c in found.encoding.columns if c.name == "c")
    assert (column.values.tolist(), column.mean, column.scale) == (["u", "v", "w"], 0.5, 0.5)
    assert found.raw["c"].cat.categories.tolist() == ["u", "v", "w"]
    many = Appeared.of(0, np.arange(MOST_CATEGORIES))
    with pytest.raises(InputError, match="more than 1,048,576 different values"):
        many.add(Appeared.of(1, np.array(["another"])), "id")


def test_moments_of_any_blocks_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.normal(1e9, 1e-3, 50_000), np.arange(50_000.0), rng.lognormal(0, 5, 50_000)):
        parts = [Moments.of([part], len(part)) for part in np.split(values, [3, 17, 30_000])]
        found = merged(parts)
        exact = values.astype(np.longdouble)
        assert float(found.mean[0]) == pytest.approx(float(exact.mean()), rel=1e-14)
        spread = float(np.sqrt(found.squares[0] / found.mass))
        assert spread == pytest.approx(float(exact.std()), rel=1e-12 if values[0] < 1e8 else 1e-5)


def test_text_is_read_without_a_python_object_for_every_row(tmp_path: Path) -> None:
    frame = table().assign(z="same")
    frame.to_parquet(tmp_path / "t.parquet")
    assert pq.ParquetFile(tmp_path / "t.parquet").schema_arrow.field("c").type in ("string", "large_string")
    source = open_source(tmp_path / "t.parquet", "y", "d")
    assert source is not None
    kinds = source.reduce(lambda b: b.rows.dtypes.astype(str).to_dict(), lambda one, two: one)
    assert kinds == {"x": "float64", "c": "category", "z": "category"}
