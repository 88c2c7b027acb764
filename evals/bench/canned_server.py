"""A chat-completions service with one answer, as fast as asyncio allows.

`python -m evals.bench.canned_server` prints its port. It runs in a separate process, so that it does not
slow down the client.
"""

import asyncio
import json
from typing import Any

_REPLY = json.dumps(
    {
        "id": "chatcmpl-canned",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "canned",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Yes", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
    }
).encode()
_HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(_REPLY)}\r\n\r\n"
RESPONSE = _HEAD.encode() + _REPLY


class _Canned(asyncio.Protocol):
    """Answers each request once its body has arrived."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.received = bytearray()

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:end]).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            if len(self.received) < end + 4 + length:
                return
            del self.received[: end + 4 + length]
            self.transport.write(RESPONSE)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Canned, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
