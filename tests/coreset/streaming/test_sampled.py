"""The sample: all of a small table, which is fitted as in memory; for others, drawn fairly."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.streaming.sources.opening import open_source
from fwc_llm.coreset.streaming.survey import survey
from fwc_llm.errors import InputError, SampleWarning


@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_table_that_fits_gives_the_fit_in_memory(tmp_path: Path, support: str) -> None:
    rng = np.random.default_rng(3)
    n = 240
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
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70)
    blocks = [frame[:100], frame[100:150], frame[150:]]
    rows = frame[["age", "debt"]].to_numpy()
    np.save(tmp_path / "x.npy", rows)

    def fitted(*given: Any, **named: Any) -> list[Any]:
        drawn = np.random.default_rng(5)
        found = FairCoreset(4, random_state=drawn, support=support, n_init=1, max_iter=2, scale=True)
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


def test_heavy_rows_are_in_the_sample_and_the_fit_is_near_that_in_memory() -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    frame = frame.assign(y=rng.integers(0, 2, n), d=rng.integers(0, 2, n))
    frame["w"] = np.where(rng.random(n) < 0.005, 1e4, 1.0)
    names: dict[str, Any] = {"y": "y", "sensitive": "d", "sample_weight": "w"}
    inner = FairCoreset(20, random_state=0, n_init=1).fit(frame, **names)
    for blocks in ([frame[:9000], frame[9000:]], [frame[:123], frame[123:]]):
        outer = FairCoreset(20, sample=1000, max_passes=1, random_state=0).fit(blocks, **names)
        assert outer.objective_ < 1.05 * inner.objective_


def test_a_sample_that_lacks_far_rows_is_warned_of() -> None:
    rng = np.random.default_rng(2)
    n = 6000
    X, y, d = rng.normal(size=(n, 3)), rng.integers(0, 2, n), rng.integers(0, 2, n)
    far = X.copy()
    far[:30] *= 1e5

    def fit(X: np.ndarray) -> FairCoreset:
        halves = [(X[::2], y[::2], d[::2]), (X[1::2], y[1::2], d[1::2])]
        return FairCoreset(8, sample=500, max_passes=2, random_state=0, n_init=1).fit(halves)

    with pytest.warns(SampleWarning, match="times the sample's") as told:
        fit(far)
    assert [Path(each.filename).name for each in told] == ["test_sampled.py"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(X)


def test_the_sample_does_not_depend_on_blocks_and_is_raised_to_what_m_needs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 5000
    rows, y, d = rng.normal(size=(n, 2)), rng.integers(0, 2, n), rng.integers(0, 2, n)
    np.save(tmp_path / "x.npy", rows)

    def drawn(X: Any, *labels: Any) -> tuple[np.ndarray, np.ndarray | None]:
        source = open_source(X, *labels, threads=2)
        assert source is not None
        found = survey(source, sample=400, seed=7)
        return found.positions, found.mass

    weights = rng.lognormal(0, 2, n)
    for given in ((rows, y, d), (rows, y, d, weights)):
        positions, mass = drawn(tmp_path / "x.npy", *given[1:])
        for cuts in ([1, 3], [1234], list(range(3, n, 500))):
            parts = zip(*(np.split(part, cuts) for part in given), strict=True)
            found = drawn(list(parts))
            assert np.array_equal(found[0], positions)
            assert (found[1] is None) == (mass is None)
            assert mass is None or np.allclose(found[1], mass, rtol=1e-12)
    blocks = [(rows[:2000], y[:2000], d[:2000]), (rows[2000:], y[2000:], d[2000:])]
    for support in ("free", "rows"):
        found = FairCoreset(300, sample=100, max_iter=0, max_passes=1, random_state=0, support=support)
        assert len(found.fit(blocks).weights_) == 300


def test_labels_and_texts_of_awkward_types() -> None:
    rng = np.random.default_rng(0)
    text = pd.Series(rng.choice(["\ud800", "v"], 80), dtype=object)
    frame = pd.DataFrame(
        {"x": rng.normal(size=80), "c": text, "y": [0, 1] * 40, "d": ["f", "f", "m", "m"] * 20}
    )
    one, two = frame[:40], frame[40:]
    shown = FairCoreset(4, random_state=0).fit([one, two], y="y", sensitive="d").representatives_
    assert set(shown["c"]) <= {"\ud800", "v"}
    large = [one.assign(y=one["y"] + 2**60), two.assign(y=two["y"] + 2.0**60)]
    with pytest.raises(InputError, match=r"y is \w+ and \w+ in different blocks"):
        FairCoreset(4).fit(large, y="y", sensitive="d")
    boolean = [one.assign(y=one["y"].astype(bool)), two]  # True is 1 beside numbers, as in numpy
    assert sorted(FairCoreset(4, random_state=0).fit(boolean, y="y", sensitive="d").y_) == [0, 0, 1, 1]
    truth = pd.Series([True, 0] * 20, dtype=object)
    for y in (truth.replace(0, 1), truth.replace(True, 1.0)):
        mixed, said = (
            one.assign(y=y),
            r"y( in block 0)? holds \S+ and \S+, which are equal: give all rows one",
        )
        for X in ([mixed, two], pd.concat([mixed, two])):
            with pytest.raises(InputError, match=said):
                FairCoreset(4).fit(X, y="y", sensitive="d")
