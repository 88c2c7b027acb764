"""What every model is to the rest of the house: chat messages in, one reply out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, runtime_checkable


class _RequiredMessage(TypedDict):
    role: str
    content: str


class Message(_RequiredMessage, total=False):
    """One chat message, as the chat-completions protocol has it."""

    name: str


Messages = Sequence[Message]


@dataclass(frozen=True)
class Usage:
    """Tokens that one request cost, as the provider counted them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True)
class Reply:
    """What came back for one request.

    `text` is None exactly when there is no reply at all; `error` then says why in one line (no key, no
    header, no traceback). `logprobs` are the top tokens of the first answer token, as (token, logprob)
    pairs, or None when the server gives none.
    """

    text: str | None
    finish_reason: str | None = None
    error: str | None = None
    refusal: bool = False
    logprobs: tuple[tuple[str, float], ...] | None = None
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None
    attempts: int = 1
    latency: float = 0.0
    raw: Mapping[str, Any] | None = field(default=None, repr=False)


@runtime_checkable
class Model(Protocol):
    """Who answers. A provider is one small file with these members.

    `ask` returns a `Reply` (with `text=None` for a row that cannot be answered) and raises only
    `ProviderError`, which stops the whole run.
    """

    @property
    def name(self) -> str:
        """The model's name as the user wrote it."""

    @property
    def simulated(self) -> bool:
        """True when the answers are a simulation, which every output must then say."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything besides the messages that can change a reply; part of the request's hash."""

    async def ask(self, messages: Messages) -> Reply:
        """Send one conversation, return its reply."""

    async def aclose(self) -> None:
        """Let go of connections."""
