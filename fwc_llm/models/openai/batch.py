"""OpenAI's Batch API: one file of requests in, one file of replies out, at half the price within a day.

Each call is repeated while it fails for reasons that pass. Creating a batch is the one step that must not
happen twice, so `submit` first looks for a batch of the same input file.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from fwc_llm.errors import FwcError, ProviderError, StorageError
from fwc_llm.files import open_binary, reason, whole_file
from fwc_llm.models.base import Model
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.retry import AttemptError, Reach
from fwc_llm.untrusted import one_line, whole

if TYPE_CHECKING:
    import httpx2

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
MOST_RESULT_BYTES = 1 << 32
ID = re.compile(r"[\w:-][\w.:-]{0,199}")
ENDPOINT = "/v1/chat/completions"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_USELESS = {"failed", "cancelling", "cancelled"}
_ATTEMPTS = 8
_LONGEST_LINE = 16 * 1024 * 1024  # bytes
_PAGES = 10  # of 100 batches of the account, when looking for the batch of a file
_SILENCE = 600.0  # seconds without a byte
_CALL_SECONDS, _FILE_SECONDS = 600.0, 4 * 3600.0  # for one call however slowly it comes, and for a file
_LIVE = (
    "what was answered is kept; the rest is asked live without --batch, or with --cancel-batch where a batch "
    "was sent off"
)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class GoneError(ProviderError):
    """The service does not know what it was asked for."""


@dataclass(frozen=True)
class BatchState:
    """Where a batch stands: status, how many of its requests are done, its files once it has ended."""

    status: str
    completed: int
    failed: int
    output_file: str | None
    error_file: str | None
    errors: str

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.status in _ENDED


def _patient(
    step: "Callable[Concatenate[BatchClient, _P], Awaitable[_T]]",
) -> "Callable[Concatenate[BatchClient, _P], Coroutine[Any, Any, _T]]":
    """Repeat a step while it fails for reasons that pass."""

    @wraps(step)
    async def patiently(client: "BatchClient", /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await step(client, *arguments, **options)
            except OSError as error:
                raise StorageError(f"cannot read or write a batch file: {reason(error)}") from None
            except AttemptError as error:
                failure = error
            client.stop(failure)
            if attempt < _ATTEMPTS:
                await asyncio.sleep(failure.retry_after or client.backoff * 2.0 ** (attempt - 1))
        raise ProviderError(
            f"the Batch API failed {_ATTEMPTS} times in a row (last: {failure}); the same command continues"
        )

    return patiently


class BatchClient:
    """The files and batches of the account behind `model`.

    Errors: `FwcError` when the model has no Batch API here; `ProviderError` when the service rejects a step
    or keeps failing.
    """

    def __init__(self, model: Model, backoff: float = 1.0) -> None:
        if type(model) is not ChatModel:
            raise FwcError(f"{model.name} has no Batch API here: leave out --batch")
        self._model, self.backoff = model, backoff
        self.request_body, self.read_body = model.request_body, model.read_body

    @_patient
    async def upload(self, path: Path) -> str:
        """Upload a file of requests; returns the file's id."""
        with open_binary(path) as file:
            form = {"data": {"purpose": "batch"}, "files": {"file": (path.name, file)}}
            return self._id(await self._send("POST", "/files", _FILE_SECONDS, **form))

    @_patient
    async def submit(self, file_id: str) -> str:
        """Start, or find again, the batch of an uploaded file; returns the batch's id."""
        asked = {"input_file_id": file_id, "endpoint": ENDPOINT, "completion_window": "24h"}
        batch = await self._batch_of(file_id, _USELESS)
        return self._id(batch or await self._send("POST", "/batches", json=asked))

    @_patient
    async def find(self, file_id: str) -> str | None:
        """The id of the batch of an uploaded file, if one was started."""
        batch = await self._batch_of(file_id, {"failed"})
        return None if batch is None else self._id(batch)

    @_patient
    async def cancel(self, batch_id: str) -> None:
        """Ask the service to stop a batch; what is done already can be fetched once it has ended."""
        if _of(await self._send("GET", f"/batches/{batch_id}"), "status") not in _ENDED | {"cancelling"}:
            await self._send("POST", f"/batches/{batch_id}/cancel")

    @_patient
    async def state(self, batch_id: str) -> BatchState:
        """Where the batch stands; any field of the service's answer may be missing or of another kind."""
        batch = await self._send("GET", f"/batches/{batch_id}")
        counts, errors = _of(batch, "request_counts"), _of(_of(batch, "errors"), "data")
        texts = [
            str(_of(error, "message") or _of(error, "code") or "")
            for error in (errors if isinstance(errors, list) else [])[:3]
        ]
        output, error_file = (
            None if _of(batch, name) is None else self._id(batch, name)
            for name in ("output_file_id", "error_file_id")
        )
        completed, failed = (whole(_of(counts, name)) or 0 for name in ("completed", "failed"))
        return BatchState(
            str(_of(batch, "status")), completed, failed, output, error_file, one_line("; ".join(texts))
        )

    @_patient
    async def download(self, file_id: str, path: Path) -> None:
        """Fetch a result file whole; `path` appears only when it is complete.

        What is kept is what was understood of every line: bounded, and without the key.
        """

        async def write(response: "httpx2.Response") -> None:
            with whole_file(path) as file:
                async for line in _lines(response.aiter_bytes()):
                    content = self.read_body(line.decode("utf-8", "replace"))
                    if isinstance(content, dict):
                        file.write(json.dumps(content, ensure_ascii=False) + "\n")

        address = f"/files/{file_id}/content"
        await self._model.send("GET", address, _FILE_SECONDS, write, timeout=_SILENCE)

    async def _send(self, method: str, path: str, seconds: float = _CALL_SECONDS, **content: Any) -> Any:
        _, text = await self._model.send(method, path, seconds, timeout=_SILENCE, **content)
        return self.read_body(text)

    async def _batch_of(self, file_id: str, useless: Collection[str]) -> Any:
        """The batch of an uploaded file among the account's newest, or None."""
        page: dict[str, Any] = {"limit": 100}
        for _ in range(_PAGES):  # the newest first
            listed = await self._send("GET", "/batches", params=page)
            batches = _of(listed, "data")
            if not isinstance(batches, list):
                raise AttemptError(Reach.ATTEMPT, "the service's answer has no list of batches")
            for batch in batches:
                if _of(batch, "input_file_id") == file_id and _of(batch, "status") not in useless:
                    return batch
            if not batches or not _of(listed, "has_more"):
                break
            page["after"] = self._id(batches[-1])
        return None

    def _id(self, answer: Any, name: str = "id") -> str:
        """The id in an answer of the service; it becomes part of addresses."""
        value = _of(answer, name)
        if not isinstance(value, str) or not ID.fullmatch(value) or self._model.redact(value) != value:
            raise AttemptError(Reach.ATTEMPT, f"the service's answer has no usable {name}")
        return value

    def stop(self, failure: AttemptError) -> None:
        """Raise `ProviderError` for a failure that does not pass."""
        if failure.status == 404 and not failure.code.startswith(("model", "deployment")):
            raise GoneError(
                f"the service has no Batch API, or lost a batch or a file of it ({failure}): {_LIVE}"
            )
        if failure.reach is Reach.RUN:
            raise ProviderError(self._model.explain(failure))
        if failure.reach is not Reach.ATTEMPT:
            raise ProviderError(self._model.redact(f"the Batch API refuses this ({failure}): {_LIVE}"))


def _of(answer: Any, name: str) -> Any:
    """A value in what a service sent, or None."""
    return answer.get(name) if isinstance(answer, Mapping) else None


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a result file; one that is longer than any reply can be is left out."""
    rest, size = b"", 0
    async for part in parts:
        if (size := size + len(part)) > MOST_RESULT_BYTES:
            raise AttemptError(Reach.UNCLEAR, f"a result file is larger than {MOST_RESULT_BYTES:,} bytes")
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > _LONGEST_LINE:
            rest = b""
    if rest:
        yield rest
