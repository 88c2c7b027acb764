"""The HTTP client below OpenAI's SDK; import it late, because httpx2 is slow."""

from collections.abc import Callable
from typing import Any

import httpx2

LARGEST_RESPONSE = 16 * 1024 * 1024  # bytes after decompression
_READ_AT_ONCE = (
    32 * 1024
)  # of a larger response, bytes beyond its end may wait where nobody sees them
_KEPT = ("content-type", "retry-after", "location")


class TooLargeError(Exception):
    """The response exceeds `LARGEST_RESPONSE`."""


class BoundedClient(httpx2.AsyncClient):
    """An `AsyncClient` without redirects; if `local`, without the environment's proxy.

    What follows a response on its connection would be taken for the response to another request. So
    a connection without encryption, with which a proxy may meddle, is used once, and another one is
    not used again if it holds more than the response. `on_rest` is then called.
    """

    def __init__(
        self, local: bool, on_rest: Callable[[], None], **options: Any
    ) -> None:
        self._on_rest = on_rest
        if local:
            options |= {
                "trust_env": False,
                "verify": httpx2.create_ssl_context(),
            }  # with SSL_CERT_FILE
        super().__init__(
            follow_redirects=False,
            headers={"accept-encoding": "gzip, deflate"},
            **options,
        )

    async def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send a request; read the response, unless `stream`, up to `LARGEST_RESPONSE`."""
        if stream or request.url.scheme == "http":
            request.headers["connection"] = "close"
        response = await super().send(request, stream=True, **options)
        self.cookies.clear()
        if stream:
            return response
        parts = []
        size = 0
        try:
            async for part in response.aiter_bytes():
                size = size + len(part)
                if size > LARGEST_RESPONSE:
                    raise TooLargeError(
                        f"the response is larger than {LARGEST_RESPONSE:,} bytes"
                    )
                parts.append(part)
        finally:
            await response.aclose()
        await self._drop_rest(response)
        headers = [
            (name, value)
            for name, value in response.headers.items()
            if name.startswith(_KEPT)
        ]
        return httpx2.Response(
            response.status_code,
            headers=headers,
            content=b"".join(parts),
            request=request,
        )

    async def _drop_rest(self, response: httpx2.Response) -> None:
        connection: Any = response.stream
        for name in (
            "_stream",
            "_httpcore_stream",
            "_stream",
            "_connection",
        ):  # there are no public names
            connection = getattr(connection, name, None)
        protocol = getattr(connection, "_h11_state", None)
        if protocol is None:  # a transport of a test
            return
        rest, _ = protocol.trailing_data
        if rest or response.num_bytes_downloaded > _READ_AT_ONCE:
            await connection.aclose()
        if rest:
            self._on_rest()
