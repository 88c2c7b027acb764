"""OpenAI's files and batches endpoints on loopback: output in any order, partial failures, bad
moments.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal

_PART = re.compile(
    rb'name="(\w+)"(?:; filename="([^"]+)")?[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n(.*?)\r\n--',
    re.S,
)

PAGE = 2  # batches that the service lists at once


class BatchService:
    """A batch moves on by one status with every look at it. `worked` counts requests by custom_id.

    `fails(number)` says whether the request of that position in its file ends in the error file.
    `on_step` is called with the number of HTTP requests served so far, after each took effect.
    `answer` gives the reply to a conversation in a batch.
    """

    def __init__(
        self,
        fails: Callable[[int], bool] = lambda number: False,
        ends_as: str = "completed",
        answer: Callable[[Any], str] | None = None,
    ) -> None:
        self.fails, self.ends_as, self.answer = fails, ends_as, answer or answer_of
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.worked: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.steps = 0
        self.on_step: Callable[[int], None] = lambda step: None
        self.cancelled_after = 0  # requests of a batch that is cancelled
        self.odd_lines: list[bytes] = []  # put before every output
        self.kept: float = 1.0  # the share of replies that come back
        self.broken: dict[
            int, HttpReply
        ] = {}  # what to answer instead, after the step took effect

    def __call__(self, request: HttpRequest) -> HttpReply:
        reply = self._serve(request)
        self.steps += 1
        self.on_step(self.steps)
        return self.broken.get(self.steps, reply)

    def _serve(self, request: HttpRequest) -> HttpReply:
        method = request.method
        path = request.path.partition("?")[0].removeprefix("/v1")
        if (method, path) == ("POST", "/files"):
            fields = {name: content for name, _, content in _PART.findall(request.body)}
            assert fields[b"purpose"] == b"batch"
            return HttpReply(self._add_file(fields[b"file"]))
        if (method, path) == ("POST", "/batches"):
            return HttpReply(self._create(request.json()))
        if (method, path) == ("GET", "/batches"):
            newest = list(reversed(self.batches))
            after = re.search(r"after=([\w-]+)", request.path)
            start = newest.index(after[1]) + 1 if after else 0
            page = [self.batches[name] for name in newest[start : start + PAGE]]
            more = start + PAGE < len(newest)
            return HttpReply({"object": "list", "data": page, "has_more": more})
        if method == "GET" and (
            found := re.fullmatch(r"/files/([\w-]+)/content", path)
        ):
            if found[1] in self.files:
                return HttpReply(self.files[found[1]])
            return refusal(404, "No such file")
        found = re.match(r"/batches/([\w-]+)", path)
        if found and found[1] not in self.batches:
            return refusal(404, f"No batch found with id {found[1]!r}")
        if method == "GET" and (found := re.fullmatch(r"/batches/([\w-]+)", path)):
            return HttpReply(self._advance(self.batches[found[1]]))
        if method == "POST" and (
            found := re.fullmatch(r"/batches/([\w-]+)/cancel", path)
        ):
            batch = self.batches[found[1]]
            if batch["status"] not in {"validating", "in_progress"}:
                return refusal(409, "Cannot cancel a batch that has ended.")
            self._work(batch, self.cancelled_after)
            batch["status"] = "cancelling"
            return HttpReply(batch)
        if (method, path) == ("POST", "/chat/completions"):
            self.live[json.dumps(request.json()["messages"])] += 1
            return HttpReply(completion("Yes"))
        return refusal(404, f"no such address: {path}")

    def _add_file(self, content: bytes) -> dict[str, Any]:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": 1,
            "filename": "x",
            "purpose": "batch",
            "status": "processed",
        }

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["endpoint"] == "/v1/chat/completions"
        assert body["completion_window"] == "24h"
        name = f"batch-{len(self.batches)}"
        lines = [
            json.loads(line) for line in self.files[body["input_file_id"]].splitlines()
        ]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        assert len({line["body"]["model"] for line in lines}) == 1
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "completion_window": "24h",
            "status": "validating",
            "created_at": 1,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        return self.batches[name]

    def _advance(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["status"] == "validating" and self.ends_as == "failed":
            batch["status"] = "failed"
            batch["errors"] = {
                "object": "list",
                "data": [{"code": "x", "message": "enqueued token limit"}],
            }
        elif batch["status"] == "validating":
            batch["status"] = "in_progress"
        elif batch["status"] == "in_progress":
            batch["status"] = self.ends_as
            self._work(batch)
        elif batch["status"] == "cancelling":
            batch["status"] = "cancelled"
        return batch

    def _work(self, batch: dict[str, Any], most: int | None = None) -> None:
        good = list[dict[str, Any]]()
        bad = list[dict[str, Any]]()
        requests = map(
            json.loads, self.files[batch["input_file_id"]].splitlines()[:most]
        )
        for number, request in enumerate(requests):
            self.worked[request["custom_id"]] += 1
            failed = self.fails(number)
            text = self.answer(request["body"]["messages"])
            if failed:
                body = refusal(500, f"server error {number}", "server_error").body
            else:
                body = completion(text)
            response = {
                "status_code": 500 if failed else 200,
                "request_id": "r",
                "body": body,
            }
            line = {
                "custom_id": request["custom_id"],
                "response": response,
                "error": None,
            }
            (bad if failed else good).append(line)
        random.Random(0).shuffle(good)
        batch["output_file_id"] = self._add_result(
            good[: round(self.kept * len(good))], self.odd_lines
        )
        batch["error_file_id"] = self._add_result(bad) if bad else None
        batch["request_counts"] = {
            "total": len(good) + len(bad),
            "completed": len(good),
            "failed": len(bad),
        }

    def _add_result(self, lines: list[Any], odd: Sequence[bytes] = ()) -> str:
        content = b"".join(
            [*odd, *(json.dumps(line).encode() + b"\n" for line in lines)]
        )
        return str(self._add_file(content)["id"])


def answer_of(messages: Any) -> str:
    """The reply to a conversation: by its length, so that a wrong join shows."""
    if len(messages[-1]["content"]) % 2:
        return "Yes"
    return "No"
