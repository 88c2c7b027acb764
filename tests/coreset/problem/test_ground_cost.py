"""The ground cost: every implementation gives what the formula says, on random mixed tables."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.encoding import encode
from fwc_llm.coreset.problem.ground_cost import COSTS, FeatureCost, cost_matrix
from fwc_llm.coreset.search import schedule
from tests.coreset.people import consistent, ground_costs, quick

SHAPES = [(5, 0), (0, 4), (1, 1), (3, 9), (12, 2)]  # numeric and categorical columns


def formula(table: EncodedTable, cost: str) -> np.ndarray:
    """(n, n) costs."""
    apart = table.numbers[:, None] - table.numbers
    differ = table.codes[:, None] != table.codes
    return (np.abs(apart) if cost == "l1" else apart**2).sum(
        axis=2
    ) + differ @ table.mismatch


def mixed(n: int, numeric: int, categorical: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {f"n{k}": rng.normal(size=n).round(1) for k in range(numeric)}
    columns |= {f"c{k}": rng.choice(list("pqr"), n) for k in range(categorical)}
    return pd.DataFrame(columns)


def weights(numeric: int, categorical: int) -> dict[str, float]:
    """Of columns: quarters are exact in float32."""
    names = [f"n{k}" for k in range(numeric)] + [f"c{k}" for k in range(categorical)]
    return {name: 0.25 * (3 + 5 * k % 7) for k, name in enumerate(names)}


@pytest.fixture(params=SHAPES, ids=str)
def table(request: pytest.FixtureRequest) -> EncodedTable:
    return encode(mixed(60, *request.param), column_weights=weights(*request.param))[1]


@pytest.mark.parametrize("cost", COSTS)
def test_numpy_follows_the_formula(table: EncodedTable, cost: str) -> None:
    expected = formula(table, cost)
    values = table.values.T
    np.testing.assert_allclose(cost_matrix(table, table, cost), expected, atol=1e-12)
    feature_cost = FeatureCost.of(table, cost)
    for j in (0, 7, 59):
        np.testing.assert_allclose(
            feature_cost.between(values, table.values[j]), expected[j], atol=1e-12
        )
    turned = np.roll(np.arange(60), 1)
    each = feature_cost.between(values, values[:, turned])
    np.testing.assert_allclose(each, expected[np.arange(60), turned], atol=1e-12)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("support", ["free", "rows", "features"])
@pytest.mark.parametrize("tiny", [0, 10**9])  # compiled and plain steps
def test_weights_of_columns_multiply_their_costs(
    tiny: int, support: str, cost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "TINY", tiny)
    rng = np.random.default_rng(4)
    frame = mixed(150, 2, 2).assign(idle=1e6 * np.arange(150))
    y = rng.integers(0, 2, 150)
    d = rng.integers(0, 2, 150)
    given = {"n0": 2.5, "c0": 0.25, "c1": 3.75, "idle": 0}
    terms = {"cost": cost, "support": support, "column_weights": given}
    model = quick(8, **terms).fit(frame, y, d)
    costs = ground_costs(model, frame, frame, y, d)
    np.testing.assert_allclose(model.transform(frame, y, d), costs, atol=1e-9)
    assert wasserstein(costs, model.weights_).objective == pytest.approx(
        model.objective_, rel=1e-9
    )
    consistent(model, frame, y, d)


def test_weights_of_an_arrays_columns_go_by_position() -> None:
    X = mixed(300, 2, 0).to_numpy()
    labels = np.arange(300) % 4
    table = labels % 2, labels // 2
    weighted = quick(8, column_weights=[2, 0.5]).fit(X, *table)
    scaled = quick(8, scale=False).fit(X * [2, 0.5], *table)
    assert weighted.objective_ == pytest.approx(scaled.objective_, rel=1e-12)
