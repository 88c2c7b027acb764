"""How tables come in: scaled or not, and when to warn that an array is not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset, FairWASP, certify
from fwc_llm.coreset.problem.encoding import ArrayScaler, encode
from fwc_llm.errors import InputError, ScaleWarning


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50_000, 20_000, 120), rng.integers(18, 80, 120)])
    d = rng.integers(0, 2, 120)
    return x, (rng.random(120) < 0.3 + 0.4 * d).astype(int), d


@pytest.mark.parametrize("model", [FairCoreset(8, random_state=0, n_init=1), FairWASP()])
def test_a_scaled_array_and_a_frame_and_their_opposites_are_the_same(table, model) -> None:
    x, y, d = table
    frame = pd.DataFrame(x, columns=["pay", "age"])
    scaled = model.set_params(scale=True).fit(x, y, d).objective_
    assert model.set_params(scale="auto").fit(frame, y, d).objective_ == pytest.approx(scaled, rel=1e-9)
    raw = model.set_params(scale=False).fit(x, y, d).objective_
    assert model.set_params(scale=False).fit(frame, y, d).objective_ == pytest.approx(raw, rel=1e-9)
    assert raw > 100 * scaled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_scaled_array_gives_representatives_in_its_own_units_and_precision(table, dtype, support) -> None:
    x, y, d = table[0].astype(dtype), *table[1:]
    found = FairCoreset(8, scale=True, support=support, random_state=0, n_init=1).fit(x, y, d)
    assert found.representatives_.dtype == dtype
    assert found.representatives_[:, 1].max() <= 80
    assert not hasattr(found, "feature_names_in_")
    # The certificate is of what is returned.
    again = certify(x, y, d, found.representatives_, found.y_, found.sensitive_, scale=True)
    assert again.objective == pytest.approx(found.objective_, rel=1e-6 if dtype == np.float32 else 1e-9)
    assert -found.score(x, y, d) == pytest.approx(found.objective_, rel=1e-6)
    start = FairCoreset(8, scale=True, init=found.representatives_, max_iter=0).fit(x, y, d)
    assert start.objective_ == pytest.approx(found.objective_, rel=1e-6) or support == "rows"


def test_one_warning_a_fit_names_the_columns_and_the_line_that_called(table) -> None:
    x, y, d = table
    for fit in (
        lambda: FairCoreset(8).fit(x, y, d),
        lambda: FairWASP().fit(x, y, d),
        lambda: certify(x, y, d, x[:8], y[:8], d[:8], epsilon=None),
    ):
        with pytest.warns(ScaleWarning, match=r"column 0 typically by .*column 1 by") as caught:
            fit()
        assert [warning.filename for warning in caught] == [__file__]


def test_what_is_given_explicitly_or_alike_in_size_is_silent(table) -> None:
    x, y, d = table
    rng = np.random.default_rng(0)
    rare = np.zeros(120)
    rare[5] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (True, False):
            FairWASP(scale=scale).fit(x, y, d)
        FairWASP().fit(pd.DataFrame(x), y, d)
        for quiet in (
            x[:, 1:],
            np.column_stack([x[:, 1], rare]),  # a rare yes is no small column
            np.column_stack([x[:, 1], np.full(120, 1e-9)]),  # a constant one has no size
            np.column_stack([rng.lognormal(0, 2, 120), rng.normal(size=120)]),
            np.array([[1e308], [-1e-308]]),
            rng.normal(size=(120, 3)) * 1e-200,
        ):
            encode(quiet)
        with pytest.raises(ScaleWarning):
            encode(x * 1e-200)


@pytest.mark.parametrize("scale", [None, 1, 0, "always", 1.0, np.array([1])])
def test_other_scales_are_refused(scale) -> None:
    with pytest.raises(InputError, match="scale="):
        encode(np.eye(3), scale)


def test_scaling_there_and_back() -> None:
    x = np.column_stack([np.arange(5.0) * 1e300, np.full(5, 7.0), np.arange(5.0) * 1e-300])
    encoding, table = encode(x, True)
    assert isinstance(encoding, ArrayScaler)
    np.testing.assert_allclose(table.numbers.std(axis=0), [1, 0, 1])
    np.testing.assert_allclose(encoding.decode(table.numbers), x)
    np.testing.assert_allclose(encoding.encode(x).numbers, table.numbers, atol=1e-12)
    with pytest.raises(InputError, match="init has 2 columns: give the 3 of X"):
        encoding.encode(x[:, :2])
