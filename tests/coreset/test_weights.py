"""Weights as a caller gives them, as masses, and rows drawn by them."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset.weights import Masses, random_order, read_weights
from fwc_llm.errors import FwcError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1.0, 2.0], r"has shape \(2,\): give one weight for each row, \(3,\)"),
        (2.0, r"has shape \(\)"),
        (np.ones((3, 1)), r"has shape \(3, 1\)"),
        ([1.0, -0.5, -2.0], "of row 1 is -0.5: weights are finite numbers of at least 0"),
        ([1.0, 2.0, np.nan], "of row 2 is nan"),
        ([np.inf, 2.0, 1.0], "of row 0 is inf"),
        ([0, 0, 0], "is zero for every row"),
        (["1", "2", "x"], "must be numbers"),
        ([1, 2, 1j], "must be numbers"),
        ([1, 2, None], "of row 2 is nan"),
        (np.array(["2020-01-01"] * 3, "datetime64[D]"), "must be numbers"),
        (pd.array([1, 2, None], dtype="Int64"), "must be numbers|of row 2 is nan|masked values"),
    ],
    ids=str,
)
def test_what_is_no_weight_is_refused_with_its_row(given: object, said: str) -> None:
    with pytest.raises(FwcError, match=said):
        read_weights(given, 3)


def test_equal_weights_are_no_weights() -> None:
    assert read_weights(None, 3) is None
    assert read_weights([7.3, 7.3, 7.3], 3) is None
    assert read_weights(pd.Series([True, True]), 2) is None


@pytest.mark.parametrize("scale", [1e-300, 2.0**-70, 3.0, 1e300])
def test_masses_are_the_weights_scaled_by_a_power_of_two(scale: float) -> None:
    weights = np.array([3.0, 1.0, 0.0, 7.0, 5e6]) * scale
    masses = read_weights(weights, 5)
    assert masses is not None
    assert masses.positive is not None
    factor = masses.values[0] / weights[0]
    assert np.frexp(factor)[0] == 0.5
    assert np.array_equal(masses.values, weights * factor)
    assert 0.5 <= masses.total / 4 < 1
    assert masses.positive.tolist() == [0, 1, 3, 4]
    assert masses.take(np.array([1, 3])) is not None
    assert masses.take(np.array([1, 1])) is None


def test_units_are_whole_and_their_sums_fit() -> None:
    rng = np.random.default_rng(0)
    for weights in (rng.integers(1, 9, 1000), 10.0 ** rng.uniform(-12, 12, 1000), rng.random(3)):
        masses = read_weights(weights, len(weights))
        assert masses is not None
        assert 2**58 < masses.units.sum(dtype=object) < 2**62
        assert np.abs(masses.units * masses.unit - masses.values).max() <= masses.total * 2.0**-50
    whole = Masses(np.array([3.0, 5.0]))
    assert whole.units[0] * 5 == whole.units[1] * 3  # ratios of whole weights stay exact


def test_rows_come_in_proportion_to_their_weights() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    orders = np.array([random_order(weights, rng) for _ in range(4000)])
    first = np.bincount(orders[:, 0], minlength=4) / len(orders)
    assert np.abs(first - weights / 8).max() < 0.03
    assert (orders[:, -1] == 2).all()  # weight 0 comes last
    second = np.bincount(orders[orders[:, 0] == 3, 1], minlength=4)
    assert second[1] / second[0] == pytest.approx(2, rel=0.15)
