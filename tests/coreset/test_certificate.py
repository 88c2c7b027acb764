"""What a fitted coreset says of other rows: nearest representatives, distances, score,
certificate.
"""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fwc_llm.coreset
from fwc_llm.coreset import FairCoreset, certify
from fwc_llm.coreset.certificate import CoresetCertificate
from tests.coreset.people import arrays, consistent, ground_costs, people, quick
from tests.coreset.programs import by_cell, optimum
from tests.refusals import refused


@pytest.fixture(scope="module")
def model() -> FairCoreset:
    return quick(8, cost_outcome=0.5, cost_sensitive=2).fit(*people(150))


@pytest.mark.parametrize("known", [(), (1,), (2,), (1, 2)])
def test_distances_are_the_ground_cost_of_what_is_known(
    model: FairCoreset, known: tuple[int, ...]
) -> None:
    X, y, d = people(60, 1)
    given = {"y": y if 1 in known else None, "sensitive": d if 2 in known else None}
    expected = ground_costs(model, people(150)[0], X, given["y"], given["sensitive"])
    found = model.transform(X, **given)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X, **given), found.argmin(axis=1))
    shuffled = X[["age", "town", "grade", "pay"]].assign(unused=1)
    np.testing.assert_array_equal(model.transform(shuffled, **given), found)


def test_a_category_that_the_fit_did_not_see_differs_from_all(
    model: FairCoreset,
) -> None:
    X, y, d = people(5, 1)
    X = X.assign(town="Z")
    np.testing.assert_allclose(
        model.transform(X), ground_costs(model, people(150)[0], X)
    )
    mixed = model.transform(X.assign(town=["A", "Z", "B", "Z", "C"]), y, d)
    assert (mixed[[1, 3]] >= 1).all()


@pytest.mark.parametrize(("make", "cost"), [(people, "l1"), (arrays, "sqeuclidean")])
@pytest.mark.parametrize("support", ["free", "rows", "features"])
def test_for_the_rows_of_the_fit_everything_agrees(
    make, support: str, cost: str
) -> None:
    table = make(120)
    model = quick(8, epsilon=0.05, cost=cost, support=support).fit(*table)
    consistent(model, *table)
    best = model.certify(*table)
    np.testing.assert_allclose(best.weights, model.weights_, atol=1e-9)
    again = certify(
        *table,
        model.representatives_,
        model.y_,
        model.sensitive_,
        epsilon=0.05,
        cost=cost,
    )
    assert again.objective == pytest.approx(model.objective_, abs=1e-9)
    assert again.is_fair
    # A row goes to its label, or in part elsewhere: the weights of labels are off by the split rows
    # alone.
    held = np.bincount(model.labels_, minlength=8) * 8 / 120
    assert np.abs(held - model.weights_).sum() <= 2 * 4 * 8 / 120
    costs = model.transform(*table)
    moved = costs[np.arange(120), model.labels_].mean()
    assert moved == pytest.approx(model.objective_, abs=4 * costs.max() / 120)


def test_held_out_rows_are_certified_at_the_best_weights_for_them(
    model: FairCoreset,
) -> None:
    X, y, d = people(40, 3)
    found = model.certify(X, y, d)
    cell = 2 * (model.sensitive_ == "m") + (model.y_ == "yes")
    least = optimum(by_cell(model.transform(X, y, d), cell, 4), model.target_, 0.01)
    assert found.objective == pytest.approx(least, abs=1e-9)
    assert found.lower_bound == pytest.approx(found.objective, abs=1e-9)
    assert found.is_fair
    assert found.weights.sum() == pytest.approx(8)
    assert found.n_rows == 40
    # The weights of the fit keep the limit too, and are not closer to these rows.
    kept = model.certify(X, y, d, model.weights_)
    assert kept.objective >= found.objective - 1e-9
    assert kept.violation == pytest.approx(model.violation_, abs=1e-9)
    assert repr(kept).startswith(
        "<CoresetCertificate of 8 representatives for 40 rows: objective "
    )
    assert not model.certify(X, y, d, np.arange(8)).is_fair


