"""Who answers: OpenAI-compatible services, Azure OpenAI, and the offline surrogate, behind one interface."""

from typing import Any

from fwc_llm.models.base import Message, Messages, Model, Reply, Usage

__all__ = ["Message", "Messages", "Model", "Reply", "Usage", "open_model"]


def open_model(name: str, *, base_url: str | None = None, **options: Any) -> Model:
    """The model that `name` stands for.

    `surrogate` is the offline simulation, `azure:DEPLOYMENT` a deployment on Azure OpenAI, everything else
    a model behind an OpenAI-compatible service (`base_url`, or OpenAI itself). Further options are those of
    `fwc_llm.models.openai.chat.ChatModel`; the surrogate ignores them. No request is made and no key is
    needed until the first question.
    """
    if name == "surrogate" and base_url is None:
        from fwc_llm.models.surrogate.model import Surrogate

        return Surrogate()
    if name.startswith("azure:"):
        from fwc_llm.models.openai.azure import AzureModel

        return AzureModel(name.removeprefix("azure:"), endpoint=base_url, **options)
    from fwc_llm.models.openai.chat import ChatModel

    return ChatModel(name, base_url=base_url, **options)
