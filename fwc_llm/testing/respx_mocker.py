"""respx for OpenAI's SDK, whose transport (httpx2) plain `respx.mock` does not see: calls would go out.

Import this module in a `conftest.py`; `respx.mock(using="httpcore2")` then intercepts the SDK.
"""

from typing import Any

import httpcore2
from respx.mocks import HTTPCoreMocker


class HTTPCore2Mocker(HTTPCoreMocker):  # type: ignore[misc]
    """respx's mocker of httpcore, aimed at httpcore2. Being defined is enough: respx knows it by its name."""

    name = "httpcore2"
    targets = [target.replace("httpcore.", "httpcore2.", 1) for target in HTTPCoreMocker.targets]  # noqa: RUF012

    @classmethod
    def from_sync_httpx_response(cls, httpx_response: Any, target: Any, **kwargs: Any) -> Any:
        """The response in the words of httpcore2."""
        return httpcore2.Response(
            status=httpx_response.status_code,
            headers=httpx_response.headers.raw,
            content=httpx_response.stream,
            extensions=httpx_response.extensions,
        )