def test_points_from_anywhere_are_certified() -> None:
    X, y, d = arrays(200)
    points = X[:16], y[:16], d[:16]
    free = certify(X, y, d, *points, epsilon=None)
    fair = certify(X, y, d, *points, epsilon=0.0)
    assert free.objective <= fair.objective
    assert fair.violation <= 1e-9
    assert "(no limit)" in repr(free)
    equal = certify(X, y, d, *points, np.ones(16))
    assert equal.objective >= fair.objective - 1e-9 or not equal.is_fair
    # An outcome that no point has: nothing fair can be made of them.
    with refused("no protected level has a representative in each"):
        certify(X, y, d, X[y == 0], y[y == 0], d[y == 0])
    with refused("points_y holds 7, which no row of X has"):
        certify(X, y, d, X[:3], [0, 1, 7], d[:3])
    with refused("points has 2 features"):
        certify(X, y, d, X[:3, :2], y[:3], d[:3])
    with refused("weights of point 0 is -1"):
        certify(X, y, d, *points, -np.ones(16))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X.drop(columns="pay"), "X lacks the column 'pay'"),
        (lambda X: X.assign(pay=np.nan), "column 'pay' of X has no value in row 0"),
        (lambda X: X.assign(town=None), "column 'town' of X has no value in row 0"),
        (lambda X: X.assign(pay=np.inf), "column 'pay' of X is infinite"),
        (lambda X: X.assign(pay="12"), "column 'pay' of X is not numeric"),
        (lambda X: X.assign(pay=pd.Timestamp("2020-01-01")), "column 'pay' holds date"),
        (lambda X: X.assign(town=[[1]] * 5), "column 'town' holds a list in row 0"),
        (
            lambda X: pd.concat([X, X], axis=1),
            "column 'pay' occurs twice in X|'town' occurs twice in X",
        ),
        (lambda X: X[:0], "X has no rows"),
        (
            lambda X: X[["pay", "age"]].to_numpy(),
            "is not a DataFrame, but FairCoreset was fitted on one",
        ),
    ],
)
def test_bad_rows_get_one_clear_line(model: FairCoreset, change, words: str) -> None:
    X, y, d = people(5, 1)
    for ask in (model.predict, model.transform, model.score):
        with refused(words):
            ask(change(X))
    with refused(words):
        model.certify(change(X), y, d)
    with refused("y has 4 rows but X has 5"):
        model.predict(X, y[:4])


def test_labels_are_known_by_their_text_too() -> None:
    X, y, d = arrays(80)
    crossed = np.column_stack([d, np.arange(80) % 2])
    model = quick(8).fit(X, y, crossed)
    for same in (y.astype(str), y.astype(bool), y.astype(float), y.astype(object)):
        assert model.score(X, same, crossed.astype(str)) == pytest.approx(
            -model.objective_, abs=1e-9
        )
    for ask in (model.predict, model.transform, model.score, model.certify):
        with refused("y holds 5, which no row of fit had"):
            ask(X, y + 5, crossed)
        with refused(r"sensitive holds \[2, 0\], which no row"):
            ask(X, y, crossed + np.array([2, 0]))
    for ask in (model.score, model.certify):
        with refused(f"{ask.__name__} needs y"):
            ask(X, None, crossed)
        with refused(f"{ask.__name__} needs sensitive"):
            ask(X, y, None)


def test_parameters_that_change_after_the_fit_do_not_change_it(
    model: FairCoreset,
) -> None:
    X, y, d = people(20, 1)
    kept = pickle.loads(pickle.dumps(model))
    kept.set_params(cost="sqeuclidean", m=3, cost_outcome=9, epsilon=None)
    np.testing.assert_array_equal(kept.transform(X, y, d), model.transform(X, y, d))
    assert isinstance(kept.certify(X, y, d), CoresetCertificate)


# --- What the solver refuses is a `ValueError` too


def test_the_solver_raises_no_plain_error_of_the_house() -> None:
    folder = Path(fwc_llm.coreset.__file__).parent
    plain = [
        path.name
        for path in folder.rglob("*.py")
        if "raise FwcError" in path.read_text("utf-8")
    ]
    assert not plain, f"use InputError in {plain}"
