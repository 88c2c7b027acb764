"""A fit that was cut off goes on from its checkpoint, and only from its own."""

import json

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.errors import InputError
from tests.coreset.streaming.blocked import Blocks, made

TERMS = {"sample": 900, "random_state": 0, "max_iter": 3}


class Cut(Blocks):
    """Blocks that can be read so many times only."""

    left = 99

    def __iter__(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().__iter__()


@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_fit_goes_on_where_it_was_cut_off(tmp_path, support):
    rows, path = made(), tmp_path / "fit.json"
    whole = FairCoreset(12, support=support, swaps=False, **TERMS).fit(Cut(*rows))
    blocks = Cut(*rows)
    blocks.left = whole.n_passes_  # the first look takes one, so that the last pass is lacking
    cut = FairCoreset(12, support=support, swaps=False, checkpoint=path, **TERMS)
    with pytest.raises(KeyboardInterrupt):
        cut.fit(blocks)
    left = json.loads(path.read_text())["course"]["readings"]
    cut.fit(Cut(*rows))
    np.testing.assert_allclose(cut.history_, whole.history_, rtol=1e-12)
    np.testing.assert_array_equal(cut.representatives_, whole.representatives_)
    assert cut.n_passes_ == whole.n_passes_ > left


def test_a_finished_fit_is_not_done_again(tmp_path):
    rows, path = made(), tmp_path / "fit.json"
    first = FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(*rows))
    said: list[str] = []
    again = FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(*rows), progress=said.append)
    assert not [line for line in said if line.startswith("reading")]
    assert again.objective_ == first.objective_
    np.testing.assert_array_equal(again.weights_, first.weights_)


def test_more_passes_go_on_from_the_last(tmp_path):
    rows, path = made(), tmp_path / "fit.json"
    few = FairCoreset(12, checkpoint=path, max_passes=1, **TERMS).fit(Blocks(*rows))
    more = FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(*rows))
    assert more.history_[0] == few.objective_
    assert more.n_iter_ > few.n_iter_ == 0


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    (x, y, d), path = made(), tmp_path / "fit.json"
    FairCoreset(12, checkpoint=path, max_passes=1, **TERMS).fit(Blocks(x, y, d))
    with pytest.raises(InputError, match=r"of a fit with epsilon=0\.01, not 0\.5: delete it to start anew"):
        FairCoreset(12, 0.5, checkpoint=path, **TERMS).fit(Blocks(x, y, d))
    with pytest.raises(InputError, match="of another table"):
        FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(x, y, d, size=500))
    for text in ("", "[]", "{", '{"format": 1}', path.read_text().replace('"m": "12"', '"n": 1')[:-1], "\0"):
        path.write_text(text)
        with pytest.raises(InputError, match="is no checkpoint of a fit"):
            FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(x, y, d))
    with pytest.raises(InputError, match="folder does not exist"):
        FairCoreset(12, checkpoint=tmp_path / "no" / "fit.json", **TERMS).fit(Blocks(x, y, d))
    with pytest.raises(InputError, match="checkpoint=3: give the path"):
        FairCoreset(12, checkpoint=3, **TERMS).fit(Blocks(x, y, d))


def test_a_table_with_other_values_labels_or_weights_is_another(tmp_path):
    (x, y, d), path = made(), tmp_path / "fit.json"
    weight = np.random.default_rng(1).exponential(size=len(x))
    FairCoreset(12, checkpoint=path, max_passes=1, **TERMS).fit(Blocks(x, y, d, weight))
    other = x.copy()
    other[3000:3600] += 1
    for rows in ((other, y, d, weight), (x, y[::-1], d, weight), (x, y, d, weight[::-1]), (x, y, d)):
        with pytest.raises(InputError, match="of another table, or the table has changed since: delete it"):
            FairCoreset(12, checkpoint=path, **TERMS).fit(Blocks(*rows))


def test_the_seed_has_to_be_the_same(tmp_path):
    rows, path = made(), tmp_path / "fit.json"
    terms = {**TERMS, "checkpoint": path, "max_passes": 1}
    FairCoreset(12, **terms).fit(Blocks(*rows))
    with pytest.raises(InputError, match="of a fit with random_state=0, not 1"):
        FairCoreset(12, **{**terms, "random_state": 1}).fit(Blocks(*rows))


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_one_pass_more_at_a_time_makes_moves(tmp_path, cost):
    rows, path = made(), tmp_path / "fit.json"
    terms = {**TERMS, "max_iter": 50, "cost": cost}
    for most in range(1, 7):
        fitted = FairCoreset(12, checkpoint=path, max_passes=most, **terms).fit(Blocks(*rows))
        assert fitted.n_passes_ <= max(most, 2)  # the first result may take two
    assert fitted.converged_ or fitted.n_iter_ >= fitted.n_passes_ - 2


@pytest.mark.parametrize(("cost", "seed", "p"), [("l1", 1, 9), ("sqeuclidean", 2, 3)])
def test_one_pass_more_at_a_time_ends_where_a_step_takes_several(tmp_path, cost, seed, p):
    rows, said = made(n=3000, p=p, seed=seed, ties=True), []
    terms = {"sample": 600, "random_state": 0, "cost": cost, "checkpoint": tmp_path / "fit.json"}
    for most in range(1, 24):
        fitted = FairCoreset(12, 0.001, max_passes=most, **terms).fit(Blocks(*rows), progress=said.append)
        if fitted.converged_:
            break
    assert fitted.converged_
    assert fitted.n_iter_ > 0
    assert any(f", beyond max_passes={most} to end this step" in line for most in range(24) for line in said)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    blocks = Cut(*made())
    blocks.left = 0
    for path, said in ((tmp_path, "is a folder"), (tmp_path / ("x" * 250), "cannot be written")):
        with pytest.raises(InputError, match=said):
            FairCoreset(12, checkpoint=path, **TERMS).fit(blocks)
    monkeypatch.setenv("HOME", str(tmp_path))
    FairCoreset(12, checkpoint="~/fit.json", max_passes=1, **TERMS).fit(Blocks(*made()))
    assert (tmp_path / "fit.json").exists()


def test_a_damaged_checkpoint_is_refused(tmp_path):
    rows, path = made(), tmp_path / "fit.json"
    terms = {**TERMS, "checkpoint": path, "max_passes": 1}
    FairCoreset(12, **terms).fit(Blocks(*rows))
    good = path.read_text()
    course = json.loads(good)["course"]
    wrong = {
        "points": [None, [], [[1]], course["points"][:-1], [["a"] * 9] * 12, [[float("nan")] * 9] * 12],
        "best": [None, [], [1.0], [[1.0] * 8] * 12],
        "prices": [None, [], [1.0], [[1.0]], [float("inf")] * 4],
        "sample_prices": [None, [0.0]],
        "weights": [None, [], [-1.0] * 12, [1.0] * 12, {}],
        "rows": [[0] * 12, [0], [1e9] * 12, "x"],
        "history": [None, [], ["a"], [1.0, 2.0], [float("nan")]],
        "lower_bound": [None, 1e9, "0", float("nan")],
        "readings": [None, -1, 1.5, "1"],
        "finished": [None, 1],
        "unknown": [1],
    }
    for name, values in wrong.items():
        for value in values:
            path.write_text(json.dumps({**json.loads(good), "course": {**course, name: value}}))
            with pytest.raises(InputError, match=r"is damaged \(.*\): delete it"):
                FairCoreset(12, **terms).fit(Blocks(*rows))
