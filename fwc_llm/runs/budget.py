"""Forecasts the cost of a run in dollars, and stops it before it exceeds a limit."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Messages, Model, Usage, traits
from fwc_llm.models.client import Client, is_local
from fwc_llm.models.openai.prices import Price
from fwc_llm.models.tokens import TokenCounter

if TYPE_CHECKING:
    from fwc_llm.runs.journal import Journal, PlannedCall

# OpenAI caches prompt prefixes of at least 1024 tokens, in steps of 128 tokens.
_CACHE_FROM = 1024
_CACHE_STEP = 128
_ESTIMATE_MARGIN = 1.5  # an estimated count may be too low by this factor
_NO_LIMIT_TOKENS = 4096  # assumed for a reply without a token limit
# Parameters that a service puts into the prompt; they count with one token per character, an upper
# limit.
_COUNTED = ("response_format", "tools", "functions")


_TOKENS = (
    "prompt_tokens",
    "longest_prompt",
    "cached_tokens",
    "completion_tokens",
    "exact",
)


@dataclass(frozen=True)
class Forecast:
    """Requests, tokens and dollars of a run; tokens are estimates unless `exact`."""

    calls: int
    prompt_tokens: int
    # what the provider can read from its cache: the beginning of an arm's prompts
    cached_tokens: int
    completion_tokens: int  # the largest possible number
    longest_prompt: int
    exact: bool
    dollars: (
        float | None
    )  # with the cache, and replies of maximal length; None without a known price
    dollars_most: (
        float | None
    )  # if every prompt is written to the cache and none is read
    price: Price | None


def forecast(
    model: Model,
    calls: "Iterable[PlannedCall]",
    price: Price | None,
    batch: bool = False,
    counter: TokenCounter | None = None,
) -> Forecast:
    """Forecast `calls`; `FwcError` for a prompt that exceeds the model's context window."""
    counter = counter or TokenCounter(model.name)
    number = prompt = cached = longest = completion = 0
    prefixes: dict[tuple[str, int], int] = {}
    for call in calls:
        tokens = counter.count(call.messages)
        limit = _completion_limit(model)
        if (
            price is not None
            and price.context is not None
            and tokens + limit > price.context
        ):
            raise FwcError(
                f"the prompt of arm {call.arm!r} for row {call.row} has {tokens} tokens and its "
                f"reply up to "
                f"{limit}: together more than the context of {model.name}, {price.context} tokens; "
                f"use fewer "
                "examples (--m)"
            )
        arm = call.arm, call.repeat
        if arm in prefixes:
            cached += prefixes[arm]
        else:
            common = counter.count(call.messages[: call.fixed])
            prefixes[arm] = (
                common - common % _CACHE_STEP if common >= _CACHE_FROM else 0
            )
        number = number + 1
        prompt = prompt + tokens
        longest = max(longest, tokens)
        completion += limit
    dollars = most = None
    if price is not None:
        dollars = price.dollars(Usage(prompt, completion, cached), batch, longest)
        most = price.dollars(Usage(prompt, completion, 0, prompt), batch, longest)
    return Forecast(
        number, prompt, cached, completion, longest, counter.exact, dollars, most, price
    )


def is_free(model: Model, client: Client) -> bool:
    """Whether no service is asked."""
    about = traits(model)
    simulated = about.simulated and client.base_url is None
    return about.reference or about.local or simulated


def forecast_values(
    model: Model, client: Client, numbers: Forecast | None, requests: int
) -> dict[str, Any]:
    """The forecast as plain values; tokens are None for models without a network."""
    if is_free(model, client):
        numbers = None
    tokens = {name: getattr(numbers, name, None) for name in _TOKENS}
    # Decision models and functions write no text.
    if traits(model).api != "chat" or _is_function(model.name):
        tokens["completion_tokens"] = None
    return {
        "model": model.name,
        "where": where_asked(model, client),
        "requests": requests,
        **tokens,
        "dollars": 0.0 if numbers is None else numbers.dollars,
        "dollars_most": 0.0 if numbers is None else numbers.dollars_most,
        "price": numbers.price.model_dump() if numbers and numbers.price else None,
    }


def forecast_lines(
    found: Mapping[str, Any], why_unpriced: str, batch: bool
) -> Iterator[str]:
    """Yield the lines on a forecast."""
    name = found["model"]
    head = f"{found['requests']:,} requests to {name} ({found['where']})"
    prompt = found["prompt_tokens"]
    if prompt is None:
        yield f"{head}: they cost nothing"
        return
    yield head
    exact = (
        "" if found["exact"] else " (an estimate: no tokenizer of this model is here)"
    )
    yield f"{prompt:,} prompt tokens{exact}, the longest prompt {found['longest_prompt']:,}"
    if not _is_function(name):
        share = found["cached_tokens"] / max(prompt, 1)
        yield f"{share:.0%} of them can come from the provider's prompt cache"
    if found["completion_tokens"] is not None:
        yield f"at most {found['completion_tokens']:,} completion tokens"
    price = found["price"]
    if None in (price, found["dollars"], found["dollars_most"]):
        unknown = (
            f"{name} is your own function, whose requests to services are not known"
        )
        yield f"cost unknown: {unknown if _is_function(name) else why_unpriced}"
        return
    least, most = (f"${found[key]:.2f}" for key in ("dollars", "dollars_most"))
    cost = most if least == most else f"{least} with the cache, {most} without"
    batches = ", as batches" * batch
    yield f"{cost}{batches}, by prices of {price['date']} ({price['source']})"


