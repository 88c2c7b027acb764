"""Between Inspect's messages and outputs and ours: the one place where they are mapped."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fwc_llm.models.base import Message, Messages, Reply, Usage
from fwc_llm.models.openai.failures import one_line
from fwc_llm.models.openai.replies import read_reply
from fwc_llm.untrusted import storable, tamed

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, ModelOutput

_FINISHED = {"max_tokens": "length", "model_length": "length", "unknown": None}
_NAME = "name"  # Inspect's messages have no name; it travels in their metadata


def to_chat(messages: Messages) -> "list[ChatMessage]":
    """Our messages as Inspect has them. A developer's message is a system message there."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds: dict[str, Any] = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
    return [
        kinds.get(message["role"], ChatMessageSystem)(
            content=message["content"], metadata={_NAME: message["name"]} if _NAME in message else None
        )
        for message in messages
    ]


def from_chat(messages: "str | Sequence[Any]") -> list[Message]:
    """Inspect's messages as we have them."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    found: list[Message] = []
    message: Any
    for message in messages:  # of Inspect's kinds
        found.append({"role": str(message.role), "content": message.text})
        if name := (message.metadata or {}).get(_NAME):
            found[-1]["name"] = str(name)
    return found


def to_reply(output: "ModelOutput", clean: Callable[[str], str] = storable) -> Reply:
    """What a model answered, read as every other service's reply is; `clean` is applied to its texts.

    A prompt that is too long for the model is no reply: Inspect gives the service's refusal as a text.
    """
    usage = output.usage
    seconds = output.time or 0.0
    refused = output.error
    if output.choices and output.stop_reason == "model_length" and not (usage and usage.output_tokens):
        refused = output.completion
    if not output.choices or refused:
        why = one_line(clean(refused or "a response without choices"))
        return Reply(text=None, error=f"the service refuses this row ({why})", latency=seconds)
    choice = output.choices[0]
    body: dict[str, Any] = {
        "model": output.model,
        "choices": [
            {
                "message": {
                    "content": choice.message.text,
                    "refusal": choice.message.text if _is_refusal(choice) else None,
                },
                "finish_reason": _FINISHED.get(choice.stop_reason, choice.stop_reason),
                "logprobs": choice.logprobs.model_dump() if choice.logprobs is not None else None,
            }
        ],
    }
    if usage is not None:
        cached = usage.input_tokens_cache_read or 0
        body["usage"] = {
            "prompt_tokens": usage.input_tokens + cached + (usage.input_tokens_cache_write or 0),
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
    return read_reply(tamed(body, lambda text: storable(clean(text))), latency=seconds)


def _is_refusal(choice: Any) -> bool:
    """Whether the model refused, in any of the ways in which Inspect's providers say so."""
    content, details = choice.message.content, choice.stop_details
    if isinstance(content, list) and any(getattr(part, "refusal", None) for part in content):
        return True
    return details is not None and details.type == "refusal"


def to_output(reply: Reply) -> "ModelOutput":
    """A reply of one of our models as Inspect's output; the log-probabilities are of its first token."""
    from inspect_ai.model import (
        ChatCompletionChoice,
        ChatMessageAssistant,
        Logprob,
        Logprobs,
        ModelOutput,
        ModelUsage,
        TopLogprob,
    )

    logprobs = None
    if reply.logprobs:
        (token, logprob), *_ = reply.logprobs
        top = [TopLogprob(token=each, logprob=value) for each, value in reply.logprobs]
        logprobs = Logprobs(content=[Logprob(token=token, logprob=logprob, top_logprobs=top)])
    message = ChatMessageAssistant(content=reply.text or "", model=reply.model, source="generate")
    usage = reply.usage or Usage()
    return ModelOutput(
        model=reply.model or "",
        choices=[ChatCompletionChoice(message=message, stop_reason="stop", logprobs=logprobs)],
        usage=ModelUsage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            total_tokens=usage.prompt_tokens + usage.completion_tokens,
        ),
    )
