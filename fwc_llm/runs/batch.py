"""A run through the Batch API: write, upload, submit, poll and collect batches.

The process may end after any step: the next process continues from `batch/state.json`.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from fwc_llm.errors import FwcError, ProviderError, StorageError
from fwc_llm.files import failing_as, open_binary, read_text, reason, whole_file
from fwc_llm.models.base import Model, Reply
from fwc_llm.models.bodies import read_batch_line
from fwc_llm.models.openai.batch_api import (
    ENDPOINT,
    ID,
    MOST_BYTES,
    MOST_REQUESTS,
    BatchClient,
    BatchState,
    GoneError,
)
from fwc_llm.models.openai.retry import AttemptError
from fwc_llm.progress import Progress
from fwc_llm.runs.budget import Budget
from fwc_llm.runs.journal import Journal, PlannedCall, call_id, parameters_json
from fwc_llm.sanitize import mapping_of, parse_json
from fwc_llm.validation import first_error

_Id = Annotated[
    str, Field(pattern=re.compile(rf"\A(?:{ID.pattern})\Z"))
]  # pydantic's regex takes 75 ms
FIRST_POLL_SECONDS = 1.0
POLL_GROWTH = 1.5


class _BatchPart(BaseModel, extra="forbid", strict=True):
    """One batch: its requests are in `name`.jsonl."""

    name: Annotated[str, Field(pattern=r"^[0-9]{4,8}$")]
    requests: NonNegativeInt
    file_id: _Id | None = None  # once uploaded
    batch_id: _Id | None = None  # once submitted
    collected: bool = False


class _State(BaseModel):
    format: Literal["fwc-llm-batch/1"] = "fwc-llm-batch/1"
    parts: list[_BatchPart] = []


def batches_under_way(folder: str | Path) -> bool:
    """Whether a run has uploaded, uncollected batches; `FwcError` if damaged."""
    parts = _read_state(Path(folder) / "batch")
    return any(part.file_id is not None and not part.collected for part in parts)


@dataclass
class BatchRun:
    """Sends all unanswered calls through the Batch API, and waits for the replies.

    `calls` returns the run's requests, always the same ones.
    No new batches are written without `begin`, and while earlier ones are not collected; with
    `cancel`, the service is first asked to stop those. `stopped` is the reason why the budget left
    requests out of batches.
    """

    model: Model
    calls: Callable[[], Iterable[PlannedCall]]
    journal: Journal
    progress: Callable[[Progress], None] | None = None
    budget: Budget | None = None
    begin: bool = True
    cancel: bool = False
    poll_seconds: float = 60.0  # at first, the service is polled more often

    def __post_init__(self) -> None:
        self.client = BatchClient(self.model)
        self.folder = self.journal.path.parent / "batch"
        self.parts = _read_state(self.folder)
        self.skipped = 0
        self.stopped: str | None = None
        self.limit = self.budget or Budget(self.model)
        # Other rounds of tune may have batches under way in the folder, too.
        self.own = [p for p in self.parts if not p.collected and self._calls(p)]

    async def run(self) -> dict[str, PlannedCall]:
        """Write, submit and collect; the calls without a reply, by request id.

        `ProviderError` if a batch is refused as a whole.
        """
        try:
            if self.begin and not self._under_way:
                self._write_requests()
            await self._submit()
            for part in self._under_way if self.cancel else ():
                with suppress(GoneError):  # `_wait` gives up a lost batch
                    await self.client.cancel(str(part.batch_id))
            await self._wait()
        finally:
            await self.model.aclose()
        return {
            request: call
            for request, call in self._planned()
            if not self.journal.answered(request)
        }

    @property
    def _under_way(self) -> list[_BatchPart]:
        return [part for part in self.own if not part.collected]

    def _write_requests(self) -> None:
        """Write batches for the calls that are unanswered and in no earlier batch."""
        self.limit.start(self.journal)
        part = _BatchPart(name="0000", requests=MOST_REQUESTS)
        size = 0
        with (
            failing_as(StorageError, f"cannot write to {self.folder}: "),
            ExitStack() as files,
        ):
            for request, call in self._unanswered():
                content = {
                    "custom_id": request,
                    "method": "POST",
                    "url": ENDPOINT,
                    "body": self.client.request_body(call.messages),
                }
                text = json.dumps(content, ensure_ascii=False) + "\n"
                line = text.encode("utf-8", "backslashreplace")
                if size + len(line) > MOST_BYTES or part.requests >= MOST_REQUESTS:
                    files.close()
                    part = _BatchPart(name=f"{len(self.parts) + 1:04}", requests=0)
                    self.parts.append(part)
                    self.own.append(part)
                    size = 0
                    file = files.enter_context(
                        whole_file(self._path(part, "jsonl"), "xb")
                    )
                file.write(line)
                part.requests += 1
                size += len(line)
        self._save()

    def _planned(self) -> Iterator[tuple[str, PlannedCall]]:
        """Yield (request id, call) of the run."""
        parameters = parameters_json(self.model)
        for call in self.calls():
            yield call_id(parameters, call), call

    def _unanswered(self) -> Iterator[tuple[str, PlannedCall]]:
        """Yield (request id, call) of calls to send, as far as the budget allows."""
        had = {request for part in self.parts for request in self._requests(part)}
        for request, call in self._planned():
            answered = self.journal.answered(request)
            self.skipped += answered
            if answered or request in had:
                continue
            if not self.limit.reserve(self.limit.most(call.messages, batch=True)):
                self.stopped = self.limit.why
                return
            yield request, call

    def _path(self, part: _BatchPart, kind: str) -> Path:
        return self.folder / f"{part.name}.{kind}"

    async def _submit(self) -> None:
        """Submit all batches; without `begin`, or after a live run, only find submitted ones."""
        for part in self._under_way:
            if part.batch_id is not None:
                continue
            if not self.begin or any(
                self.journal.answered(request) for request in self._requests(part)
            ):
                if part.file_id is not None:
                    part.batch_id = await self.client.find(part.file_id)
                part.collected = part.batch_id is None
            else:
                if part.file_id is None:
                    part.file_id = await self.client.upload(self._path(part, "jsonl"))
                    self._save()
                part.batch_id = await self.client.submit(part.file_id)
            self._save()

    async def _wait(self) -> None:
        """Poll until every batch has ended; collect each batch when it ends."""
        states: dict[str, BatchState] = {}
        pause = FIRST_POLL_SECONDS
        began = time.monotonic()
        total = sum(part.requests for part in self._under_way) + self.skipped
        while self._under_way:
            for part in self._under_way:
                try:
                    state = states[part.name] = await self.client.state(
                        str(part.batch_id)
                    )
                    if state.ended:
                        await self._collect(part, state)
                except GoneError:
                    if not self.cancel:
                        raise
                    self._lose(self._calls(part).items())
                    part.collected = True
                    self._save()
            if self.progress is not None:
                done = sum(state.completed for state in states.values())
                failed = sum(state.failed for state in states.values())
                rate = done / max(time.monotonic() - began, 1e-9)
                with suppress(
                    OSError, ValueError
                ):  # a closed terminal must not end the run
                    self.progress(Progress(done, failed, self.skipped, total, rate))
            if self._under_way:
                self.journal.check_in_place()
                await asyncio.sleep(min(pause, self.poll_seconds))
                pause *= POLL_GROWTH

    async def _collect(self, part: _BatchPart, state: BatchState) -> None:
        """Download a batch's result files, and write new replies to the journal."""
        if state.status == "failed":
            part.batch_id = None
            self._save()
            why = state.errors or "no reason given"
            again = "the same command submits it again; without --batch its requests are asked live"
            raise ProviderError(f"the Batch API refused a batch ({why}): {again}")
        calls = self._calls(part)
        failures = dict[str, AttemptError]()
        for kind, file_id in (
            ("output", state.output_file),
            ("errors", state.error_file),
        ):
            if file_id is None:
                continue
            path = self._path(part, f"{kind}.jsonl")
            if not path.exists():
                await self.client.download(file_id, path)
            with (
                failing_as(StorageError, f"cannot read {path}: "),
                open_binary(path) as lines,
            ):
                for line in lines:
                    self._take(line.decode("utf-8", "replace"), calls, failures)
        self._record_losses(calls, failures, state)
        part.collected = True
        self._save()

    def _take(
        self,
        line: str,
        calls: Mapping[str, PlannedCall],
        failures: dict[str, AttemptError],
    ) -> None:
        """Take in a result: a reply into the journal, or a request's failure into `failures`."""
        result = mapping_of(self.client.read_body(line))
        request = str(result.get("custom_id"))
        if request not in calls or self.journal.answered(request):
            return
        try:
            reply = read_batch_line(result)
        except AttemptError as failure:
            failures[request] = failure
            return
        self.client.tell_of(reply)
        call = calls[request]
        if reply.usage is not None:
            expected = self.limit.most(call.messages)
            self.limit.learn(expected, self.limit.dollars(reply.usage))
        unknown = int(reply.usage is None)
        self.limit.keep(self.journal, request, call, reply, unknown, batch=True)

    def _record_losses(
        self,
        calls: Mapping[str, PlannedCall],
        failures: Mapping[str, AttemptError],
        state: BatchState,
    ) -> None:
        """Record why requests of a batch that ended have no reply."""
        untold = []
        answered = 0
        for request, call in calls.items():
            failure = failures.get(request)
            if self.journal.answered(request):
                answered += 1
            elif failure is None:
                untold.append((request, call))
            else:
                why = f"the batch has no reply to it ({failure})"
                self._lose([(request, call)], why, failure.billed)
        billed = len(untold)
        # Without an end, only the number that the service completed, the longest requests.
        if state.status != "completed":
            untold.sort(key=lambda request_call: -len(str(request_call[1].messages)))
            billed = max(state.completed - answered, 0)
        self._lose(untold[:billed])
        self._lose(
            untold[billed:],
            f"the batch ended before it was asked ({state.status})",
            billed=False,
        )

    def _lose(
        self,
        requests: Iterable[tuple[str, PlannedCall]],
        why: str = "the batch has lost the reply",
        billed: bool = True,
    ) -> None:
        """Record why requests have no reply, and that they may have been charged."""
        lost = Reply(None, error=why)
        for request, call in requests:
            self.limit.keep(self.journal, request, call, lost, int(billed), batch=True)

    def _requests(self, part: _BatchPart) -> set[str]:
        """The request ids of a batch."""
        path = self._path(part, "jsonl")
        restore = f"): restore it, or remove {self.folder}"
        with (
            failing_as(FwcError, f"{path} is damaged (", restore),
            open_binary(path) as lines,
        ):
            return {str(mapping_of(parse_json(line))["custom_id"]) for line in lines}

    def _calls(self, part: _BatchPart) -> dict[str, PlannedCall]:
        """The calls of a batch by request id."""
        requests = self._requests(part)
        return {
            request: call for request, call in self._planned() if request in requests
        }

    def _save(self) -> None:
        self.journal.check_in_place()  # do not recreate a deleted folder
        path = self.folder / "state.json"
        with (
            failing_as(StorageError, f"cannot write {path}: "),
            whole_file(path) as file,
        ):
            file.write(_State(parts=self.parts).model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())


def _read_state(folder: Path) -> list[_BatchPart]:
    """Read the batches from state.json; [] without it, `FwcError` if damaged."""
    state = folder / "state.json"
    try:
        return _State.model_validate(parse_json(read_text(state))).parts
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        if isinstance(error, ValidationError):
            why = first_error(error, {})
        else:
            why = reason(error)
        raise FwcError(
            f"{state} is damaged ({why}): restore it, or remove {folder}"
        ) from None
