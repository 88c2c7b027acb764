"""What Inspect is told besides the messages, in the words of its `GenerateConfig`."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.openai.capabilities import request_parameters

# What this client or its caller decides, and what would let another model answer.
_OURS = {
    "adaptive_connections", "attempt_timeout", "batch", "cache", "fail_on_refusal", "fallback_models",
    "max_connections", "max_retries", "num_choices", "system_message", "timeout",
}  # fmt: skip


def generate_options(
    model: str,
    chosen: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
    logprobs: bool = False,
) -> dict[str, Any]:
    """The options of every request: those of every service, and what the user set (`chosen`).

    Errors: `FwcError` for an option that Inspect does not have, or that is not the user's to set.
    """
    from inspect_ai.model import GenerateConfig
    from pydantic import ValidationError

    if taken := sorted(_OURS & set(chosen or ())):
        raise FwcError(f"parameter {taken[0]!r} cannot be set: leave out --param {taken[0]}")
    sent = request_parameters(model, chosen or {}, max_tokens, logprobs)
    if "max_completion_tokens" in sent:
        sent["max_tokens"] = sent.pop("max_completion_tokens")
    for name in sent:
        if name not in GenerateConfig.model_fields:
            raise FwcError(
                f"Inspect has no option {name!r}: its documentation lists those of GenerateConfig "
                "(extra_body takes what a service calls otherwise)"
            )
    try:
        GenerateConfig(**sent)
    except ValidationError as error:
        first = error.errors()[0]
        raise FwcError(f"parameter {first['loc'][0]!r}: {first['msg']}") from None
    return sent