def where_asked(model: Model, client: Client) -> str:
    """Where the model answers, and at what cost, in words."""
    about = traits(model)
    url = about.address or client.base_url
    if about.reference:
        return "a reference, no language model, no network"
    if about.local:
        return "in this process: no network, no cost"
    if about.simulated:
        return "a simulation, no network"
    if _is_function(model.name):
        return "a function of yours, in this process"
    if is_local(url):
        return f"at {url}, on this machine"
    return f"{f'at {url}, ' if url else ''}a service that may charge for them"


def _is_function(name: str) -> bool:
    return name.startswith("python:")


class WorstCase:
    """The most tokens that one attempt can use, by the prompt's length and the limit of the
    reply's.
    """

    def __init__(self, model: Model, counter: TokenCounter | None = None) -> None:
        self._model, self._counter = model, counter
        self.factor = 1.0  # rises if a reply costs more than its worst case

    def __call__(self, messages: Messages) -> Usage:
        """The worst case of an attempt with these messages."""
        self._counter = self._counter or TokenCounter(self._model.name)
        if self._counter.exact:
            margin = 1.0
        else:
            margin = _ESTIMATE_MARGIN
        tokens = self._counter.count(messages) * margin
        sent = {name: self._model.parameters.get(name) for name in _COUNTED}
        tokens += sum(
            len(json.dumps(value, default=str)) for value in sent.values() if value
        )
        prompt = ceil(tokens * self.factor)
        completion = ceil(_completion_limit(self._model) * self.factor)
        return Usage(prompt, completion, 0, prompt)


class Budget:
    """A cost limit in dollars; attempts are allowed if their worst case fits."""

    def __init__(
        self,
        model: Model,
        price: Price,
        max_cost: float,
        counter: TokenCounter | None = None,
        elsewhere: float = 0.0,  # cost of other runs under the same limit
    ) -> None:
        if not max_cost > 0.0:
            raise FwcError(f"--max-cost is {max_cost:g}: it must be above 0 dollars")
        self.max_cost, self.spent, self._elsewhere = max_cost, elsewhere, elsewhere
        self._price = price
        self.worst_case = WorstCase(model, counter or TokenCounter(model.name))
        self._reserved, self.under_way = (
            0.0,
            0,
        )  # attempts that may return a part of their reserve
        self._estimated = False

    @property
    def why(self) -> str:
        """The reason for stopping the run, as one line."""
        guess = (
            " (at most: for some attempts the service sent no token counts)"
            if self._estimated
            else ""
        )
        used = (
            f"${self.spent:.4f} is used{guess} and the next request might pass "
            f"${self.max_cost:g}"
        )
        return f"stopped before --max-cost: {used}; raise it and run again to continue"

    def start(self, journal: "Journal") -> None:
        """Reset: the cost so far is that of the journal, and nothing is reserved."""
        self.spent = self._elsewhere + journal.cost(self._price)
        self._estimated = journal.unknown + journal.unknown_batch != Usage()
        self._reserved, self.under_way = 0.0, 0

    def dollars(self, usage: Usage, batch: bool = False) -> float:
        """The cost of one attempt in dollars."""
        return self._price.dollars(usage, batch, usage.prompt_tokens)

    def reserve(self, dollars: float) -> bool:
        """Reserve `dollars` for an attempt; False if the attempt might exceed the limit."""
        if self.spent + self._reserved + dollars > self.max_cost:
            return False
        self._reserved += dollars
        self.under_way += 1
        return True

    def settle(self, reserved: float, dollars: float, unknown: int = 0) -> None:
        """Replace a reserve by `dollars`; each of `unknown` further attempts costs the reserve."""
        self.under_way -= 1
        self._reserved = self._reserved - reserved if self.under_way else 0.0
        self.spent += dollars + unknown * reserved
        self._estimated |= unknown > 0
        self.learn(reserved, dollars)

    def learn(self, expected: float, dollars: float) -> None:
        """Raise the factor for worst cases if an attempt cost more than `expected`."""
        if dollars > expected > 0.0:
            self.worst_case.factor *= dollars / expected


def _completion_limit(model: Model) -> int:
    return traits(model).completion_limit or _NO_LIMIT_TOKENS
