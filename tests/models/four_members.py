"""The smallest model: the four members that one must have, and no other; says yes to everything."""

from collections.abc import Mapping
from types import MappingProxyType

from fwc_llm.models import Messages, Reply


class FourMembers:
    name = "four"
    parameters: Mapping[str, object] = MappingProxyType({})

    async def ask(self, messages: Messages) -> Reply:
        return Reply("yes")

    async def aclose(self) -> None:
        pass
