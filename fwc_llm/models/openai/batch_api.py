"""OpenAI's Batch API: a file of requests, answered within a day at half the price."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fwc_llm.errors import FwcError, ProviderError, StorageError
from fwc_llm.files import reason, whole_file
from fwc_llm.models.base import Model
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.retry import AttemptError, FailureScope
from fwc_llm.sanitize import (
    Fields,
    Json,
    as_single_line,
    mapping_of,
    parse_uint,
    redact,
)

if TYPE_CHECKING:
    import openai

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
MOST_RESULT_BYTES = 1 << 32
ID = re.compile(r"[\w:-][\w.:-]{0,199}")
ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_USELESS = {"failed", "cancelling", "cancelled"}
_ATTEMPTS = 8
_LONGEST_LINE = 16 * 1024 * 1024  # bytes
_PAGE, _PAGES = (
    100,
    10,
)  # newest batches of the account that are searched for a file's batch
_SILENCE_SECONDS = 600.0  # longest time without a received byte
_CALL_SECONDS, _FILE_SECONDS = (
    600.0,
    4 * 3600.0,
)  # limits for one call, and for the transfer of a file
_LIVE = (
    "the replies are kept; to send the rest live, leave out --batch, or add --cancel-batch if a "
    "batch is "
    "pending"
)
_T = TypeVar("_T")


class GoneError(ProviderError):
    """The service has no Batch API, or no longer has a batch or file."""


@dataclass(frozen=True)
class BatchState:
    """A batch's status, numbers of finished requests, and result files."""

    status: str
    completed: int
    failed: int
    output_file: str | None
    error_file: str | None
    errors: str

    @property
    def ended(self) -> bool:
        """Whether the status is final."""
        return self.status in _ENDED


