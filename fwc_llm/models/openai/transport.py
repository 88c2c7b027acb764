"""The HTTP client below OpenAI's SDK; import it late, because httpx2 is slow."""

from typing import Any

import httpx2

from fwc_llm.models.base import HEADER

LARGEST_RESPONSE = 16 * 1024 * 1024  # bytes after decompression
_KEPT = ("content-type", "retry-after", "location", HEADER, f"llm_provider-{HEADER}")  # the last is LiteLLM's


class TooLargeError(Exception):
    """The response exceeds `LARGEST_RESPONSE`."""


class BoundedClient(httpx2.AsyncClient):
    """An `AsyncClient` without redirects; if `local`, without the environment's proxy."""

    def __init__(self, local: bool, **options: Any) -> None:
        if local:
            options |= {"trust_env": False, "verify": httpx2.create_ssl_context()}  # with SSL_CERT_FILE
        super().__init__(follow_redirects=False, headers={"accept-encoding": "gzip, deflate"}, **options)

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request; read the response, unless `stream`, up to `LARGEST_RESPONSE`."""
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
