"""HTTP server of the surrogate, to try clients without key or network."""

import hmac
import sys
import time
from functools import partial
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6
from socketserver import ThreadingTCPServer
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import HEADER, SIMULATED
from fwc_llm.models.surrogate.model import NAME, Surrogate
from fwc_llm.models.surrogate.protocol import PATHS, Body, Failure, encoded, read_call, respond, simulated
from fwc_llm.version import __version__

_LARGEST_BODY = 16 * 1024 * 1024
_MODELS = "/v1/models"
_POSTED = tuple(f"/v1{path}" for path in PATHS)


class SurrogateServer(ThreadingTCPServer):  # HTTPServer looks up the host's name, which can take seconds
    """Listens once it is created; `port` 0 takes a free one, `name` is a second name."""

    allow_reuse_address = True
    daemon_threads = True  # an idle connection must not keep the process alive
    request_queue_size = 512

    def __init__(
        self,
        model: Surrogate,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        name: str = NAME,
    ) -> None:
        self.model, self.key, self.names = model, key, tuple(dict.fromkeys((NAME, name)))
        self.address_family = AF_INET6 if ":" in host else AF_INET
        try:
            super().__init__((host, port), _Connection)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FwcError(f"cannot listen on {host}, port {port}: {reason}; try --port 0") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless a client closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """The base URL for clients, such as http://127.0.0.1:40001/v1."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}/v1" if ":" in str(host) else f"http://{host!s}:{port}/v1"


class _Connection(BaseHTTPRequestHandler):
    server: SurrogateServer
    protocol_version = "HTTP/1.1"
    server_version = f"fwc-llm/{__version__}"
    disable_nagle_algorithm = True
    wbufsize = -1  # buffered: head and body are sent together
    timeout = 75.0  # seconds before an idle connection is closed

    def _answer(self) -> None:
        try:
            self._send(200, self._answered(self.path.partition("?")[0].rstrip("/"), self._body()))
        except Failure as failure:
            self._send(failure.status, failure.body)

    do_GET = do_POST = _answer  # noqa: N815

    def _answered(self, path: str, content: bytes) -> Body:
        """The response body; `Failure` for a wrong path, method, key or model."""
        server = self.server
        if path not in (_POSTED if self.command == "POST" else [_MODELS]):
            raise Failure(404, f"Invalid URL ({self.command} {path}): see POST {', '.join(_POSTED)}")
        sent = self.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if server.key is not None and not hmac.compare_digest(sent.encode(), server.key.encode()):
            problem = "Incorrect API key provided" if sent else "You didn't provide an API key"
            raise Failure(401, problem, "invalid_api_key")
        if path == _MODELS:
            card = {"object": "model", "created": int(time.time()), "owned_by": SIMULATED}
            return {"object": "list", "data": [{"id": name, **card} for name in server.names]}
        call = read_call(path, content)
        if call.model not in server.names:
            problem = (
                f"The model `{call.model}` does not exist: this server has only `{'`, `'.join(server.names)}`"
            )
            raise Failure(404, problem, "model_not_found", param="model")
        return respond(call, partial(simulated, server.model))

    def _body(self) -> bytes:
        """Read the request's body in any case: the connection's next request follows the body."""
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdecimal() or int(length) > _LARGEST_BODY:
            self.close_connection = True
            raise Failure(411, f"a content-length up to {_LARGEST_BODY:,} is needed")
        return self.rfile.read(int(length))

    def _send(self, status: int, body: Body) -> None:
        kind, content = encoded(body)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.send_header(HEADER, SIMULATED)
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
