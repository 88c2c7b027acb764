"""`inspect:PROVIDER/MODEL`: any model that Inspect supports (extra `inspect`)."""

import asyncio
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Messages, Reply, is_simulation
from fwc_llm.models.bodies import read_reply
from fwc_llm.models.client import Client
from fwc_llm.models.openai import chat
from fwc_llm.models.openai.retry import AttemptError, FailureScope, http_failure
from fwc_llm.sanitize import as_single_line, sanitize_json
from fwc_llm.validation import first_error

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage, ModelOutput
    from inspect_ai.model import Model as Inspected

PREFIX = "inspect:"
_NOT_SENT = ("ConnectError", "ConnectTimeout")  # httpx errors before anything was sent
_MARKUP = re.compile(r"\[/?[a-z ]*\]")
_NAME = "name"  # metadata key for a message's name: Inspect's messages have none
# Parameters that this client or its caller sets, or with which another model could answer.
_OURS = {
    "adaptive_connections",
    "attempt_timeout",
    "batch",
    "cache",
    "fail_on_refusal",
    "fallback_models",
    "max_connections",
    "max_retries",
    "num_choices",
    "system_message",
    "timeout",
}


def require_inspect(user: str) -> None:
    """Raise `FwcError` if Inspect is not installed; `what` names the part that needs it."""
    if find_spec("inspect_ai") is None:
        raise FwcError(f"{user} needs Inspect: pip install 'fwc-llm[inspect]'")


def read_log(path: Path) -> "EvalLog":
    """Read a log of Inspect; `FwcError` for an invalid file, or without Inspect."""
    require_inspect(f"reading the log {path}")
    from inspect_ai.log import read_eval_log

    try:
        return read_eval_log(
            path, resolve_attachments="core", exclude_fields={"events", "store"}
        )
    except Exception as error:  # any fault of a zip file, of JSON or of the schema
        why = as_single_line(str(error)).partition(" [type")[0] or type(error).__name__
        raise FwcError(
            f"{path} is not a log of Inspect (.eval or .json), or is damaged: {why}; `fwc-llm "
            f"audit`, in Python audit(frame), "
            "reads the results of other tools, judges them with --fail-if, and writes their page "
            "with --report"
        ) from None


def generate_options(model: str, client: Client) -> dict[str, Any]:
    """The options of every request, with the names of Inspect's `GenerateConfig`."""
    from inspect_ai.model import GenerateConfig
    from pydantic import ValidationError

    chat.check_parameters(client.params, _OURS)
    sent = chat.request_parameters(model, client)
    if "max_completion_tokens" in sent:
        sent["max_tokens"] = sent.pop("max_completion_tokens")
    unknown = [name for name in sent if name not in GenerateConfig.model_fields]
    if unknown:
        raise FwcError(
            f"Inspect has no option {unknown[0]!r}: its documentation lists those of "
            f"GenerateConfig "
            "(extra_body takes what a service calls otherwise)"
        )
    try:
        GenerateConfig(**sent)
    except ValidationError as error:
        raise FwcError(f"parameter {first_error(error, sent)}") from None
    return sent


def to_chat(messages: Messages) -> "list[ChatMessage]":
    """Convert messages to Inspect's classes; developer becomes system."""
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
    )

    kinds: dict[str, Any] = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
    return [
        kinds.get(message["role"], ChatMessageSystem)(
            content=message["content"],
            metadata={_NAME: message["name"]} if _NAME in message else None,
        )
        for message in messages
    ]


def from_chat(messages: str | Sequence[Any]) -> list[Message]:
    """Convert Inspect's messages, or one text of a user, to `Message` dicts."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    ours: list[Message] = []
    message: Any
    for message in messages:
        ours.append({"role": str(message.role), "content": message.text})
        name = (message.metadata or {}).get(_NAME)
        if name:
            ours[-1]["name"] = str(name)
    return ours


def to_reply(output: "ModelOutput") -> Reply:
    """Convert Inspect's output to a `Reply`."""
    usage = output.usage
    seconds = output.time or 0.0
    refused = output.error
    # If the prompt is too long, Inspect returns the service's error message as the completion.
    if (
        output.choices
        and output.stop_reason == "model_length"
        and not (usage and usage.output_tokens)
    ):
        refused = output.completion
    if not output.choices or refused:
        why = as_single_line(refused or "a response without choices")
        return Reply(
            text=None, error=f"the service refuses this row ({why})", latency=seconds
        )
    choice = output.choices[0]
    content = choice.message.content
    details = choice.stop_details
    text = choice.message.text
    refuses = (details is not None and details.type == "refusal") or (
        isinstance(content, list)
        and any(getattr(part, "refusal", None) for part in content)
    )
    cached = (usage and usage.input_tokens_cache_read) or 0
    body = {
        "model": output.model,
        "choices": [
            {
                "message": {
                    "content": text,
                    "refusal": text if refuses else None,
                    "tool_calls": [
                        call.function for call in choice.message.tool_calls or ()
                    ],
                },
                "finish_reason": choice.stop_reason,
                "logprobs": choice.logprobs.model_dump()
                if choice.logprobs is not None
                else None,
            }
        ],
        "usage": usage
        and {
            "prompt_tokens": usage.input_tokens
            + cached
            + (usage.input_tokens_cache_write or 0),
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": cached,
                "cache_write_tokens": usage.input_tokens_cache_write,
            },
        },
    }
    return read_reply(sanitize_json(body), latency=seconds)


