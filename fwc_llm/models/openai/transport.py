"""The HTTP client below the SDK: responses of bounded size, no redirect to another origin, no cookies.

Imported where a client is made, because httpx2 takes a while to import.
"""

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

LARGEST_RESPONSE = 16 * 1024 * 1024  # bytes, unpacked
_ENCODINGS = {"", "identity", "gzip", "x-gzip", "deflate"}
_KEPT = (b"content-type", b"retry-after", b"retry-after-ms", b"location")


class UnusableResponseError(Exception):
    """A response that is not looked at; the text says why, in one line."""


class BoundedClient(httpx2.AsyncClient):
    """An `AsyncClient` for services that may send anything."""

    def __init__(self, **options: Any) -> None:
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        super().__init__(
            follow_redirects=True,
            headers={"accept-encoding": "gzip, deflate"},
            cookies=no_cookies,
            event_hooks={"response": [_refuse_other_origin]},
            **options,
        )

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send, and read the response as far as its size allows; a stream is left to its reader."""
        response = await super().send(request, stream=True, **options)
        if stream:
            return response
        try:
            content = await _content(response)
        finally:
            await response.aclose()
        return httpx2.Response(
            response.status_code,
            headers=[
                # Without its charset: text is UTF-8, whatever it claims.
                (name, value.partition(b";")[0] if name.lower() == b"content-type" else value)
                for name, value in response.headers.raw
                if _is_kept(name.lower())
            ],
            content=content,
            request=response.request,
        )


async def _content(response: httpx2.Response) -> bytes:
    """The body, unpacked. `UnusableResponseError` when it is too large."""
    if (encoding := response.headers.get("content-encoding", "").strip().lower()) not in _ENCODINGS:
        raise UnusableResponseError(f"the response has the encoding {encoding!r}, which was not asked for")
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LARGEST_RESPONSE:
            raise UnusableResponseError(f"the response is larger than {LARGEST_RESPONSE:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def _refuse_other_origin(response: httpx2.Response) -> None:
    if response.has_redirect_location:
        try:
            target = response.request.url.join(response.headers["location"])
        except (httpx2.InvalidURL, ValueError):
            raise UnusableResponseError("the service redirects to an invalid address") from None
        if _origin(target) != _origin(response.request.url):
            raise UnusableResponseError(
                f"the service redirects to another place ({target.host}): nothing is sent there"
            )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _is_kept(name: bytes) -> bool:
    return name in _KEPT or name.startswith(b"x-ratelimit-")
