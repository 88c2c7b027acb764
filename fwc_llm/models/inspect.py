"""Inspect's messages, outputs and logs (extra `inspect`)."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Messages, Reply
from fwc_llm.models.bodies import read_reply
from fwc_llm.sanitize import Json, as_single_line, sanitize_json

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage, ModelOutput

_NAME = "name"  # metadata key for a message's name: Inspect's messages have none


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


def to_chat(messages: Messages) -> "list[ChatMessage]":
    """Convert messages to Inspect's classes; developer becomes system."""
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
    )

    kinds: Json = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
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