class BatchClient:
    """Files and batches of the account of `model`; each call is made up to 8 times."""

    def __init__(self, model: Model) -> None:
        if type(model) is not ChatModel:
            raise FwcError(f"{model.name} has no Batch API here: leave out --batch")
        self._model = model
        self.request_body, self.read_body = model.request_body, model.read_body
        self.tell_of = model.tell_of

    async def upload(self, path: Path) -> str:
        """Upload a file of requests; return the file's id."""
        return await self._patiently(
            lambda client: client.files.with_raw_response.create(
                file=path, purpose="batch"
            ),
            lambda response: self._id(self._body(response)),
            _FILE_SECONDS,
        )

    async def submit(self, file_id: str) -> str:
        """Find or create an uploaded file's batch (two would cost twice); return its id."""

        async def call(client: "openai.AsyncOpenAI") -> Json:
            found = await self._batch_of(client, file_id, _USELESS)
            if found is not None:
                return found
            response = await client.batches.with_raw_response.create(
                input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h"
            )
            return self._body(response)

        return await self._patiently(call, self._id)

    async def find(self, file_id: str) -> str | None:
        """The id of an uploaded file's batch that has not failed; None without one."""
        return await self._patiently(
            lambda client: self._batch_of(client, file_id, {"failed"}),
            lambda batch: self._id(batch) if batch else None,
        )

    async def cancel(self, batch_id: str) -> None:
        """Ask the service to stop a batch; completed requests can still be fetched."""

        async def call(client: "openai.AsyncOpenAI") -> None:
            response = await client.batches.with_raw_response.retrieve(batch_id)
            status = self._read(self._body(response)).status
            if status not in _ENDED | {"cancelling"}:
                await client.batches.with_raw_response.cancel(batch_id)

        await self._patiently(call, bool)

    async def state(self, batch_id: str) -> BatchState:
        """The batch's status and progress."""
        return await self._patiently(
            lambda client: client.batches.with_raw_response.retrieve(batch_id),
            lambda response: self._read(self._body(response)),
        )

    async def download(self, file_id: str, path: Path) -> None:
        """Download a result file's JSON objects to `path`, which is complete or missing."""

        async def call(client: "openai.AsyncOpenAI") -> None:
            async with client.files.with_streaming_response.content(
                file_id
            ) as response:
                with whole_file(path) as file:
                    async for line in _lines(response.iter_bytes()):
                        content = self.read_body(line.decode("utf-8", "replace"))
                        if isinstance(content, dict):
                            file.write(json.dumps(content, ensure_ascii=False) + "\n")

        await self._patiently(call, bool, _FILE_SECONDS)

    async def _patiently(
        self,
        call: "Callable[[openai.AsyncOpenAI], Awaitable[Any]]",
        read: Callable[[Any], _T],
        seconds: float = _CALL_SECONDS,
    ) -> _T:
        """Make a call and `read` its answer; repeat both after temporary failures."""
        client = self._model.sdk().with_options(timeout=_SILENCE_SECONDS)
        for attempt in range(1, _ATTEMPTS + 1):
            sent_at = time.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    return read(await call(client))
            except Exception as error:
                lost = isinstance(error, ConnectionError | TimeoutError)
                if isinstance(error, OSError) and not lost:
                    raise StorageError(
                        f"cannot read or write a batch file: {reason(error)}"
                    ) from None
                failure = self._model.failure_of(error)
            if failure.status == 404 and not failure.code.startswith(
                ("model", "deployment")
            ):
                raise GoneError(
                    f"the service has no Batch API, or lost a batch or a file of it ({failure}): "
                    f"{_LIVE}"
                )
            wait = self._model.after_failure(failure, attempt, sent_at)
            if wait is None:
                raise ProviderError(f"the Batch API refuses this ({failure}): {_LIVE}")
            await asyncio.sleep(wait)
        raise ProviderError(
            f"the Batch API failed {_ATTEMPTS} times in a row (last: {failure}); the same command "
            f"continues"
        )

    async def _batch_of(
        self, client: "openai.AsyncOpenAI", file_id: str, useless: Collection[str]
    ) -> Json | None:
        """The file's batch among the 1,000 newest, if its status is not `useless`; or None."""
        cursor: Json = {}
        for _ in range(_PAGES):
            response = await client.batches.with_raw_response.list(
                limit=_PAGE, **cursor
            )
            page = self._body(response)
            batches = [
                batch for batch in page.get("data") or [] if isinstance(batch, dict)
            ]
            for batch in batches:  # the newest first
                if (
                    batch.get("input_file_id") == file_id
                    and batch.get("status") not in useless
                ):
                    return batch
            if not batches or page.get("has_more") is False:
                break
            cursor = {"after": self._id(batches[-1])}
        return None

    def _body(self, response: Any) -> Json:
        """The JSON object of a response. The SDK's own classes are not built: they check no field,
        and a failure to build them is not the service's.
        """
        body = self.read_body(response.text)
        if not isinstance(body, dict):
            raise AttemptError(
                FailureScope.ATTEMPT, "the service's answer is no JSON object"
            )
        return body

    def _id(self, answer: Fields, name: str = "id") -> str:
        """The id in a service's answer, validated because it becomes part of URLs."""
        value = answer.get(name)
        if (
            not isinstance(value, str)
            or not ID.fullmatch(value)
            or redact(value) != value
        ):
            raise AttemptError(
                FailureScope.ATTEMPT, f"the service's answer has no usable {name}"
            )
        return value

    def _read(self, batch: Fields) -> BatchState:
        """Read the body of a batch, any of whose fields may be missing or odd."""
        counts = mapping_of(batch.get("request_counts"))
        details = mapping_of(batch.get("errors")).get("data")
        errors = (
            [mapping_of(error) for error in details]
            if isinstance(details, list)
            else []
        )
        texts = [
            str(error.get("message") or error.get("code") or "") for error in errors[:3]
        ]
        files = [
            None if not str(batch.get(name) or "").strip() else self._id(batch, name)
            for name in ("output_file_id", "error_file_id")
        ]
        done = [parse_uint(counts.get(name)) or 0 for name in ("completed", "failed")]
        words = as_single_line("; ".join(texts))
        return BatchState(
            str(batch.get("status", "")), done[0], done[1], files[0], files[1], words
        )


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a result file; drop a line of more than 16 MiB."""
    rest = b""
    size = 0
    async for part in parts:
        size = size + len(part)
        if size > MOST_RESULT_BYTES:
            raise AttemptError(
                FailureScope.UNCLEAR,
                f"a result file is larger than {MOST_RESULT_BYTES:,} bytes",
            )
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > _LONGEST_LINE:
            rest = b""
    if rest:
        yield rest
