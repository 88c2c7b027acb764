"""The interface of every model: chat messages in, one reply out."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import add
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, runtime_checkable

from typing_extensions import TypedDict  # before Python 3.12 pydantic reads no other

from fwc_llm.errors import FwcError, checked_class
from fwc_llm.sanitize import Fields

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


# role of a typed question's message, for models whose `Traits.api` is not "chat"
QUESTION = "question"
CRITERIA = "criteria:"  # prefix of a question message's name if it defines what true or false means
UsageKey = Literal[
    "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"
]
# in a reply's fingerprint: the answer is simulated, whatever the model's name
SIMULATED = "SIMULATED"


FILTERED = "content_filter"  # finish_reason of a reply that a content filter withheld
Ending = Literal["finished", "truncated", "filtered", "unfinished"]
_FINISHED = {
    "",
    "stop",
    "stop_sequence",
    "end",
    "end_turn",
    "eos",
    "eos_token",
    "complete",
    "completed",
    "refusal",
    "tool_call",
    "tool_calls",
    "tool_use",
    "function_call",
}
_TRUNCATED = re.compile(r"length|max_\w*tokens|token_limit|context_window")
_FILTERED = re.compile(
    "filter|guardrail|safety|block|recitation|prohibited|spii|sensitive|moderation"
)


def ending_of(finish_reason: str | None) -> Ending:
    """How a reply ended, by its finish reason: any word that is not known is "unfinished"."""
    word = re.sub(r"\W+", "_", (finish_reason or "").strip()).casefold()
    if _FILTERED.search(word):
        return "filtered"
    if _TRUNCATED.search(word):
        return "truncated"
    return "finished" if word in _FINISHED else "unfinished"


def is_simulation(model: str | None, fingerprint: object = None) -> bool:
    """Whether a simulation answered, by its name or its fingerprint."""
    name = (model or "").rpartition("/")[2]
    by_name = name.partition(":")[0] == "surrogate" or name.endswith("(simulated)")
    return by_name or SIMULATED in str(fingerprint)


class Message(TypedDict):
    """One chat message of the chat-completions protocol."""

    role: str
    content: str
    name: NotRequired[str]


class ChatMessage(TypedDict):
    """A `Message` of a prompt, typed so that OpenAI's SDK accepts it for any role."""

    role: Any
    content: Any
    name: NotRequired[str]


Messages = Sequence[Message]


def role_of(message: Message) -> str:
    """The role of a message; user or assistant for the names example_user, example_assistant."""
    spoken = {"example_user": "user", "example_assistant": "assistant"}
    return spoken.get(message.get("name", ""), message["role"])


@checked_class
@dataclass(frozen=True)
class Usage:
    """Tokens of one request, as the provider counted them.

    Of the prompt's tokens, `cached_tokens` were read from the provider's cache, and
    `cache_write_tokens` were written to the cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, vars(self).values(), vars(other).values()))

    def times(self, number: int) -> "Usage":
        """The tokens of `number` requests of this size."""
        return Usage(*(number * count for count in vars(self).values()))


@checked_class
@dataclass(frozen=True)
class Reply:
    """The result of one request.

    `text` is None if and only if there is no reply at all; `error` then gives the reason on one
    line, without keys, headers and traceback. `logprobs` are the most likely tokens where the
    answer begins, as (token, natural-log probability) pairs; None if the server returns none.
    `p_yes` is P(yes) in [0, 1] if the model itself returns it (decision models do); `text` is then
    "yes" or "no". `others` maps further questions about the same row, by name, to their P(yes);
    None for a refused question. `truncated` means that the service read only a part of the input,
    `reasoned` that the service sent reasoning separately from the text. `latency` is in seconds.
    """

    text: str | None
    finish_reason: str | None = None
    error: str | None = None
    refusal: bool = False
    logprobs: tuple[tuple[str, float], ...] | None = None
    p_yes: float | None = None
    truncated: bool = False
    reasoned: bool = False
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None
    attempts: int = 1
    latency: float = 0.0
    raw: Fields | None = field(default=None, repr=False)

    @property
    def ending(self) -> Ending:
        """How the reply ended: an unfinished one holds no answer, whatever its text."""
        return ending_of(self.finish_reason)


def likelier(p: float) -> Literal["yes", "no"]:
    """The answer of a model that gives P(yes)."""
    return "yes" if p >= 0.5 else "no"


class Attempts:
    """Permission to repeat a failed request; this base class sets no limit."""

    def lost(self, billed: bool) -> None:
        """Count an attempt without a reply; `billed`: the service may charge for the attempt."""

    async def again(self) -> bool:
        """Whether another attempt is allowed; this may reserve its cost."""
        return True


@runtime_checkable
class Model(Protocol):
    """The interface of every model: these four members are required.

    `ask` returns a `Reply`, with `text=None` for a row that cannot be answered. `ask` raises
    only `ProviderError`, which stops the whole run. `Traits` lists the optional members.
    """

    @property
    def name(self) -> str:
        """The model's name as the user wrote it."""

    @property
    def parameters(self) -> Fields:
        """Everything that can change a reply, except the messages; part of a request's hash."""

    async def ask(self, messages: Messages) -> Reply:
        """Send one conversation and return the reply."""

    async def aclose(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, eq=False)
