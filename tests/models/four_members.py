"""The smallest model."""

from collections.abc import Mapping
from types import MappingProxyType

from fwc_llm.models import Messages, Reply


class FourMembers:
    """The four members that a model must have, and no other; says yes to everything."""

    name = "four"
    parameters: Mapping[str, object] = MappingProxyType({})

    async def ask(self, messages: Messages) -> Reply:
        return Reply("yes")

    async def aclose(self) -> None:
        pass
