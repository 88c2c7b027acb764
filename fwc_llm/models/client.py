"""`Client`: how a model is reached and asked, as one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypedDict


class ChatOptions(TypedDict, total=False):
    """The options of `fwc_llm.models.openai.chat.ChatModel` besides the service and its key."""

    params: Mapping[str, Any] | None
    max_tokens: int | None
    logprobs: bool
    rpm: float | None
    tpm: float | None
    concurrency: int
    deadline: float
    timeout: float | None
    backoff: float
    breaker: int | None
    seed: int
    notice: Callable[[str], None] | None
    today: date | None


@dataclass(frozen=True)
class Client:
    """How a model is asked: the service, what is sent beside the messages, the pace, and the cost.

    base_url     any OpenAI-compatible server; None is OpenAI. The OpenAI key is not sent elsewhere
    api_key_env  the environment variable that holds the key (default: OPENAI_API_KEY; none with a base_url)
    params       anything else to send, as it is
    max_tokens   limit of a reply (default: a few)
    logprobs     ask for the probabilities of the top tokens, which give P(yes)
    rpm, tpm     requests and tokens a minute that are not exceeded
    deadline     seconds for one row, retries included
    concurrency  requests under way at once
    batch        use the provider's Batch API: cheaper, may take hours
    max_cost     dollars; the run stops before it has cost more
    prices       a price file of your own (TOML), for models whose price is not known

    A model that is an object, not a name, has its own service and parameters: of the client only
    `concurrency`, `batch`, `max_cost` and `prices` concern it.
    """

    base_url: str | None = None
    api_key_env: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    logprobs: bool = False
    rpm: float | None = None
    tpm: float | None = None
    deadline: float = 300.0
    concurrency: int = 8
    batch: bool = False
    max_cost: float | None = None
    prices: str | Path | None = None
