"""`Client`: service, request parameters, rate limits and cost as one value."""

import json
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import field_validator

from fwc_llm.options import COST, SERVICE, Options, option
from fwc_llm.sanitize import Fields

AnswerFormat: TypeAlias = Literal["word", "json", "probability"]
STATED = "probability"  # the answer format of replies that state P(yes)


def is_local(url: str | None) -> bool:
    """Whether an address is on this machine; False for None, which means OpenAI."""
    try:
        host = urlsplit(url or "").hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            address = None
        else:
            address = ip_address(host)
    except ValueError:
        return False
    return address is None or address.is_loopback or address.is_unspecified


class Client(Options):
    """Options for asking a model: service, request parameters, rate limits and cost.

    For a model object only `concurrency`, `batch`, `finish_live`, `no_watch`, `max_cost` and
    `prices` apply: it has its own service and parameters.
    """

    base_url: str | None = option(
        None,
        "Address of an OpenAI-compatible server; OPENAI_API_KEY goes to OpenAI alone.",
        SERVICE,
        default_words="OPENAI_BASE_URL, else OpenAI",
    )
    api_key_env: str | None = option(
        None,
        "Environment variable that holds the key.",
        SERVICE,
        default_words="OPENAI_API_KEY; none with a base URL",
    )
    params: Fields = option(
        dict, "Further parameters of a request.", SERVICE, flag="param"
    )
    max_tokens: int | None = option(
        None,
        "Maximum number of tokens per reply.",
        SERVICE,
        default_words="a few",
        ge=1,
    )
    logprobs: bool = option(
        False, "Request log-probabilities of the top tokens, for P(yes).", SERVICE
    )
    no_watch: bool = option(
        False, "Continue even if an arm's first 12 replies hold no answer.", SERVICE
    )
    strict: bool = option(
        False, "Stop at truncated inputs; exit code 4 below min_coverage.", SERVICE
    )
    rpm: float | None = option(None, "Limit of requests per minute.", SERVICE, gt=0)
    deadline: float = option(
        300.0, "Time limit for one row in seconds, retries included.", SERVICE, gt=0
    )
    concurrency: int = option(
        8, "Largest number of simultaneous requests.", SERVICE, ge=1, le=10_000
    )
    batch: bool = option(
        False, "Use the provider's Batch API: cheaper, but may take hours.", SERVICE
    )
    finish_live: bool = option(
        False, "Ask live, at full price, what a batch refused or lost.", SERVICE
    )
    max_cost: float | None = option(
        None, "Stop before the run costs more than this, in dollars.", COST, gt=0
    )
    prices: str | Path | None = option(
        None, "Your own price file (TOML), in dollars per million tokens.", COST
    )

    @field_validator("params")
    @classmethod
    def _check_params(cls, params: Fields) -> Fields:
        try:
            json.dumps(params, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"it cannot be written as JSON ({error})") from None
        return params
