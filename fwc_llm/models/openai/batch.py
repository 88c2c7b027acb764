"""OpenAI's Batch API: one file of requests in, one file of replies out, at half the price within a day.

Each call is repeated while it fails for reasons that pass. Creating a batch is the one step that must not
happen twice, so `submit` first looks for a batch of the same input file.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Model
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.failures import AttemptError, Reach

if TYPE_CHECKING:
    import openai
    from openai.types import Batch

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_ENDED = {"completed", "failed", "expired", "cancelled"}
_USELESS = {"failed", "cancelling", "cancelled"}
_ATTEMPTS = 8
_BATCHES_SEEN = 1000  # of the account, when looking for the batch of a file
_UPLOAD_SECONDS = 600.0
_LIVE = "what was answered is kept; without --batch the rest is asked live"
_T = TypeVar("_T")


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


class BatchClient:
    """The files and batches of the account behind `model`.

    Errors: `FwcError` when the model has no Batch API here; `ProviderError` when the service rejects a step
    or keeps failing.
    """

    def __init__(self, model: Model, backoff: float = 1.0) -> None:
        if type(model) is not ChatModel:
            raise FwcError(f"{model.name} has no Batch API here: leave out --batch")
        self._model, self._backoff = model, backoff
        self.request_body, self.redact = model.request_body, model.redact

    async def upload(self, path: Path) -> str:
        """Upload a file of requests; returns the file's id."""

        async def call(client: "openai.AsyncOpenAI") -> str:
            with path.open("rb") as file:
                return (await client.files.create(file=(path.name, file), purpose="batch")).id

        return await self._patiently(call)

    async def submit(self, file_id: str) -> str:
        """Start, or find again, the batch of an uploaded file; returns the batch's id."""

        async def call(client: "openai.AsyncOpenAI") -> str:
            seen = 0
            async for batch in client.batches.list(limit=100):  # the newest first
                if batch.input_file_id == file_id and batch.status not in _USELESS:
                    return batch.id
                if (seen := seen + 1) >= _BATCHES_SEEN:
                    break
            created = await client.batches.create(
                input_file_id=file_id, endpoint=ENDPOINT, completion_window="24h"
            )
            return created.id

        return await self._patiently(call)

    async def state(self, batch_id: str) -> BatchState:
        """Where the batch stands."""

        async def call(client: "openai.AsyncOpenAI") -> BatchState:
            return _read(await client.batches.retrieve(batch_id))

        return await self._patiently(call)

    async def download(self, file_id: str, path: Path) -> None:
        """Fetch a result file whole; `path` appears only when it is complete."""

        async def call(client: "openai.AsyncOpenAI") -> None:
            partial = path.with_name(path.name + ".partial")
            async with client.files.with_streaming_response.content(file_id) as response:
                await response.stream_to_file(partial)
            partial.replace(path)

        await self._patiently(call)

    async def _patiently(self, call: "Callable[[openai.AsyncOpenAI], Awaitable[_T]]") -> _T:
        client = self._model.client().with_options(timeout=_UPLOAD_SECONDS)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await call(client)
            except OSError as error:
                if isinstance(error, ConnectionError | TimeoutError):
                    failure = AttemptError(Reach.ATTEMPT, f"the connection failed ({type(error).__name__})")
                else:
                    raise FwcError(f"cannot read or write a batch file: {error}") from None
            except Exception as error:
                failure = self._model.failure_of(error)
            if failure.status == 404 and not failure.code.startswith(("model", "deployment")):
                raise ProviderError(
                    f"the service has no Batch API, or lost a file of it ({failure}): {_LIVE}"
                )
            if failure.reach is Reach.RUN:
                raise ProviderError(self._model.explain(failure))
            if failure.reach is not Reach.ATTEMPT:
                raise ProviderError(f"the Batch API refuses this ({failure}): {_LIVE}")
            if attempt < _ATTEMPTS:
                await asyncio.sleep(failure.retry_after or self._backoff * 2.0 ** (attempt - 1))
        raise ProviderError(
            f"the Batch API failed {_ATTEMPTS} times in a row (last: {failure}); the same command continues"
        )


def _read(batch: "Batch") -> BatchState:
    counts = batch.request_counts
    errors = [error.message or error.code or "" for error in (batch.errors and batch.errors.data) or []]
    return BatchState(
        batch.status,
        counts.completed if counts else 0,
        counts.failed if counts else 0,
        batch.output_file_id,
        batch.error_file_id,
        "; ".join(errors[:3]),
    )
