"""Any service that speaks OpenAI's chat-completions protocol, asked with patience."""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.openai.capabilities import (
    adapted,
    is_known_to_reason,
    is_reasoning,
    request_parameters,
)
from fwc_llm.models.openai.failures import AttemptError, Reach, http_failure
from fwc_llm.models.openai.pacing import Pacer
from fwc_llm.models.openai.replies import read_reply
from fwc_llm.models.openai.secret import Secret
from fwc_llm.models.openai.service import Service, check_service, read_key
from fwc_llm.untrusted import parse_json, shortened, tamed

if TYPE_CHECKING:
    import httpx2
    import openai

OPENAI_URL = "https://api.openai.com/v1"
DEPRECATIONS = "https://platform.openai.com/docs/deprecations"
_NO_KEY = "no-key"  # what a server that needs no key is sent
_LONGEST_BACKOFF = 30.0  # seconds between two attempts at one row
_UNCLEAR_ATTEMPTS = 3
_ATTEMPT_SECONDS = 60.0
_BLIP_SECONDS = 20.0  # a service that answered before may be away for so long
_MOST_WAVES = 12  # refusals (429) in a row, pauses doubling in between, without a single success


class ChatModel(Service):
    """A model behind an OpenAI-compatible service.

    name           the model's name, sent as it is
    base_url       the service; None is OpenAI. With a base URL a key is sent only when `api_key_env` is given
    api_key_env    the environment variable that holds the key (default for OpenAI: OPENAI_API_KEY); read at
                   the first request, so a run that is answered already needs none
    params         anything else to send, as it is; overrides what is sent by default
    max_tokens     limit of a reply (default 20; 2000 for a reasoning model, reasoning included)
    logprobs       ask for the probabilities of the top tokens
    rpm, tpm       requests and tokens a minute that are not exceeded
    concurrency    connections to keep; also decides how many failures in a row stop the run
    deadline       seconds for one row, counted from its first attempt, retries and pauses included
    timeout        seconds for one attempt (default 60; the whole deadline for a reasoning model)
    backoff        seconds before the first retry (doubling, with jitter)
    breaker        failed attempts in a row, over all rows, that stop the run (default 30, or 4 times
                   concurrency); once anything was answered, only if they span 20 s
    seed           of the jitter
    notice         called once for each thing worth saying (an adapted parameter, an unexpected model)

    Errors: `FwcError` for options that make no sense and, at the first request, for a missing key;
    `ProviderError` when the service rejects the run as a whole.
    """

    _key_variable = "OPENAI_API_KEY"
    _address = "/chat/completions"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        params: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        logprobs: bool = False,
        rpm: float | None = None,
        tpm: float | None = None,
        concurrency: int = 8,
        deadline: float = 300.0,
        timeout: float | None = None,
        backoff: float = 0.5,
        breaker: int | None = None,
        seed: int = 0,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        check_service(
            name, base_url, rpm=rpm, tpm=tpm, concurrency=concurrency, deadline=deadline, timeout=timeout
        )
        self._chosen = dict(params or {})
        super().__init__(name, self._defaults(name, max_tokens, logprobs), notice)
        self._base_url, self._api_key_env = base_url, api_key_env
        self._sent = dict(self._parameters)  # after adaptation; never part of a request's identity
        self._concurrency, self._deadline, self._backoff = concurrency, deadline, backoff
        self._timeout = timeout or (deadline if self._reasons else _ATTEMPT_SECONDS)
        self._rng = random.Random(seed)
        self._pacer = Pacer(rpm, tpm, first_pause=2.0 * backoff, rng=self._rng, notice=self._tell)
        self._paces_tokens = tpm is not None
        self._breaker = breaker if breaker is not None else max(30, 4 * concurrency)
        self._failed_in_a_row, self._last_success = 0, -math.inf
        self._adapted: set[str] = set()
        self._client: openai.AsyncOpenAI | None = None
        if self._reasons and "temperature" not in self._parameters:
            known = base_url is None and is_known_to_reason(name)
            what = "is a reasoning model" if known else "is taken for a reasoning model, by its name"
            self._tell(
                f"{name} {what}: no temperature is sent, so replies may vary "
                "(--param reasoning_effort=none turns reasoning off where the model allows it)"
            )

    def _defaults(self, name: str, max_tokens: int | None, logprobs: bool) -> Mapping[str, Any]:
        """What is sent with every request: what was asked for, and what was chosen."""
        return request_parameters(name, self._chosen, max_tokens, logprobs)

    @property
    def _reasons(self) -> bool:
        """Whether the model may think for long before it answers."""
        return is_reasoning(self._name)

    @property
    def simulated(self) -> bool:
        """True for the surrogate, also behind HTTP: its server answers to no other name."""
        return self._name == "surrogate"

    def require_key(self) -> None:
        """Check, before anything is asked, that there is a key and a way out; `FwcError` if not."""
        self.client()

    async def aclose(self) -> None:
        """Close all connections; the next question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def request_body(self, messages: Messages) -> dict[str, Any]:
        """The body of the request that asks `messages`, adapted to what the model was found to refuse."""
        return {"model": self._served_name, "messages": messages, **self._sent}

    def read(self, body: Any, messages: Messages) -> Reply:
        """The reply in the body of a response to `messages`. Raises `AttemptError` where there is none."""
        return read_reply(body)

    async def ask(self, messages: Messages) -> Reply:
        """Ask until there is a reply, the row proves unanswerable, or its deadline has passed."""
        self.client()  # its imports are no part of the row's time
        expected = self._expected_tokens(messages)
        await self._pacer.turn(expected, patience=self._deadline)
        began = time.monotonic()
        attempts = 0
        while True:
            attempts += 1
            sent_at = time.monotonic()
            try:
                reply = await self._attempt(messages, attempts, began)
            except AttemptError as failure:
                wait = self._after_failure(failure, attempts, sent_at)
                if wait is None or wait >= self._left(began):
                    return self._no_reply(failure, attempts, time.monotonic() - began)
                await asyncio.sleep(wait)
                await self._pacer.turn(expected, patience=self._left(began))
                if self._left(began) <= 0.0:
                    return self._no_reply(failure, attempts, time.monotonic() - began)
            else:
                self._failed_in_a_row, self._last_success = 0, time.monotonic()
                self._pacer.succeeded(sent_at)
                if reply.usage is not None:
                    self._pacer.settle(expected, reply.usage.prompt_tokens + reply.usage.completion_tokens)
                self._check_model(reply)
                return reply

    async def _attempt(self, messages: Messages, attempts: int, began: float) -> Reply:
        """Send the conversation once. Raises `AttemptError`."""
        sent = self._sent
        sent_at = time.monotonic()
        try:
            response = await self._post(self.request_body(messages), began)
            self._pacer.learn(response.headers)
            text = response.content.decode("utf-8", "replace")
            body = self.read_body(text)
            if isinstance(body, str) and text.lstrip()[:1] in {"{", "["}:
                raise AttemptError(Reach.ATTEMPT, "the reply is broken JSON", response.status_code)
            reply = self.read(body, messages)
            return self._without_key(replace(reply, attempts=attempts, latency=time.monotonic() - sent_at))
        except AttemptError as failure:
            failure.reason = self.redact(failure.reason)
            if self._adapt(failure, messages, sent):
                return await self._attempt(messages, attempts + 1, began)
            raise

    async def _post(self, body: dict[str, Any], began: float) -> "httpx2.Response":
        """One HTTP request through the SDK; whatever goes wrong becomes a `AttemptError`.

        The SDK's `create` validates every message (5.5 ms for 34 of them); `post` takes the same path
        without that. The response is read here, not by the SDK: it takes a page of HTML for a completion.
        """
        import httpx2

        client = self.client()
        limit = min(self._timeout, max(self._left(began), 0.001))
        try:
            async with asyncio.timeout(limit):
                return await client.post(
                    self._address,
                    body=body,
                    cast_to=httpx2.Response,
                    options={"security": {"bearer_auth": True}},
                )
        except TimeoutError:
            raise AttemptError(Reach.ATTEMPT, f"no response within {limit:.3g} s") from None
        except Exception as error:
            raise self.failure_of(error) from None

    def failure_of(self, error: Exception) -> AttemptError:
        """What the SDK raised, classified: whatever a service sends is at most a failed attempt."""
        import openai

        from fwc_llm.models.openai.transport import UnusableResponseError

        for cause in (error, error.__cause__):
            if isinstance(cause, FwcError | AssertionError | MemoryError):
                raise cause
            if isinstance(cause, UnusableResponseError):
                return AttemptError(Reach.UNCLEAR, shortened(self.redact(str(cause)), 300))
        if isinstance(error, openai.APIStatusError):
            self._pacer.learn(error.response.headers)
            return http_failure(
                error.status_code, self.read_body(error.response.text), error.response.headers
            )
        if isinstance(error, openai.APITimeoutError):
            return AttemptError(Reach.ATTEMPT, f"no response within {self._timeout:g} s")
        if isinstance(error, openai.APIConnectionError):
            return AttemptError(Reach.ATTEMPT, f"the connection failed ({self._cause(error)})")
        return AttemptError(Reach.ATTEMPT, f"the response is unreadable ({self._cause(error)})")

    def _after_failure(self, failure: AttemptError, attempts: int, sent_at: float) -> float | None:
        """Seconds to wait before the next attempt, None to give the row up; stops the run if need be."""
        if failure.reach is Reach.RUN:
            raise ProviderError(self.explain(failure))
        if failure.reach is Reach.ROW:
            return None
        if failure.rate_limited:
            self._pacer.refused(sent_at, failure.retry_after)
            if self._pacer.waves >= _MOST_WAVES:
                raise ProviderError(
                    f"{self._where} refused {self._pacer.waves} times in a row (too many requests), despite "
                    f"pauses (last: {failure}): try later or set --rpm; what was answered is kept"
                )
            return self._pacer.pause_left
        self._failed_in_a_row += 1
        lasting = time.monotonic() - self._last_success > _BLIP_SECONDS
        if self._failed_in_a_row >= self._breaker and lasting:
            raise ProviderError(
                f"{self._where} failed {self._failed_in_a_row} times in a row (last: {failure}): the run is "
                "stopped; what was answered is kept, and the same command continues there"
            )
        if failure.reach is Reach.UNCLEAR and attempts >= _UNCLEAR_ATTEMPTS:
            return None
        if failure.retry_after is not None:
            return failure.retry_after
        return min(self._backoff * 2.0 ** (attempts - 1), _LONGEST_BACKOFF) * (0.5 + self._rng.random())

    def _left(self, began: float) -> float:
        return began + self._deadline - time.monotonic()

    def _no_reply(self, failure: AttemptError, attempts: int, seconds: float) -> Reply:
        if failure.reach is Reach.ATTEMPT:
            why = (
                f"no reply within the deadline of {self._deadline:g} s ({attempts} attempts; last: {failure})"
            )
        else:
            why = f"the service refuses this row ({failure})"
        return Reply(text=None, error=why, attempts=attempts, latency=seconds)

    def explain(self, failure: AttemptError) -> str:
        """One line about a failure that stops the run: what, where, what to do, and the service's words."""
        return self.redact(self._explain(failure))

    def _explain(self, failure: AttemptError) -> str:
        said = f"({failure})"
        if failure.parameter:
            return (
                f"{self._where} refuses the parameter {failure.parameter!r} for {self.name} {said}: "
                "change or drop it (--param, --logprobs, --max-tokens)"
            )
        if failure.status == 404 or failure.code in {"model_not_found", "deploymentnotfound"}:
            return f"{self._where} does not know the model {self.name!r} {said}: {self._where_to_look}"
        if failure.code in {"insufficient_quota", "billing_not_active"} or failure.status == 402:
            return f"{self._where} says that the quota is used up {said}: check the account's billing"
        return f"{self._where} rejects the key {said}: {self._key_hint}"

    def _adapt(self, failure: AttemptError, messages: Messages, sent: Mapping[str, Any]) -> bool:
        """Leave out or rename a parameter of ours that the model refuses: once each, and said once."""
        name = failure.parameter
        if failure.reach is not Reach.RUN or name in self._chosen or name not in sent:
            return False
        if self._sent.get(name) == sent[name]:
            if name in self._adapted or (change := adapted(self._sent, name)) is None:
                return False
            changed, note = change
            self._adapted |= {name, *(set(changed) - set(self._sent))}  # what comes in is not swapped back
            self._sent = changed
            self._tell(f"{self.name}: {note}")
        return True  # another worker may have adapted already

    def _check_model(self, reply: Reply) -> None:
        served, wanted = (reply.model or "").rpartition("/")[2], self._served_name.rpartition("/")[2]
        if served and wanted not in served and served not in wanted:
            self._tell(f"{self._where} answers as {reply.model!r}, not as {self.name!r}")

    def _expected_tokens(self, messages: Messages) -> int:
        """A rough size of one exchange, good enough to pace by; corrected from the real usage."""
        if not self._paces_tokens:
            return 0
        return sum(len(message["content"]) for message in messages) // 4 + (self.completion_limit or 0)

    @property
    def _served_name(self) -> str:
        return self._name

    @property
    def _where(self) -> str:
        return f"the service at {self._base_url}" if self._base_url else "OpenAI"

    @property
    def _where_to_look(self) -> str:
        if self._base_url:
            return f"{self._base_url.rstrip('/')}/models lists what it serves, if the base URL is right"
        return f"it may be retired, see {DEPRECATIONS}, or your account has no access to it"

    @property
    def _key_hint(self) -> str:
        if self._base_url and self._api_key_env is None:
            return "no key was sent; name the variable that holds it with --api-key-env"
        return f"check the key in {self._api_key_env or self._key_variable}"

    @cached_property
    def _key(self) -> str:
        if self._base_url is not None and self._api_key_env is None:
            return _NO_KEY
        return read_key(self._api_key_env or self._key_variable, self.name)

    @cached_property
    def _secret(self) -> Secret | None:
        try:
            return None if self._key == _NO_KEY else Secret(self._key)
        except FwcError:
            return None  # no key, nothing to hide; asking will say so

    def redact(self, text: str) -> str:
        """`text` without the key, which a service might echo in any encoding."""
        return self._secret.redact(text) if self._secret is not None else text

    def _without_key(self, reply: Reply) -> Reply:
        """The reply once more without the key, which may have come in parts."""
        if self._secret is None:
            return reply
        raw = None if self._secret.is_in(json.dumps(reply.raw)) else reply.raw
        return replace(reply, text=self.redact(reply.text or ""), raw=raw)

    def read_body(self, text: str) -> Any:
        """What a service sent, as a value of bounded size without the key; the text where it is not JSON."""
        try:
            return tamed(parse_json(text), self.redact)
        except ValueError:
            return tamed(text, self.redact)

    def _cause(self, error: BaseException) -> str:
        cause = error.__cause__ or error
        said = self.redact(" ".join(str(cause).split()))
        return f"{type(cause).__name__}: {said}"[:200].rstrip(": ")

    def client(self) -> "openai.AsyncOpenAI":
        """The SDK's client, opened if need be; it retries nothing by itself.

        `FwcError` for a missing key, and for an environment in which no connection can be made.
        """
        if self._client is None:
            self._key  # noqa: B018 (reading it is the check)
            try:
                self._client = self._make_client()
                if self._secret is not None:
                    self._secret.hide_in_logs()
            except Exception as error:  # ImportError, ValueError, FileNotFoundError, InvalidURL, …
                raise FwcError(
                    f"no connection to {self._where} can be set up ({self._cause(error)}): check the base "
                    "URL and the variables for proxies (HTTPS_PROXY, ALL_PROXY) and certificates "
                    "(SSL_CERT_FILE)"
                ) from None
            # No other service learns of the user's account at OpenAI, which the environment names.
            if self._base_url is not None:
                self._client.organization = self._client.project = None
        return self._client

    def _make_client(self) -> "openai.AsyncOpenAI":
        import openai

        return openai.AsyncOpenAI(
            api_key=self._key,
            # Given even when it is the default: the environment must not decide where the key goes.
            base_url=self._base_url or OPENAI_URL,
            default_headers={"Authorization": f"Bearer {self._key}"},
            **self._client_options(),
        )

    def _client_options(self) -> dict[str, Any]:
        import httpx2

        from fwc_llm.models.openai.transport import BoundedClient

        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=max(self._concurrency, 100))
        http_client = BoundedClient(limits=limits, timeout=self._timeout)
        return {"max_retries": 0, "timeout": self._timeout, "http_client": http_client}
