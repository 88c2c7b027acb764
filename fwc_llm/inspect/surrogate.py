"""`fwc/surrogate`: our simulated model as a model of Inspect."""

from typing import Any

from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, modelapi
from inspect_ai.tool import ToolChoice, ToolInfo

from fwc_llm.inspect.errors import refused
from fwc_llm.models.inspect import from_chat, to_output
from fwc_llm.models.surrogate.model import NAME, Surrogate

_AT_ONCE = 100


class SurrogateAPI(ModelAPI):  # type: ignore[misc]
    """The surrogate behind Inspect's interface; temperature and seed are those of the request."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, None, [], config or GenerateConfig())
        if model_name != NAME or model_args:
            what = f"the option {next(iter(model_args))!r}" if model_args else f"the model {model_name!r}"
            raise refused(f"there is no {what[4:]} of fwc: the one model is fwc/{NAME}, without options")

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Answer at once. Raises `UnreadablePromptError` for a prompt that asks about no person."""
        return to_output(Surrogate(config.temperature or 0.0, config.seed or 0).reply(from_chat(input)))

    async def count_text_tokens(self, text: str) -> int:
        """Words: the surrogate has no tokens, and Inspect's own count would fetch a tokenizer."""
        return len(text.split())

    def max_connections(self) -> int:
        """How many rows Inspect asks about at once."""
        return _AT_ONCE


@modelapi(name="fwc")
def fwc() -> type[ModelAPI]:
    """The provider `fwc`."""
    return SurrogateAPI
