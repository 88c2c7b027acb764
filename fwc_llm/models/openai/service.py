"""What every model behind a service has: a name, parameters, what is said once, a checked address and key."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from fwc_llm.errors import FwcError
from fwc_llm.models.openai.capabilities import completion_limit
from fwc_llm.untrusted import visible

_MOST_NOTICES = 50  # a service may name another model with every reply


class Service:
    """The part of a model behind a service that does not depend on how it is asked."""

    def __init__(
        self, name: str, parameters: Mapping[str, Any], notice: Callable[[str], None] | None
    ) -> None:
        self._name, self._parameters, self._notice = name, parameters, notice
        self.notices: list[str] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The model's name as the user wrote it."""
        return self._name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What is sent besides the messages, before any adaptation to what the model refuses."""
        return self._parameters

    @property
    def completion_limit(self) -> int | None:
        """The most tokens that one reply can have, or None."""
        return completion_limit(self._parameters)

    def redact(self, text: str) -> str:
        """`text` without the keys, which a service might echo in any encoding."""
        raise NotImplementedError

    def _tell(self, notice: str) -> None:
        """Say something once."""
        notice = self.redact(visible(notice))
        if notice not in self.notices and len(self.notices) < _MOST_NOTICES:
            self.notices.append(notice)
            if self._notice is not None:
                with suppress(OSError, ValueError):  # a closed terminal must not cost a paid reply
                    self._notice(notice)


def read_key(variable: str, model: str) -> str:
    """The key in an environment variable; `FwcError` when there is none or it cannot be one."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise FwcError(
            f"no key for {model}: set the environment variable {variable}, name another with --api-key-env, "
            "or use --model surrogate, which needs none"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FwcError(f"the key in {variable} has characters that no key has: set it again")
    return key


def check_service(name: str, base_url: str | None, **numbers: float | None) -> None:
    """Refuse with `FwcError` what is no model's name, no address, or not above 0."""
    if not name.strip():
        raise FwcError("the model's name is empty: name one with --model")
    if base_url is not None:
        try:
            parts = urlsplit(base_url)
            good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
            raise FwcError(
                f"base URL {visible(base_url)[:200]!r} is not an http(s) address, for example "
                "http://127.0.0.1:8000/v1"
            )
        if parts.username or parts.password or parts.query:  # it is written into run.json and into errors
            raise FwcError(
                f"the base URL of {parts.hostname} holds a user, a password or a query: give the address "
                "alone, and a key by --api-key-env"
            )
    for option, value in numbers.items():
        if value is not None and not value > 0:
            raise FwcError(f"{option} is {value}: it must be above 0")