class Training:
    """Training data: the pool's rows that are not test rows of this repeat.

    `rows` (n rows) has the features and the protected attributes: numbers as numbers, ordinal
    values as ordered categoricals, everything else as text. `labels` (n,) int8 is 1 for yes.
    """

    rows: "pd.DataFrame"
    labels: "np.ndarray"


@dataclass(frozen=True, eq=False)
class RowContext:
    """The table row of a question, for models that read rows (`Traits.ask_row`).

    `row` is the row's id. `values` has the columns that a prompt may show, never the outcome, with
    the changes of the variant (a counterfactual has another protected level). `training()` returns
    the same object for every question of a repeat. `arm` and `variant` are those of the question.
    """

    row: str
    repeat: int
    values: Fields = field(repr=False)
    training: Callable[[], Training] = field(repr=False)
    arm: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Traits:
    """The optional members of a model, with their defaults.

    simulated         true if the answers are simulated; every output then says so
    address           the service's address; None without a service
    reference         true for a reference model that is no language model; every output then says
                      so
    api               "chat", or the name of an interface for typed questions; prompts for such an
                      interface have the questions as messages of the role `question`
    local             true if this process itself answers: no network, no cost
    opened_as         the name by which `open_model` opens the model again; `name` by default
    completion_limit  the largest number of tokens of a reply, or None if it is unknown
    require_key       raises `FwcError` without a key; called before a run writes anything
    check             takes the messages of a prompt; raises `FwcError` if the model cannot read the
                      prompt; called with the first prompt of every arm before a run writes anything
    ask_row           takes the messages and their `RowContext`, and returns a reply; runs call it
                      instead of `ask`, so that a model can answer from the table
    ask_within        as `ask`, for a model that retries: it reports each failed attempt to
                      `Attempts`, and asks `Attempts` for permission before each further attempt
                      (for the cost limit)
    pause_left        returns the seconds until the service may be asked again, after it refused
                      (status 429)
    """

    simulated: bool = False
    address: str | None = None
    reference: bool = False
    api: str = "chat"
    local: bool = False
    opened_as: str = ""
    completion_limit: int | None = None
    require_key: Callable[[], None] = lambda: None
    check: Callable[[Messages], None] = lambda messages: None
    ask_row: Callable[[Messages, RowContext], Awaitable[Reply]] | None = None
    ask_within: Callable[[Messages, Attempts], Awaitable[Reply]] | None = None
    pause_left: Callable[[], float] = lambda: 0.0


class Unconnected:
    """Base of models without connections."""

    async def aclose(self) -> None:
        """Do nothing."""


class FromTable(Unconnected):
    """Base of models that answer from rows of the table (`Traits.ask_row`) and read no prompt."""

    name: str
    reference = True
    completion_limit = 1

    async def ask(self, messages: Messages) -> Reply:
        """Raise `FwcError`: there is no row."""
        raise FwcError(
            f"{self.name} answers from a table, not from a prompt: use `evaluate`"
        )


def traits(model: Model) -> Traits:
    """A model's optional members, with defaults for those that it lacks."""
    declared = {
        trait.name: getattr(model, trait.name, None) for trait in fields(Traits)
    }
    given = {name: value for name, value in declared.items() if value is not None}
    return Traits(**{"opened_as": model.name} | given)
