"""Forecasts the cost of a run in dollars, and stops it before it exceeds a limit."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Messages, Model, Reply, Usage, traits
from fwc_llm.models.client import Client, is_local
from fwc_llm.models.openai.prices import Price
from fwc_llm.models.tokens import TokenCounter
from fwc_llm.number_format import percent
from fwc_llm.runs.journal import Journal, PlannedCall, make_record
from fwc_llm.sanitize import Json

# OpenAI caches prompt prefixes of at least 1024 tokens, in steps of 128 tokens.
_CACHE_FROM = 1024
_CACHE_STEP = 128
_ESTIMATE_MARGIN = 1.5  # an estimated count may be too low by this factor
_NO_LIMIT_TOKENS = 4096  # assumed for a reply without a token limit
# Parameters that a service puts into the prompt; they count with one token per character, an upper
# limit.
_COUNTED = ("response_format", "tools", "functions")


@dataclass(frozen=True)
class Forecast:
    """Requests, tokens and dollars of a run; tokens are estimates unless `exact`.

    Tokens are None if no service is asked, dollars if the price is not known. `cached_tokens` can
    be read from the provider's cache: the beginning of an arm's prompts. `completion_tokens` is the
    largest possible number; None for models that write no text. `dollars` are with the cache,
    `dollars_most` if every prompt is written to the cache and none is read.
    """

    model: str
    where: str
    requests: int
    prompt_tokens: int | None = None
    longest_prompt: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    exact: bool | None = None
    dollars: float | None = 0.0
    dollars_most: float | None = 0.0
    price: Price | None = None

    def plain(self) -> Json:
        """The forecast as plain values for JSON."""
        return {**vars(self), "price": self.price and self.price.model_dump()}

    def lines(self, why_unpriced: str, batch: bool) -> Iterator[str]:
        """Yield the lines on a forecast."""
        head = f"{self.requests:,} requests to {self.model} ({self.where})"
        if self.prompt_tokens is None:
            yield f"{head}: they cost nothing"
            return
        yield head
        exact = (
            "" if self.exact else " (an estimate: no tokenizer of this model is here)"
        )
        yield (
            f"{self.prompt_tokens:,} prompt tokens{exact}, the longest prompt "
            f"{self.longest_prompt:,}"
        )
        if not _is_function(self.model):
            share = (self.cached_tokens or 0) / max(self.prompt_tokens, 1)
            yield f"{percent(share, 0)} of them can come from the provider's prompt cache"
        if self.completion_tokens is not None:
            yield f"at most {self.completion_tokens:,} completion tokens"
        if self.price is None:
            if _is_function(self.model):
                own = f"{self.model} is your own function"
                why_unpriced = f"{own}, whose requests to services are not known"
            yield f"cost unknown: {why_unpriced}"
            return
        least, most = f"${self.dollars:.2f}", f"${self.dollars_most:.2f}"
        cost = most if least == most else f"{least} with the cache, {most} without"
        batches = ", as batches" * batch
        yield f"{cost}{batches}, by prices of {self.price.date} ({self.price.source})"


def forecast(
    model: Model,
    client: Client,
    calls: Iterable[PlannedCall],
    n: int,
    price: Price | None,
    counter: TokenCounter | None = None,
) -> Forecast:
    """Forecast `n` calls; `FwcError` for a prompt that exceeds the model's context window."""
    about = traits(model)
    found = Forecast(model.name, where_asked(model, client), n)
    simulated = about.simulated and client.base_url is None
    if about.reference or about.local or simulated:
        return found
    counter = counter or TokenCounter(model.name)
    limit = _completion_limit(model)
    prompt = cached = longest = 0
    prefixes: dict[tuple[str, int], int] = {}
    for call in calls:
        tokens = counter.count(call.messages)
        if price is not None and tokens + limit > (price.context or inf):
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
        prompt += tokens
        longest = max(longest, tokens)
    least = most = None
    if price is not None:
        with_cache = Usage(prompt, n * limit, cached)
        least = price.dollars(with_cache, client.batch, longest)
        without = Usage(prompt, n * limit, 0, prompt)
        most = price.dollars(without, client.batch, longest)
    # Decision models and functions write no text.
    writes = about.api == "chat" and not _is_function(model.name)
    return replace(
        found,
        prompt_tokens=prompt,
        longest_prompt=longest,
        cached_tokens=cached,
        completion_tokens=n * limit if writes else None,
        exact=counter.exact,
        dollars=least,
        dollars_most=most,
        price=price,
    )


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


class Budget:
    """A cost limit in dollars; attempts are allowed if their worst case fits.

    Without a `price` nothing costs, and nothing is limited.
    """

    def __init__(
        self,
        model: Model,
        price: Price | None = None,
        max_cost: float = inf,
        counter: TokenCounter | None = None,
        elsewhere: float = 0.0,  # cost of other runs under the same limit
    ) -> None:
        self.price = price
        self.max_cost = max_cost
        self.spent = self._elsewhere = elsewhere
        self.under_way = 0  # attempts that may return a part of their reserve
        self._model = model
        self._counter = counter
        self._factor = 1.0  # of worst cases; rises if a reply costs more than its own
        self._reserved = 0.0
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

    def start(self, journal: Journal) -> None:
        """Reset: the cost so far is that of the journal, and nothing is reserved."""
        if self.price is not None:
            self.spent = self._elsewhere + journal.cost(self.price)
        self._estimated = journal.unknown + journal.unknown_batch != Usage()
        self._reserved, self.under_way = 0.0, 0

    def worst_case(self, messages: Messages) -> Usage:
        """The most tokens that one attempt with these messages can use."""
        self._counter = self._counter or TokenCounter(self._model.name)
        tokens = self._counter.count(messages) * 1.0
        if not self._counter.exact:
            tokens *= _ESTIMATE_MARGIN
        for name in _COUNTED:
            value = self._model.parameters.get(name)
            tokens += len(json.dumps(value, default=str)) if value else 0
        prompt = ceil(tokens * self._factor)
        completion = ceil(_completion_limit(self._model) * self._factor)
        return Usage(prompt, completion, 0, prompt)

    def most(self, messages: Messages, batch: bool = False) -> float:
        """The most dollars that one attempt with these messages can cost."""
        if self.price is None:
            return 0.0
        return self.dollars(self.worst_case(messages), batch)

    def dollars(self, usage: Usage, batch: bool = False) -> float:
        """The cost of one attempt in dollars."""
        if self.price is None:
            return 0.0
        return self.price.dollars(usage, batch, usage.prompt_tokens)

    def reserve(self, dollars: float) -> bool:
        """Reserve `dollars` for an attempt; False if the attempt might exceed the limit."""
        if self.spent + self._reserved + dollars > self.max_cost:
            return False
        self._reserved += dollars
        self.under_way += 1
        return True

    def keep(
        self,
        journal: Journal,
        request: str,
        call: PlannedCall,
        reply: Reply,
        unknown: int,
        **further: bool,
    ) -> Json:
        """Write a reply; `unknown` attempts may have been charged, each at most its worst case."""
        record = (
            make_record(request, call, reply, journal.words, journal.stated) | further
        )
        if unknown:
            record["unknown_attempts"] = unknown
            record["most_usage"] = dict(vars(self.worst_case(call.messages)))
        journal.append(record)
        return record

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
            self._factor *= dollars / expected


def _completion_limit(model: Model) -> int:
    return traits(model).completion_limit or _NO_LIMIT_TOKENS
