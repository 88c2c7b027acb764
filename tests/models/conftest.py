"""respx for the SDK's transport.

The SDK sends through httpx2 and httpcore2, which plain `respx.mock` does not intercept: the call would go
out. `respx.mock(using="httpcore2")` does once this class is defined.
"""

from collections.abc import Iterator
from typing import Any

import httpcore2
import pytest
import respx
from respx.mocks import HTTPCoreMocker


class HTTPCore2Mocker(HTTPCoreMocker):
    """respx's mocker of httpcore, aimed at httpcore2."""

    name = "httpcore2"
    targets = [target.replace("httpcore.", "httpcore2.", 1) for target in HTTPCoreMocker.targets]  # noqa: RUF012

    @classmethod
    def from_sync_httpx_response(cls, httpx_response: Any, target: Any, **kwargs: Any) -> Any:
        return httpcore2.Response(
            status=httpx_response.status_code,
            headers=httpx_response.headers.raw,
            content=httpx_response.stream,
            extensions=httpx_response.extensions,
        )


@pytest.fixture
def provider() -> Iterator[respx.MockRouter]:
    """OpenAI's address, intercepted: what no route matches is an error, nothing goes out."""
    with respx.mock(
        using="httpcore2", base_url="https://api.openai.com/v1", assert_all_called=False
    ) as router:
        yield router
