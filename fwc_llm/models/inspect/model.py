"""`inspect:PROVIDER/MODEL`: any model that Inspect can reach, asked by our harness."""

import asyncio
import logging
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.client import ChatOptions
from fwc_llm.models.inspect import PREFIX, require_inspect
from fwc_llm.models.inspect.options import generate_options
from fwc_llm.models.inspect.outputs import to_chat, to_reply
from fwc_llm.models.openai.failures import AttemptError, Reach, http_failure, one_line
from fwc_llm.models.openai.pacing import Pacer
from fwc_llm.models.openai.secret import Secret
from fwc_llm.models.openai.service import Service, check_service
from fwc_llm.untrusted import storable

if TYPE_CHECKING:
    from inspect_ai.model import GenerateConfig
    from inspect_ai.model import Model as Inspected

_ATTEMPT_SECONDS = 60.0
_MARKUP = re.compile(r"\[/?[a-z ]*\]")
_HOLDS_A_KEY = re.compile(r"(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)


class InspectModel(Service):
    """A model behind one of Inspect's providers, with the face of every other model.

    The options are those of `fwc_llm.models.openai.chat.ChatModel`; `params` are the options of Inspect's
    `GenerateConfig`. Inspect retries, as its provider sees fit, until the row's `deadline`. The provider
    finds its key where Inspect's documentation says, unless `api_key_env` names a variable.

    Errors: `FwcError` for options that make no sense, for a provider that Inspect does not know and, before
    the first request, for a missing key or package; `ProviderError` when the service rejects the run.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        **options: Unpack[ChatOptions],
    ) -> None:
        require_inspect(name)
        self._base_url, self._api_key_env = base_url, api_key_env
        self._path = name.removeprefix(PREFIX)
        provider, _, model = self._path.partition("/")
        if not (provider and model):
            raise FwcError(f"{name!r} names no model: write {PREFIX}PROVIDER/MODEL, as Inspect names it")
        self._chosen = sorted(options.get("params") or {})
        self._logprobs = bool(options.get("logprobs"))
        parameters = generate_options(model, options.get("params"), options.get("max_tokens"), self._logprobs)
        super().__init__(name, parameters, options.get("notice"))
        self._concurrency = options.get("concurrency", 8)
        self._deadline = options.get("deadline", 300.0)
        rpm, tpm, attempt = options.get("rpm"), options.get("tpm"), options.get("timeout")
        check_service(
            name, base_url, rpm=rpm, tpm=tpm, concurrency=self._concurrency, deadline=self._deadline,
            timeout=attempt,
        )  # fmt: skip
        self._attempt = attempt or min(_ATTEMPT_SECONDS, self._deadline)
        self._breaker = options.get("breaker") or max(30, 4 * self._concurrency)
        self._pacer = Pacer(rpm, tpm, notice=self._tell)
        self._paces_tokens = tpm is not None
        self._failed_in_a_row = 0
        self._model: Inspected | None = None
        self._secrets: tuple[Secret, ...] = ()
        self._listener = _Listener(self)

    @property
    def simulated(self) -> bool:
        """True for our surrogate, also by way of Inspect."""
        return self._path == "fwc/surrogate"

    def require_key(self) -> None:
        """Check, before anything is asked, that Inspect's provider has what it needs; `FwcError` if not."""
        self._opened()

    async def ask(self, messages: Messages) -> Reply:
        """Ask until there is a reply, the row proves unanswerable, or its deadline has passed."""
        model = self._opened()
        if any("name" in message for message in messages):
            self._tell(f"{self.name}: Inspect's messages carry no names; those of the template are left out")
        if self._chosen:
            self._tell(
                f"{self.name}: Inspect leaves out in silence what its provider does not take "
                f"(asked for: {', '.join(self._chosen)})"
            )
        expected = sum(len(message["content"]) for message in messages) // 4 if self._paces_tokens else 0
        await self._pacer.turn(expected)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                output = await model.generate(to_chat(messages), config=self._config())
        except (FwcError, MemoryError):
            raise
        except Exception as error:
            return self._no_reply(error, time.monotonic() - began)
        self._failed_in_a_row = 0
        reply = to_reply(output, self.redact)
        if reply.usage is not None and self._paces_tokens:
            self._pacer.settle(expected, reply.usage.prompt_tokens + reply.usage.completion_tokens)
        if self._logprobs and reply.text is not None and reply.logprobs is None:
            self._tell(f"{self.name} gives no log-probabilities: P(yes) stays unknown")
        return replace(reply, latency=time.monotonic() - began)

    async def aclose(self) -> None:
        """Close all connections; the next question opens new ones."""
        model, self._model = self._model, None
        logging.getLogger("inspect_ai").removeHandler(self._listener)
        if model is not None:
            await model.api.aclose()

    def _opened(self) -> "Inspected":
        """Inspect's model, made if need be. `FwcError` for all that Inspect misses."""
        if self._model is None:
            self._secrets = tuple(map(Secret, self._keys()))
            logging.getLogger("inspect_ai").addHandler(self._listener)
            try:
                from inspect_ai.model import get_model

                key = os.environ.get(self._api_key_env) if self._api_key_env else None
                self._model = get_model(self._path, base_url=self._base_url, api_key=key, memoize=False)
            except Exception as error:  # a missing key or package, an unknown provider, whatever it imports
                logging.getLogger("inspect_ai").removeHandler(self._listener)
                raise FwcError(f"Inspect cannot open {self._path} ({self._said(error)})") from None
        return self._model

    def _config(self) -> "GenerateConfig":
        from inspect_ai.model import GenerateConfig

        return GenerateConfig(
            max_connections=self._concurrency,
            adaptive_connections=False,
            timeout=math.ceil(self._deadline),
            attempt_timeout=math.ceil(self._attempt),
            **self._parameters,
        )

    def _keys(self) -> list[str]:
        """What may be a key: Inspect's providers find theirs by names that we do not know."""
        if self._api_key_env and not os.environ.get(self._api_key_env, "").strip():
            raise FwcError(f"no key for {self.name}: set the environment variable {self._api_key_env}")
        return [
            value
            for name, value in os.environ.items()
            if value and (name == self._api_key_env or _HOLDS_A_KEY.search(name))
        ]

    def redact(self, text: str) -> str:
        """`text` without any key of the environment, which a provider might echo."""
        for secret in self._secrets:
            text = secret.redact(text)
        return text

    def _said(self, error: BaseException) -> str:
        """What an error says, on one line, without keys and without Inspect's colours."""
        said = str(getattr(error, "provider_message", None) or getattr(error, "message", None) or error)
        if type(error).__name__ == "PrerequisiteError":  # Inspect prints it in colours
            said = _MARKUP.sub("", said)
        return one_line(storable(self.redact(said))) or type(error).__name__

    def _no_reply(self, error: Exception, seconds: float) -> Reply:
        """The row without a reply; `ProviderError` where every other row would fail alike."""
        failure = self._failure(error)
        if failure.reach is Reach.RUN:
            raise ProviderError(self._explain(failure)) from None
        self._failed_in_a_row += failure.reach is not Reach.ROW
        if self._failed_in_a_row >= self._breaker:
            raise ProviderError(
                f"{self._path} failed {self._failed_in_a_row} times in a row (last: {failure}): the run is "
                "stopped; what was answered is kept, and the same command continues there"
            ) from None
        asked = "refuses this row" if failure.reach is Reach.ROW else "gave no reply"
        return Reply(text=None, error=f"the service {asked} ({failure})", latency=seconds)

    def _failure(self, error: Exception) -> AttemptError:
        """What Inspect raised, classified as any service's failure is."""
        if isinstance(error, TimeoutError):
            return AttemptError(Reach.ATTEMPT, f"no reply within the deadline of {self._deadline:g} s")
        wrapped: list[BaseException] = [error]  # Inspect wraps what the provider's SDK raised
        while (cause := wrapped[-1].__cause__) is not None:
            wrapped.append(cause)
        for cause in reversed(wrapped):
            status, body = getattr(cause, "status_code", None), getattr(cause, "body", None)
            if isinstance(status, int) and status >= 400:
                told = body if isinstance(body, Mapping) else {"message": self._said(cause)}
                failure = http_failure(status, {"error": told.get("error", told)}, {})
                return replace(failure, reason=self.redact(failure.reason))
        return AttemptError(Reach.ATTEMPT, f"{type(error).__name__}: {self._said(error)}")

    def _explain(self, failure: AttemptError) -> str:
        if failure.parameter:
            name = failure.parameter
            hint = f"it refuses {name!r}: change it, or leave it out (--param {name}=null)"
        elif failure.status == 404:
            hint = "the provider does not know this model: check its name"
        elif failure.status == 402 or failure.code in {"insufficient_quota", "billing_not_active"}:
            hint = "the quota is used up: check the account's billing"
        else:
            hint = "check the key that Inspect's provider reads, or name its variable with --api-key-env"
        return f"{self._path} rejects the run ({failure}): {hint}"

    def hear(self, said: str) -> None:
        """Pass on, once, what Inspect warns of: a parameter that the provider does not take."""
        self._tell(f"{self.name}: {one_line(said)}")


class _Listener(logging.Handler):
    """Hears what Inspect warns of, which would otherwise go to the terminal as it is."""

    def __init__(self, model: InspectModel) -> None:
        super().__init__(logging.WARNING)
        self._model = model

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the warning over."""
        self._model.hear(record.getMessage())
