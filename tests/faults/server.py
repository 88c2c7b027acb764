"""A service that misbehaves on a seeded schedule: chat completions, decisions, System One.

What happens to a request depends on the seed, its messages and how often they came before; never on time or
on the order of arrival. A few conversations are refused for good (context length, content filter), every
other one gets its answer by its fifth attempt at the latest.
"""

import hashlib
import json
from collections import Counter
from typing import Any

from tests.faults.loopback import HttpReply, HttpRequest, answered, asked, completion, refusal

_ADDRESSES = ("/chat/completions", "/decisions", "/systemone")
_GOOD_FROM = 4  # attempts after which a request is answered
_STALL_SECONDS = 30.0  # longer than the tests' client waits for one attempt
_STALL_SHARE = 0.2  # of the faults that the schedule calls a stall; the others are a 500: waiting takes time


class FaultyService:
    """The service's schedule and its memory: `sent` counts requests and `answered` replies by content."""

    def __init__(self, seed: int = 0, fault_share: float = 0.3, stall_seconds: float = _STALL_SECONDS):
        self.seed, self.fault_share, self.stall_seconds = seed, fault_share, stall_seconds
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def __call__(self, request: HttpRequest) -> HttpReply:
        if request.method != "POST" or not request.path.endswith(_ADDRESSES):
            return refusal(404, f"no such address: {request.path}")
        content = conversation_key(asked(request))
        attempt = self.sent[content]
        self.sent[content] += 1
        if (forever := self.refused_for_good(content)) is not None:
            self.faults[forever] += 1
            return _REFUSALS[forever]
        if attempt < _GOOD_FROM and self._draw("fault", content, attempt) < self.fault_share:
            name = list(_FAULTS)[int(self._draw("which", content, attempt) * len(_FAULTS))]
            if name == "stall" and self._draw("stall", content, attempt) >= _STALL_SHARE:
                name = "500"
            self.faults[name] += 1
            return self._stall() if name == "stall" else _FAULTS[name]
        self.answered[content] += 1
        if not request.path.endswith(_ADDRESSES[0]):
            return HttpReply(answered(request, self._draw("answer", content) < 0.4))
        return HttpReply(self.answer(content))

    def refused_for_good(self, content: str) -> str | None:
        """Why this conversation never gets an answer, or None."""
        draw = self._draw("forever", content)
        return "context" if draw < 0.005 else "filter" if draw < 0.01 else None

    def answer(self, content: str) -> dict[str, Any]:
        """The reply: yes or no by content; some are refusals, of another model, or with an id used before."""
        draw, odd = self._draw("answer", content), self._draw("odd", content)
        body = completion("Yes" if draw < 0.4 else "No", id=f"chatcmpl-{content[:12]}")
        if odd < 0.02:
            body["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I can't say."}
        elif odd < 0.04:
            body["model"] = "another-model"
        elif odd < 0.06:
            body["id"] = "chatcmpl-duplicate"
        elif odd < 0.08:
            del body["usage"]
        return body

    def _stall(self) -> HttpReply:
        return HttpReply(completion("Yes"), delay=self.stall_seconds)

    def _draw(self, *what: object) -> float:
        """A number in [0, 1) that depends on the seed and `what` alone."""
        digest = hashlib.sha256(repr((self.seed, *what)).encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56


def conversation_key(messages: Any) -> str:
    """The identity of a conversation for the schedule."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()


_LONG = json.dumps(completion("Yes"))
_FAULTS: dict[str, HttpReply] = {
    "429": refusal(429, "Rate limit reached", "rate_limit_exceeded"),
    "429 with Retry-After": HttpReply({"error": {"message": "Slower"}}, 429, {"retry-after": "0.02"}),
    "500": refusal(500, "The server had an error"),
    "500 as text": HttpReply("Internal Server Error", 500),
    "503": HttpReply({"error": "overloaded"}, 503, {"retry-after": "0.01"}),
    "reset": HttpReply("", cut=0),
    "reset in the body": HttpReply(completion("Yes"), cut=60),
    "stall": HttpReply(completion("Yes")),
    "truncated JSON": HttpReply(_LONG[: len(_LONG) // 2].encode()),
    "HTML": HttpReply("<!doctype html><html><body><h1>Service &amp; maintenance</h1></body></html>"),
    "no choices": HttpReply(completion("Yes", choices=[])),
    "choices null": HttpReply(completion("Yes", choices=None)),
    "error with 200": HttpReply({"error": {"message": "upstream failed", "code": None}}),
    "empty body": HttpReply(b""),
}
_REFUSALS = {
    "context": refusal(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
    "filter": refusal(400, "The prompt was filtered.", "content_filter"),
}
