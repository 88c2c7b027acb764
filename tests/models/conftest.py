"""OpenAI's address, intercepted below the SDK."""

from collections.abc import Iterator

import pytest
import respx

import fwc_llm.testing.respx_mocker  # noqa: F401 (respx knows the SDK's transport once it is imported)
from tests.models.asking import KEY


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def provider() -> Iterator[respx.MockRouter]:
    """OpenAI's address, intercepted: what no route matches is an error, nothing goes out."""
    address = "https://api.openai.com/v1"
    with respx.mock(
        using="httpcore2", base_url=address, assert_all_called=False
    ) as router:
        yield router
