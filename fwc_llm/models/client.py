"""`Client`: how a model is reached and asked, as one value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fwc_llm.options import COST, SERVICE, Options, option


class Client(Options):
    """The way a model is asked: the service, what is sent beside the messages, the pace, and the cost.

    A model that is an object, not a name, has its own service and parameters: of the client only
    `concurrency`, `batch`, `max_cost` and `prices` concern it.
    """

    base_url: str | None = option(
        None,
        "Any OpenAI-compatible server; the OpenAI key is not sent elsewhere.",
        SERVICE,
        shown="OPENAI_BASE_URL, else OpenAI",
    )
    api_key_env: str | None = option(
        None,
        "The environment variable that holds the key.",
        SERVICE,
        shown="OPENAI_API_KEY; none with a base URL",
    )
    params: Mapping[str, Any] = option(
        dict, "KEY=VALUE, anything else to send, as it is; repeatable.", SERVICE, flag="param"
    )
    max_tokens: int | None = option(
        None, "Largest number of tokens in a reply.", SERVICE, shown="a few", ge=1
    )
    logprobs: bool = option(False, "Ask for the probabilities of the top tokens, which give P(yes).", SERVICE)
    strict: bool = option(False, "Stop where the service says that it read only a part of an input.", SERVICE)
    rpm: float | None = option(None, "Limit of requests per minute.", SERVICE, gt=0)
    tpm: float | None = option(None, "Limit of tokens per minute.", SERVICE, gt=0)
    deadline: float = option(300.0, "Seconds for one row, retries included.", SERVICE, gt=0)
    concurrency: int = option(8, "Requests under way at once.", SERVICE, ge=1, le=10_000)
    batch: bool = option(
        False, "Use the provider's Batch API: cheaper, may take hours, survives restarts.", SERVICE
    )
    max_cost: float | None = option(None, "Stop before the run costs more dollars than this.", COST)
    prices: str | Path | None = option(
        None, "A price file of your own (TOML), for models whose price is not known.", COST
    )
