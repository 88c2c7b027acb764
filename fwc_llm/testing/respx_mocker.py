"""Lets respx intercept OpenAI's SDK, whose transport is httpx2.

Plain `respx.mock` does not intercept httpx2: calls would reach the network. Import this module in a
`conftest.py`; `respx.mock(using="httpcore2")` then intercepts the SDK.
"""

from typing import Any

import httpcore2
from respx.mocks import HTTPCoreMocker


class HTTPCore2Mocker(HTTPCoreMocker):  # type: ignore[misc]
    """respx's mocker for httpcore2; respx registers it by its `name`."""

    name = "httpcore2"
    targets = [  # noqa: RUF012
        target.replace("httpcore.", "httpcore2.", 1)
        for target in HTTPCoreMocker.targets
    ]

    @classmethod
    def from_sync_httpx_response(
        cls, httpx_response: Any, target: Any, **kwargs: Any
    ) -> Any:
        """Convert an httpx response to one of httpcore2."""
        return httpcore2.Response(
            status=httpx_response.status_code,
            headers=httpx_response.headers.raw,
            content=httpx_response.stream,
            extensions=httpx_response.extensions,
        )
