"""The interface of every model: chat messages in, one reply out."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import add
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


QUESTION = "question"  # the role of a question apart from the input, where `Traits.api` takes such
CRITERIA = "criteria:"  # begins the name of a question's message that says what true or false means
UsageKey = Literal["prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"]
HEADER = "x-fwc-llm-answers"  # in a simulated response; LiteLLM puts its prefix before it
SIMULATED = "SIMULATED"  # in a reply's fingerprint: a simulation answered, whatever the model is called


def is_simulation(
    model: str | None, fingerprint: object = None, headers: Mapping[str, str] | None = None
) -> bool:
    """Return whether a simulation answered, by name, fingerprint or header; proxies keep one of them.

    `model` is the name that was asked for or that came back.
    """
    name = (model or "").rpartition("/")[2]
    said = [value for key, value in (headers or {}).items() if key.lower().endswith(HEADER)]
    by_name = name.partition(":")[0] == "surrogate" or name.endswith("(simulated)")
    return by_name or SIMULATED in f"{fingerprint} {said}"


class Message(TypedDict):
    """One chat message of the chat-completions protocol."""

    role: str
    content: str
    name: NotRequired[str]


class ChatMessage(TypedDict):
    """A `Message` as prompts return it: type checkers take it for one of the SDK's of any role, too."""

    role: Any
    content: Any
    name: NotRequired[str]


Messages = Sequence[Message]


def role_of(message: Message) -> str:
    """The speaker of a message; an example that a template gives as instructions has it in its name."""
    spoken = {"example_user": "user", "example_assistant": "assistant"}
    return spoken.get(message.get("name", ""), message["role"])


LINES = "and nothing else: its number, a colon, and"  # "yes or no." ends what asks a chat about several rows
_JOINT = re.compile(rf"with (\d+) lines? {LINES} ([^\n]+)\Z")


def more_tokens(messages: Messages) -> int:
    """Tokens of a reply to several questions at once (`rows_per_request`) beyond those of one answer."""
    questions = sum(message["role"] == QUESTION for message in messages)
    lines = _JOINT.search(messages[-1]["content"]) if messages and not questions else None
    longer = len(lines[2]) // 12 if lines else 0  # words longer than "yes or no"
    return (8 + longer) * max(int(lines[1]) if lines else 0, questions - 1, 0)


@dataclass(frozen=True)
class Usage:
    """Tokens that one request cost, as the provider counted them.

    `cached_tokens` of the prompt were read from the provider's cache, `cache_write_tokens` were written to
    it.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, vars(self).values(), vars(other).values()))

    def times(self, number: int) -> "Usage":
        """Return the tokens of `number` such requests."""
        return Usage(*(number * count for count in vars(self).values()))


@dataclass(frozen=True)
class Reply:
    """The outcome of one request.

    `text` is None exactly when there is no reply at all; `error` then says why in one line (no key, no
    header, no traceback). `logprobs` are the top tokens of the first answer token, as (token, logprob) pairs,
    or None when the server gives none. `p_yes` is P(yes) if the model returns it, as a decision model does;
    `text` is then "yes" or "no". `others` are the P(yes) of further questions about the same row, by
    name; None for a refusal. `truncated`: the service read only a part of the input. `reasoned`: it sent
    reasoning separately from the text.
    """

    text: str | None
    finish_reason: str | None = None
    error: str | None = None
    refusal: bool = False
    logprobs: tuple[tuple[str, float], ...] | None = None
    p_yes: float | None = None
    others: Mapping[str, float | None] | None = None
    truncated: bool = False
    reasoned: bool = False
    usage: Usage | None = None
    model: str | None = None
    fingerprint: str | None = None
    attempts: int = 1
    latency: float = 0.0
    raw: Mapping[str, Any] | None = field(default=None, repr=False)


class Attempts:
    """Leave to send one question several times; this one sets no limit."""

    def lost(self, billed: bool) -> None:
        """Count an attempt without a reply; `billed` says whether the service may charge for it."""

    async def again(self) -> bool:
        """Whether another attempt may be made; where money is limited, once it is reserved."""
        return True


@runtime_checkable
class Model(Protocol):
    """The interface of every model. A provider has these four members.

    `ask` returns a `Reply` (with `text=None` for a row that cannot be answered) and raises only
    `ProviderError`, which stops the whole run. `Traits` lists the members that a model may add.
    """

    @property
    def name(self) -> str:
        """The model's name as the user wrote it."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything besides the messages that can change a reply; part of the request's hash."""

    async def ask(self, messages: Messages) -> Reply:
        """Send one conversation, return its reply."""

    async def aclose(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, eq=False)
class Training:
    """The rows that a model may learn from: those of the pool that are not test rows of this repeat.

    `rows` (n) holds the features and the protected attributes, numbers as numbers, ranks as ordered
    categoricals, all else as text; `labels` (n,) int8 is 1 for yes.
    """

    rows: "pd.DataFrame"
    labels: "np.ndarray"


@dataclass(frozen=True, eq=False)
class RowContext:
    """The row behind a question, for a model that reads rows and not prompts (`Traits.ask_row`).

    `row` is its id, `values` the columns that a prompt may show, never the outcome, changed as the variant
    asks (a counterfactual has another protected level). `training()` gives the same object for every question
    of a repeat. `arm` and `variant` are those of the question.
    """

    row: str
    repeat: int
    values: Mapping[str, Any] = field(repr=False)
    training: Callable[[], Training] = field(repr=False)
    arm: str = ""
    variant: str = ""


def _accept(*_: object) -> None:
    """Find nothing wrong."""


@dataclass(frozen=True)
class Traits:
    """The optional members of a model, and their defaults.

    simulated         true when the answers are a simulation; every output then says so
    address           the address of the service that is asked, None without one
    reference         true when this is not a language model but a reference; every output then says so
    api               how it takes the question: "chat", or the name of an interface for typed questions;
                      prompts then hold these as messages of the role `question`
    local             true when this process itself answers: no network, no cost
    opened_as         the name by which `open_model` opens it again; `name` by default
    completion_limit  the largest number of tokens of a reply, or None when it is unknown
    require_key       raises `FwcError` when there is no key; called before anything is written
    check             takes the messages of a prompt, raises `FwcError` for one that the model cannot read;
                      called with the first prompt of every arm before anything is written
    ask_row           takes the messages and the row behind them (`RowContext`) and returns a reply; runs
                      call it instead of `ask`, so that a model can answer from the table
    ask_within        as `ask`, for a model that retries: it reports lost attempts to `Attempts` and asks it
                      before each further one, so that the run's cost limit holds
    answer_in         sets the answer format: "word", or "json" for an enforced JSON object with one answer;
                      further arguments are the two answers, and a reason for the notice
    """

    simulated: bool = False
    address: str | None = None
    reference: bool = False
    api: str = "chat"
    local: bool = False
    opened_as: str = ""
    completion_limit: int | None = None
    require_key: Callable[[], None] = _accept
    check: Callable[[Messages], None] = _accept
    ask_row: Callable[[Messages, RowContext], Awaitable[Reply]] | None = None
    ask_within: Callable[[Messages, Attempts], Awaitable[Reply]] | None = None
    answer_in: Callable[[str, Sequence[str], str], None] | None = None


def traits(model: Model) -> Traits:
    """Return a model's optional members, with defaults for those that it lacks."""
    declared = {trait.name: getattr(model, trait.name, None) for trait in fields(Traits)}
    given = {name: value for name, value in declared.items() if value is not None}
    return Traits(**{"opened_as": model.name} | given)
