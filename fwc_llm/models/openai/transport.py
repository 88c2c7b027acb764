"""The HTTP client below the SDK: responses of bounded size, no redirects, no way round for this machine.

Imported where a client is made, because httpx2 takes a while to import.
"""

from typing import Any

import httpx2

from fwc_llm.models.base import HEADER

LARGEST_RESPONSE = 16 * 1024 * 1024  # bytes, unpacked
_KEPT = ("content-type", "retry-after", "location", HEADER, f"llm_provider-{HEADER}")  # the last by LiteLLM


class TooLargeError(Exception):
    """A response larger than any reply can be."""


class BoundedClient(httpx2.AsyncClient):
    """An `AsyncClient` for services that may send anything. It follows no redirect.

    Requests to this machine (`local`) never go through the proxy that the environment names.
    """

    def __init__(self, local: bool, **options: Any) -> None:
        if local:
            options |= {"trust_env": False, "verify": httpx2.create_ssl_context()}  # with SSL_CERT_FILE
        super().__init__(follow_redirects=False, headers={"accept-encoding": "gzip, deflate"}, **options)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send, and read the response as far as its size allows; a stream is left to its reader."""
        response = await super().send(request, stream=True, **options)
        self.cookies.clear()
        if stream:
            return response
        parts, size = [], 0
        try:
            async for part in response.aiter_bytes():
                if (size := size + len(part)) > LARGEST_RESPONSE:
                    raise TooLargeError(f"the response is larger than {LARGEST_RESPONSE:,} bytes")
                parts.append(part)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.items() if name.startswith(_KEPT)]
        return httpx2.Response(
            response.status_code, headers=headers, content=b"".join(parts), request=request
        )
