"""The streamed solver against the one in memory: the same moves, the certificate of the whole table."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.errors import InputError
from tests.coreset.streaming.blocked import Blocks, cells_of, made, whole_problem


def check_certificate(fitted, x, y, d, weight=None):
    """It is that of the whole table."""
    whole = whole_problem(fitted, x, y, d, cells_of(fitted), weight)
    assert fitted.objective_ == pytest.approx(whole.objective, rel=1e-9)
    assert fitted.lower_bound_ <= fitted.objective_ <= fitted.lower_bound_ + 1e-9
    assert fitted.violation_ <= (np.inf if fitted.epsilon is None else fitted.epsilon + 1e-9)
    assert fitted.history_[-1] == fitted.objective_
    assert (np.diff(fitted.history_) < 0).all()
    assert fitted.weights_.sum() == pytest.approx(fitted.m)


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
@pytest.mark.parametrize(
    ("epsilon", "levels", "dtype"), [(None, 2, np.float32), (0, 3, np.float64), (0.05, 2, np.float32)]
)
def test_the_same_moves_lead_to_the_same_coreset_as_in_memory(cost, epsilon, levels, dtype):
    x, y, d = made(levels=levels, dtype=dtype)
    start = x[np.random.default_rng(1).choice(len(x), 12, replace=False)].astype(float)
    terms = {"epsilon": epsilon, "cost": cost, "init": start, "max_iter": 2}
    here = FairCoreset(12, **terms).fit(x, y, d)
    there = FairCoreset(12, sample=900, **terms).fit(Blocks(x, y, d))
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)
    assert there.labels_ is None
    assert there.n_passes_ >= (3 if cost == "sqeuclidean" else 5)  # a move to medians takes two
    assert there.representatives_.dtype == dtype
    check_certificate(there, x, y, d)


@pytest.mark.parametrize("n", [5900, 12_000])  # the larger one is tilted
def test_rows_that_tie_are_certified(n):
    x, y, d = made(n=n, ties=True)
    fitted = FairCoreset(12, sample=900, max_iter=2, random_state=0, epsilon=0).fit(Blocks(x, y, d))
    check_certificate(fitted, x, y, d)


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_mixed_columns_move_as_in_memory(cost):
    x, y, d = made()
    frame = pd.DataFrame(x[:, 2:].astype(float)).rename(columns="x{}".format)
    frame["kind"] = np.array(["u", "v", "w"])[np.clip(x[:, 0] + 1, 0, 2).astype(int)]
    grades = np.clip(np.round(x[:, 1]), -1, 1)
    frame["grade"] = pd.Categorical(grades, categories=[-1, 0, 1], ordered=True)
    terms = {"cost": cost, "init": frame.iloc[:12], "max_iter": 2}
    here = FairCoreset(12, **terms).fit(frame, y, d)
    there = FairCoreset(12, sample=900, **terms).fit(Blocks(frame, y, d))
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)
    check_certificate(there, frame, y, d)


def test_weights_count_as_in_memory():
    x, y, d = made()
    weight = np.random.default_rng(2).exponential(size=len(x))
    terms = {"init": x[:12].astype(float), "max_iter": 2}
    here = FairCoreset(12, **terms).fit(x, y, d, sample_weight=weight)
    there = FairCoreset(12, sample=900, **terms).fit(Blocks(x, y, d, weight))
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)
    check_certificate(there, x, y, d, weight)


@pytest.mark.parametrize("support", ["rows", "features"])
def test_representatives_are_rows_of_the_table(support):
    x, y, d = made(p=4)
    fitted = FairCoreset(12, support=support, sample=900, swaps=False, random_state=1).fit(Blocks(x, y, d))
    rows = fitted.row_index_
    np.testing.assert_array_equal(fitted.representatives_, x[rows])
    assert len(set(rows.tolist())) == 12
    if support == "rows":
        np.testing.assert_array_equal(fitted.y_, y[rows])
        np.testing.assert_array_equal(fitted.sensitive_, d[rows])
        assert fitted.n_iter_ >= 1  # the sample's rows are not the best ones for all
    check_certificate(fitted, x, y, d)


def test_blocks_may_come_in_any_size():
    x, y, d = made()
    fits = [
        FairCoreset(12, sample=900, random_state=0, max_iter=1, n_jobs=jobs).fit(Blocks(x, y, d, size=size))
        for size, jobs in ((6000, 1), (911, 2), (911, 1))
    ]
    np.testing.assert_array_equal(fits[1].representatives_, fits[2].representatives_)
    assert fits[1].objective_ == fits[2].objective_  # whoever reads which block
    for fitted in fits:
        check_certificate(fitted, x, y, d)


def test_a_table_within_the_sample_is_solved_in_memory():
    x, y, d = made(n=800)
    here = FairCoreset(12, support="rows", random_state=0).fit(x, y, d)
    there = FairCoreset(12, support="rows", random_state=0).fit(Blocks(x, y, d))
    np.testing.assert_array_equal(there.row_index_, here.row_index_)
    np.testing.assert_array_equal(there.labels_, here.labels_)
    assert (there.objective_, there.n_passes_) == (here.objective_, 0)


def test_passes_are_limited_and_told():
    x, y, d = made()
    said = []
    fitted = FairCoreset(12, sample=900, max_passes=1, random_state=0).fit(
        Blocks(x, y, d), progress=said.append
    )
    assert fitted.n_iter_ == 0
    assert not fitted.converged_
    assert any(line.startswith("reading 1 of at most 1, distances") for line in said)
    check_certificate(fitted, x, y, d)


def test_what_needs_all_rows_in_memory_is_refused():
    x, y, d = made(n=800)
    with pytest.raises(InputError, match="candidates are chosen among rows in memory"):
        FairCoreset(12, support="rows").fit(Blocks(x, y, d), candidates=[1, 2])
    with pytest.raises(InputError, match="init names rows"):
        FairCoreset(2, init=[1, 2]).fit(Blocks(x, y, d))
    for name in ("sample", "max_passes"):
        with pytest.raises(InputError, match=f"{name}=0"):
            FairCoreset(2, **{name: 0}).fit(x, y, d)
    fitted = FairCoreset(8, max_iter=1).fit(x, y, d)
    assert fitted.n_passes_ == 0
    for method in ("fit_predict", "fit_transform", "predict", "transform", "score"):
        for table in (Blocks(x, y, d), "rows.parquet", [(x, y, d)]):
            with pytest.raises(InputError, match="reads tables in memory: pass an array"):
                getattr(fitted, method)(table)


def test_a_table_that_changes_between_readings_is_noticed():
    x, y, d = made()

    class Changing(Blocks):
        times = 0

        def __iter__(self):
            self.times += 1
            if self.times > 2:
                x[:] = x[::-1].copy()
            return super().__iter__()

    with pytest.raises(InputError, match="changed while it was read"):
        FairCoreset(12, sample=900, init=x[:12].astype(float)).fit(Changing(x, y, d))


@pytest.mark.parametrize("change", ["values", "labels", "rows"])
def test_a_table_that_changes_after_the_first_look_is_not_certified(change):
    x, y, d = made()

    class Changing(Blocks):
        times = 0

        def __iter__(self):
            self.times += 1
            if self.times == 2:
                if change == "values":
                    x[1000:2000] *= 1.5
                elif change == "labels":
                    y[:700] = y[:700][::-1]
                else:
                    self.held = x[::-1], y, d
            return super().__iter__()

    with pytest.raises(InputError, match=r"block \d+ holds other rows than at the first reading"):
        FairCoreset(12, sample=900, max_passes=1, random_state=0).fit(Changing(x, y, d))


def test_files_that_are_written_while_they_are_read_are_noticed(tmp_path):
    x, y, d = made()
    path = tmp_path / "x.npy"
    np.save(path, x)
    said = []

    def say(line):
        said.append(line)
        if line.startswith("reading 1"):
            np.save(path, x)

    with pytest.raises(InputError, match="changed while it was read: its files have other sizes or times"):
        FairCoreset(12, sample=900, random_state=0).fit(str(path), y, d, progress=say)
    assert said
