"""Shared: small samples."""

import pytest


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a hundred rows for every representative."""
    monkeypatch.setattr("fwc_llm.coreset.estimator.ROWS_FOR_EACH", {"l1": 100})