def sample_reply(sample: "EvalSample") -> Reply:
    """The reply in a sample of a log."""
    if sample.error is not None:
        return Reply(text=None, error=as_single_line(sample.error.message))
    if sample.invalidation is not None:
        return Reply(text=None, error="the sample was invalidated in its log")
    return to_reply(sample.output)


class InspectModel(chat.RemoteService):
    """A model of one of Inspect's providers; `params` are options of `GenerateConfig`.

    This class, not Inspect, retries requests until the row's `deadline`, so that the cost limit
    counts every attempt.
    """

    hold_to = None  # type: ignore[assignment]
    key_hint = (
        "check the key that Inspect's provider reads, or name its variable with "
        "--api-key-env"
    )

    def __init__(
        self, name: str, client: Client, notice: chat.Notice | None = None
    ) -> None:
        require_inspect(name)
        self._options, self.where = client, name.removeprefix(PREFIX)
        provider, _, model = self.where.partition("/")
        if not (provider and model):
            raise FwcError(
                f"{name!r} names no model: write {PREFIX}PROVIDER/MODEL, as Inspect names it"
            )
        if client.base_url is not None:
            chat.check_address(client.base_url)
        self._sent = self.parameters = generate_options(model, client)
        super().__init__(name, notice, max(30, 4 * client.concurrency), backoff=1.0)
        self.simulated = is_simulation(
            self.where
        )  # the surrogate, reached through Inspect
        self._model: Inspected | None = None

    def require_key(self) -> None:
        """Open Inspect's provider; `FwcError` if its key or package is missing."""
        self._opened()

    async def _attempt(self, messages: Messages, attempts: int, began: float) -> Reply:
        """Ask once; Inspect and the provider's SDK retry nothing."""
        from inspect_ai.model import GenerateConfig

        model = self._opened()
        client = self._options
        if any("name" in message for message in messages):
            self._tell(
                f"{self.name}: Inspect's messages carry no names; those of the template are left "
                f"out"
            )
        if client.params:
            self._tell(
                f"{self.name}: Inspect silently drops parameters that its provider does not "
                f"support "
                f"(given: {', '.join(sorted(client.params))})"
            )
        config = GenerateConfig(
            max_connections=client.concurrency,
            max_retries=0,
            adaptive_connections=False,
            timeout=math.ceil(client.deadline),
            attempt_timeout=math.ceil(min(chat.ATTEMPT_SECONDS, client.deadline)),
            **self.parameters,
        )
        try:
            async with asyncio.timeout(max(self._left(began), 0.001)):
                output = await model.generate(to_chat(messages), config=config)
        except (FwcError, MemoryError):
            raise
        except Exception as error:
            raise self._failure(error) from None
        self.simulated |= is_simulation(output.model)
        reply = to_reply(output)
        if client.logprobs and reply.text is not None and reply.logprobs is None:
            self._tell(f"{self.name} gives no log-probabilities: P(yes) stays unknown")
        return replace(reply, attempts=attempts, latency=time.monotonic() - began)

    async def aclose(self) -> None:
        """Close all connections; the next question opens new ones."""
        model, self._model = self._model, None
        if model is not None:
            await model.api.aclose()

    def _opened(self) -> "Inspected":
        """Inspect's model, opened on first use; `FwcError` if Inspect cannot open it."""
        if self._model is None:
            variable = self._options.api_key_env
            if variable is None:
                key = None
            else:
                key = chat.read_key(variable, self.name)
            try:
                from inspect_ai.model import get_model

                self._model = get_model(
                    self.where,
                    base_url=self._options.base_url,
                    api_key=key,
                    memoize=False,
                )
            # a missing key or package, an unknown provider, a failing import
            except Exception as error:
                raise FwcError(
                    f"Inspect cannot open {self.where} ({self._error_text(error)})"
                ) from None
            sdk = vars(self._model.api).get("client")
            if hasattr(
                sdk, "max_retries"
            ):  # the SDKs of OpenAI and Anthropic would repeat a request
                sdk.max_retries = 0
        return self._model

    def _error_text(self, error: BaseException) -> str:
        """An error's message on one line, without colour markup."""
        words = str(
            getattr(error, "provider_message", None)
            or getattr(error, "message", None)
            or error
        )
        if type(error).__name__ == "PrerequisiteError":  # Inspect prints it in colours
            words = _MARKUP.sub("", words)
        return as_single_line(words) or type(error).__name__

    def _failure(self, error: Exception) -> AttemptError:
        """Classify an exception of Inspect by the HTTP status and body in its causes."""
        temporary = (
            isinstance(error, TimeoutError) or type(error).__name__ == "RetryError"
        )
        failure = AttemptError(
            FailureScope.ATTEMPT if temporary else FailureScope.UNCLEAR,
            f"{type(error).__name__}: {self._error_text(error)}",
        )
        cause: BaseException | None = error
        while cause is not None:  # Inspect wraps the exceptions of the provider's SDK
            failure.sent = failure.sent and type(cause).__name__ not in _NOT_SENT
            status = getattr(cause, "status_code", None)
            body = getattr(cause, "body", None)
            if isinstance(status, int) and status >= 400:
                if isinstance(body, Mapping):
                    content = body
                else:
                    content = {"message": self._error_text(cause)}
                failure = http_failure(
                    status, {"error": content.get("error", content)}, {}
                )
            cause = cause.__cause__
        return failure
