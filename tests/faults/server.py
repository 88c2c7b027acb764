"""A service of chat completions that misbehaves on a seeded schedule.

What happens to a request depends on the seed, its messages and how often they came before; never on
time or on the order of arrival. A few conversations are refused for good (context length, size),
every other one gets its answer by its fifth attempt at the latest.
"""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal
from tests.faults.table import FAULTS, STALL

_REPLIES = {fault.name: fault.reply for fault in FAULTS}
_FAULTS = (
    "status 429",
    "status 429, Retry-After '0'",
    "status 500",
    "status 500 as HTML",
    "status 503",
    "a reset",
    "a reset in the body",
    "a stall",
    "half a JSON",
    "HTML",
    "choices []",
    "choices None",
    "error with 200",
    "an empty body",
)
_GOOD_FROM = 4  # attempts after which a request is answered
_STALL_SHARE = (
    0.2  # of the faults that the schedule calls a stall; the others are a 500: waiting takes time
)


class FaultyService:
    """The service's schedule and its memory: `sent` counts requests and `answered` replies by
    content.
    """

    def __init__(self, seed: int = 0, fault_share: float = 0.3, stall_seconds: float = STALL):
        self.seed, self.fault_share, self.stall_seconds = seed, fault_share, stall_seconds
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def __call__(self, request: HttpRequest) -> HttpReply:
        if request.method != "POST" or not request.path.endswith("/chat/completions"):
            return refusal(404, f"no such address: {request.path}")
        content = conversation_key(request.json()["messages"])
        attempt = self.sent[content]
        self.sent[content] += 1
        forever = self.refused_for_good(content)
        if forever is not None:
            self.faults[forever] += 1
            return _REPLIES[forever]
        if attempt < _GOOD_FROM and self._draw("fault", content, attempt) < self.fault_share:
            name = _FAULTS[int(self._draw("which", content, attempt) * len(_FAULTS))]
            if name == "a stall" and self._draw("stall", content, attempt) >= _STALL_SHARE:
                name = "status 500"
            self.faults[name] += 1
            return replace(_REPLIES[name], delay=self.stall_seconds * (name == "a stall"))
        self.answered[content] += 1
        return HttpReply(self.answer(content))

    def refused_for_good(self, content: str) -> str | None:
        """Why this conversation never gets an answer, or None."""
        draw = self._draw("forever", content)
        return "context length" if draw < 0.005 else "status 413" if draw < 0.01 else None

    def answer(self, content: str) -> dict[str, Any]:
        """The reply: yes or no by content; some are refusals, of another model, or with an id
        used before.
        """
        draw = self._draw("answer", content)
        odd = self._draw("odd", content)
        body = completion("Yes" if draw < 0.4 else "No", id=f"chatcmpl-{content[:12]}")
        if odd < 0.02:
            body["choices"][0]["message"] = {
                "role": "assistant",
                "content": None,
                "refusal": "I can't say.",
            }
        elif odd < 0.04:
            body["model"] = "another-model"
        elif odd < 0.06:
            body["id"] = "chatcmpl-duplicate"
        elif odd < 0.08:
            del body["usage"]
        return body

    def _draw(self, *what: object) -> float:
        """A number in [0, 1) that depends on the seed and `what` alone."""
        digest = hashlib.sha256(repr((self.seed, *what)).encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56


def conversation_key(messages: Any) -> str:
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
