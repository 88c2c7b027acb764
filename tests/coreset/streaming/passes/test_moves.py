"""Medians found by steps and the values on one of them are those of all values."""

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from tests.coreset.streaming.blocked import Blocks, made


@pytest.mark.parametrize("kind", ["late", "heavy", "two", "huge"])
def test_medians_are_exact_wherever_the_sample_expects_them(kind):
    x, y, d = made(n=6000)
    rng = np.random.default_rng(5)
    x = x.astype(np.float64)
    column = {
        "late": np.where(np.arange(6000) < 5000, 0.0, rng.normal(size=6000)),  # many equal ones
        "heavy": np.exp(9 * rng.normal(size=6000)) / 1e12,
        "two": rng.integers(0, 2, 6000).astype(float),
        "huge": 1e9 + 1e-3 * rng.normal(size=6000),
    }[kind]
    x = np.column_stack([x, column])
    terms = {"init": x[:12], "max_iter": 1, "epsilon": None, "scale": False}
    here = FairCoreset(12, **terms).fit(x, y, d)
    there = FairCoreset(12, sample=60, max_passes=40, random_state=1, **terms).fit(Blocks(x, y, d))
    np.testing.assert_allclose(there.history_, here.history_, rtol=1e-6)
    # Ten rows of the sample for a representative: where its medians are, they do not say.
    np.testing.assert_allclose(there.representatives_, here.representatives_, rtol=1e-9, atol=1e-12)
