"""The worker pool: lazy, bounded, resumable, and honest about what was not answered."""

import asyncio
import gc
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply, Usage
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.progress import Progress
from fwc_llm.runs.execute import Execution, ExecutionSummary
from fwc_llm.runs.journal import Journal, PlannedCall
from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal, serve
from tests.refusals import refused


class Scripted:
    """A model that answers "Yes", unless `script` says otherwise for a message."""

    simulated = True

    def __init__(
        self, script: Any = None, parameters: Mapping[str, Any] | None = None
    ) -> None:
        self.name, self.parameters = "scripted", dict(parameters or {})
        self.script = script or (lambda content: "Yes")
        self.asked: list[str] = []
        self.under_way = self.most_under_way = self.closed = 0

    async def ask(self, messages: Messages) -> Reply:
        content = messages[0]["content"]
        self.asked.append(content)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.001)
            text = self.script(content)
        finally:
            self.under_way -= 1
        if isinstance(text, BaseException):
            raise text
        if text is None:
            return Reply(None, error="nobody home")
        return Reply(text, usage=Usage(100, 1, 50), raw={"content": text})

    async def aclose(self) -> None:
        self.closed += 1


def call(number: int, arm: str = "zero", repeat: int = 0) -> PlannedCall:
    return PlannedCall(
        arm, repeat, f"test:{number}", "", [{"role": "user", "content": f"q{number}"}]
    )


def run(model: Scripted, calls: Any, folder: Path, **options: Any) -> ExecutionSummary:
    with Journal(folder) as journal:
        return asyncio.run(Execution(model, calls, journal, **options).run())


def records(folder: Path) -> list[dict[str, Any]]:
    with Journal(folder) as journal:
        return list(journal.records())


def test_every_call_is_asked_once_and_recorded_whole(tmp_path: Path) -> None:
    model = Scripted(lambda content: "Yes" if content == "q1" else "I cannot say")
    assert run(model, [call(1), call(2)], tmp_path) == ExecutionSummary(2, 0, 0)
    first = next(record for record in records(tmp_path) if record["row"] == "test:1")
    assert set(first) == {
        "request",
        "arm",
        "repeat",
        "row",
        "variant",
        "text",
        "finish_reason",
        "refusal",
        "error",
        "logprobs",
        "answer",
        "reason",
        "p_yes",
        "usage",
        "model",
        "fingerprint",
        "attempts",
        "latency",
        "time",
        "raw",
        "prompt",
        "parser",
    }
    assert (first["arm"], first["text"], first["answer"], first["reason"]) == (
        "zero",
        "Yes",
        "yes",
        "",
    )
    assert first["raw"] == {"content": "Yes"}
    assert {record["reason"] for record in records(tmp_path)} == {"", "refused"}
    assert model.closed == 1


def test_a_second_run_asks_only_what_is_missing(tmp_path: Path) -> None:
    flaky = Scripted(lambda content: None if content == "q3" else "No")
    assert run(flaky, map(call, range(5)), tmp_path) == ExecutionSummary(4, 1, 0)
    assert [
        each["row"] for each in records(tmp_path) if each["error"] == "nobody home"
    ] == ["test:3"]
    model = Scripted()
    assert run(model, map(call, range(7)), tmp_path) == ExecutionSummary(3, 0, 4)
    assert sorted(model.asked) == ["q3", "q5", "q6"]
    nobody = Scripted(lambda content: AssertionError("asked"))
    assert run(nobody, map(call, range(7)), tmp_path).skipped == 7


def test_a_call_that_comes_twice_is_asked_once(tmp_path: Path) -> None:
    model = Scripted()
    assert run(model, [call(1), call(1), call(2)], tmp_path).skipped == 1
    assert sorted(model.asked) == ["q1", "q2"]


def test_a_rejected_run_stops_at_once_and_keeps_what_is_under_way(
    tmp_path: Path,
) -> None:
    model = Scripted(
        lambda content: ProviderError("no quota") if content == "q10" else "Yes"
    )
    with pytest.raises(ProviderError, match="no quota"):
        run(model, map(call, range(1000)), tmp_path, concurrency=8)
    assert len(model.asked) < 30
    assert len(records(tmp_path)) == len(model.asked) - 1, (
        "every other request that was sent is kept"
    )


def test_a_prompt_that_cannot_be_built_ends_the_run(tmp_path: Path) -> None:
    def calls() -> Iterator[PlannedCall]:
        yield call(1)
        raise FwcError("the attribute age is missing")

    with refused("age is missing"):
        run(Scripted(), calls(), tmp_path)


class Instant(Scripted):
    async def ask(self, messages: Messages) -> Reply:
        return Reply("Yes")


@pytest.mark.parametrize("model", [Scripted(), Instant()], ids=["waits", "never waits"])
def test_cancellation_is_heard_and_keeps_what_was_answered(
    tmp_path: Path, model: Scripted
) -> None:
    async def go() -> None:
        with Journal(tmp_path) as journal:
            task = asyncio.ensure_future(
                Execution(model, map(call, itertools.count()), journal).run()
            )
            while len(journal) < 20:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 5.0)

    asyncio.run(go())
    assert len(records(tmp_path)) >= 20


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (lambda content: "No", "the first 20 replies: 20 no; if these are wrong"),
        (
            lambda content: "Yes" if content[-1] in "02468" else "Hm",
            "10 yes, 10 unread; if these are wrong",
        ),
        (lambda content: "Yes" if content[-1] in "02468" else "No", ""),
    ],
)
def test_counts_are_live_and_the_first_replies_are_told_if_most_are_alike(
    tmp_path: Path, script: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Progress] = []
    options: Any = {"progress": seen.append, "total": 30, "concurrency": 1}
    run(Scripted(script), map(call, range(30)), tmp_path, **options)
    assert [words in text for text in caplog.messages] == [True] * bool(words)
    answers = Counter(record["answer"] or "unread" for record in records(tmp_path))
    assert {name: n for name, n in seen[-1].answers.items() if n} == answers
    last = seen[-1]
    assert (last.waiting, last.done, last.errors, last.total) == (0, 30, 0, 30)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_calls(tmp_path: Path) -> None:
    """Objects, not bytes: what stays of a call is its place in the journal."""

    def objects(n: int) -> int:
        folder = tmp_path / str(n)
        folder.mkdir()
        with Journal(folder) as journal:
            asyncio.run(Execution(Instant(), map(call, range(n)), journal).run())
            gc.collect()
            return len(gc.get_objects())

    objects(10)
    assert objects(2000) - objects(200) < 500


def test_progress_says_when_the_service_makes_everybody_wait(tmp_path: Path) -> None:
    """It answers 429 once, and asks for patience; no reply comes that would be reported."""
    asked = [0]
    lines = list[str]()

    def service(request: HttpRequest) -> HttpReply:
        asked[0] += 1
        if asked[0] == 1:
            return replace(
                refusal(429, "too many requests"), headers={"retry-after": "3"}
            )
        return HttpReply(completion("Yes"))

    async def go() -> None:
        async with serve(service) as url:
            model = ChatModel("m", base_url=f"{url}/v1")
            with Journal(tmp_path) as journal:
                planned = [
                    PlannedCall("zero", 0, "r", "", [{"role": "user", "content": "?"}])
                ]
                run = Execution(
                    model,
                    planned,
                    journal,
                    1,
                    lambda state: lines.append(state.line(1)),
                )
                await run.run()

    asyncio.run(go())
    waits = [
        line
        for line in lines
        if "waiting for the service's limit (429), next try in" in line
    ]
    assert waits
    assert "waiting" not in lines[-1]
