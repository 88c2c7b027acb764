"""`Client`: how a model is reached and asked, as one value."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from fwc_llm.options import COST, SERVICE, Options, option


def is_local(url: str | None) -> bool:
    """Whether an address is of this machine; None is OpenAI's."""
    try:
        host = urlsplit(url or "").hostname or ""
        address = None if host == "localhost" or host.endswith(".localhost") else ip_address(host)
    except ValueError:
        return False
    return address is None or address.is_loopback or address.is_unspecified


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
    answer_format: Literal["word", "json", "auto"] = option(
        "word",
        "The form of an answer: a word, a JSON object to which the service is held (`json`), or JSON where "
        "the service gives it (`auto`, by at most four trial questions).",
        SERVICE,
    )
    no_watch: bool = option(
        False, "Go on although none of an arm's first 12 replies holds an answer.", SERVICE
    )
    strict: bool = option(
        False,
        "Stop where the service says that it read only a part of an input; exit code 4 for a coverage below "
        "--min-coverage.",
        SERVICE,
    )
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
