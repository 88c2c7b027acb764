"""Azure OpenAI: the same protocol behind another address, another key header and deployments for models."""

import os
from typing import TYPE_CHECKING, Any, Unpack

from fwc_llm.errors import FwcError
from fwc_llm.models.client import ChatOptions
from fwc_llm.models.openai.chat import ChatModel

if TYPE_CHECKING:
    import openai

API_VERSION = "2024-10-21"


class AzureModel(ChatModel):
    """A deployment on Azure OpenAI, written `azure:DEPLOYMENT`.

    The resource's address is `endpoint` or AZURE_OPENAI_ENDPOINT, the key is in AZURE_OPENAI_API_KEY (or the
    variable that `api_key_env` names). `api_version` defaults to OPENAI_API_VERSION, else to the last stable
    one. All other options are those of `ChatModel`. A deployment's name says nothing about its model: set
    `params` for a reasoning model's own (they are adapted once where it refuses ours).

    Errors: as `ChatModel`; a missing endpoint is an `FwcError` before any request.
    """

    _key_variable = "AZURE_OPENAI_API_KEY"

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_key_env: str | None = None,
        api_version: str | None = None,
        **options: Unpack[ChatOptions],
    ) -> None:
        endpoint = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not endpoint:
            raise FwcError(
                f"no endpoint for azure:{deployment}: set AZURE_OPENAI_ENDPOINT to the resource's address "
                "(https://NAME.openai.azure.com), or give it as --base-url"
            )
        variable = api_key_env or self._key_variable
        super().__init__(deployment, base_url=endpoint, api_key_env=variable, **options)
        self._version = api_version or os.environ.get("OPENAI_API_VERSION") or API_VERSION

    @property
    def name(self) -> str:
        """The deployment as the user wrote it, `azure:` included."""
        return f"azure:{self._name}"

    @property
    def _where_to_look(self) -> str:
        return f"see the deployments of the resource at {self._base_url} (their names, not the models')"

    def _check_model(self, reply: Any) -> None:
        """A deployment answers with its model's name, which may be anything."""

    def _make_client(self) -> "openai.AsyncOpenAI":
        import openai

        return openai.AsyncAzureOpenAI(
            azure_endpoint=str(self._base_url),
            api_key=self._key,
            api_version=self._version,
            **self._client_options(),
        )
