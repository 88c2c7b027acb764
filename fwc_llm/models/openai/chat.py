"""Client for OpenAI-compatible chat completions and Azure, with retries."""

import asyncio
import json
import math
import os
import random
import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import FILTERED, Attempts, Messages, Reply, is_simulation
from fwc_llm.models.bodies import (
    FORM,
    RESPONSE_FORMAT,
    asks_json,
    json_answer,
    read_reply,
)
from fwc_llm.models.client import Client, is_local
from fwc_llm.models.openai.prices import family_of
from fwc_llm.models.openai.retry import (
    QUOTA_CODES,
    AttemptError,
    FailureScope,
    Pace,
    http_failure,
)
from fwc_llm.notices import Say
from fwc_llm.sanitize import (
    LIKE_A_KEY,
    Fields,
    Json,
    described,
    hide_variable,
    parse_json,
    parse_uint,
    redact,
    replace_invisible,
    sanitize_json,
)

if TYPE_CHECKING:
    import httpx2
    import openai

OPENAI_URL = "https://api.openai.com/v1"
DEPRECATIONS = "https://platform.openai.com/docs/deprecations"
AZURE_VERSION = "2024-10-21"
ANSWER_TOKENS = (
    20  # enough for "Yes", and to recognize a refusal (DecodingTrust's limit)
)
JSON_TOKENS = 60  # enough for a JSON object with one answer and white space
REASONING_TOKENS = (
    2000  # token limit of reasoning models, which includes their reasoning
)
EFFORT = "reasoning_effort"
_TOP_LOGPROBS = 20
_LIMITS = ("max_tokens", "max_completion_tokens")
_OURS = {"model", "messages", "stream", "n"}
_NAMES_A_KEY = re.compile(
    (
        r"(?:(?:api.?key|authorization|password|secret|extra.headers|credential)[^\"]*"
        r"|\"sig(?:nature)?)\":"
    ),
    re.I,
)
_OF_VERSION = re.compile(
    r"(?:[-_.:@](?:v?\d[\d.-]*|latest|preview|exp|gguf|i?q\d\w*|[bf]p?f?\d+))*"
)
LONGEST_BACKOFF = 30.0  # seconds between two attempts at one row
_UNCLEAR_ATTEMPTS = 3
ATTEMPT_SECONDS = 60.0
_BLIP_SECONDS = 20.0  # since its last reply, a service may fail any number of times
_MOST_REFUSALS = 12  # consecutive 429s, with doubling pauses, that stop the run
_MOST_NOTICES = 50  # limit for services that name another model with every reply


def completion_limit(parameters: Fields) -> int | None:
    """The largest number of tokens of one reply; None if no parameter limits it."""
    limits = [parse_uint(parameters.get(name)) for name in _LIMITS]
    return max((limit for limit in limits if limit), default=None)


def check_parameters(params: Fields, ours: Collection[str]) -> None:
    """`FwcError` for a parameter in `ours`, or one that may hold an API key."""
    for parameter, value in params.items():
        text = json.dumps({parameter: value}, default=str)
        if _NAMES_A_KEY.search(text) or LIKE_A_KEY.search(text):
            if LIKE_A_KEY.search(parameter):
                name = ""
            else:
                name = f" {replace_invisible(parameter)[:40]!r}"
            raise FwcError(
                f"parameter{name} may hold a key, which a run's files would show: put the key into "
                f"an "
                "environment variable and name that with --api-key-env"
            )
        if parameter in ours:
            raise FwcError(
                f"parameter {parameter!r} cannot be set here: leave out --param {parameter}"
            )


def request_parameters(name: str, client: Client, words: Sequence[str] = ()) -> Json:
    """The parameters of every request: defaults by the model's family, and `params`.

    `words` are the two answers that a JSON schema allows; without them, replies are free.
    """
    params = client.params
    logprobs = client.logprobs
    check_parameters(params, _OURS)
    family = family_of(name)
    off = logprobs and family.reasons and family.effort_none and EFFORT not in params
    reasons = family.reasons and params.get(EFFORT) != "none" and not off
    sent: Json = {} if reasons and family.openai else {"temperature": 0}
    if off:
        sent[EFFORT] = "none"
    if not any(limit in params for limit in _LIMITS):
        if words:
            usual = JSON_TOKENS
        else:
            usual = ANSWER_TOKENS
        limit = client.max_tokens or (REASONING_TOKENS if reasons else usual)
        sent[_LIMITS[family.reasons and family.openai]] = limit
    if words:
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": list(words)}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        form = {"name": FORM, "strict": True, "schema": schema}
        sent[RESPONSE_FORMAT] = {"type": "json_schema", "json_schema": form}
    if logprobs:
        sent |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
    return sent | dict(params)


def _same_model(served: str, wanted: str) -> bool:
    """Whether two names differ in nothing but a publisher, a version or a form of the weights."""
    names = [
        name.rpartition("/")[2].lower().removesuffix("-latest")
        for name in (served, wanted)
    ]
    shorter, longer = sorted(names, key=len)
    before, found, after = longer.partition(shorter)
    return bool(found) and not before and bool(_OF_VERSION.fullmatch(after))


class Service:
    """Base class of models of services: name, notices, failure limit."""

    where, who = "", "the service"  # names of the service in messages
    where_to_look = "check its name"  # advice after "does not know the model"
    key_hint = "check the key, or name its variable with --api-key-env"
    address: Any = None  # the service's, if it is known
    parameters: Fields  # sent with the messages; before any adaptation

    def __init__(self, name: str, notice: Say | None, breaker: int) -> None:
        if not name.strip():
            raise FwcError("the model's name is empty: name one with --model")
        self.name, self._notice, self._breaker = name, notice, breaker
        self._failed_in_a_row = 0
        self.notices: list[str] = []

    @property
    def completion_limit(self) -> int | None:
        """The largest number of tokens of one reply; None if it is unlimited."""
        return completion_limit(self.parameters)

    def explain(self, failure: AttemptError) -> str:
        """One line on a failure that stops the run: place, fault, remedy, quotation."""
        if failure.parameter:
            why = f"refuses the parameter {failure.parameter!r} for {self.name}"
            remedy = (
                "change or drop it (--param, --logprobs, --max-tokens, --answer-format)"
            )
        elif failure.status is not None and 300 <= failure.status < 400:
            why = "redirects, which is not followed"
            remedy = "give the address that it names"
        elif failure.status == 404 or failure.about_model:
            why = f"does not know the model {self.name!r}"
            remedy = self.where_to_look
        elif failure.code in QUOTA_CODES or failure.status == 402:
            why = "says that the quota is used up"
            remedy = "check the account's billing"
        else:
            why = "rejects the key"
            remedy = self.key_hint
        return f"{self.where} {why} ({failure}): {remedy}"

    def _tell(self, notice: str) -> None:
        """Record and print a notice, unless it was given before."""
        notice = redact(replace_invisible(notice))
        if notice not in self.notices and len(self.notices) < _MOST_NOTICES:
            self.notices.append(notice)
            if self._notice is not None:
                with suppress(
                    OSError, ValueError
                ):  # a closed terminal must not lose a paid reply
                    self._notice(notice)

    def _count_failure(self, failure: object, tolerant: bool = False) -> None:
        """Count a failure; `ProviderError` after too many, unless `tolerant`."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self._breaker and not tolerant:
            raise ProviderError(
                f"{self.where} failed {self._failed_in_a_row} times in a row (last: {failure}): "
                f"the run is "
                "stopped; the replies are kept, and the same command continues the run"
            )


def _without_custom_headers() -> Json:
    """Headers that make the SDK omit those of OPENAI_CUSTOM_HEADERS."""
    import openai

    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return {
        line.partition(":")[0].strip(): openai.Omit() for line in lines if ":" in line
    }


def read_key(variable: str, model: str) -> str:
    """The key in an environment variable; `FwcError` if it is missing or malformed."""
    hide_variable(variable)
    # A user may pass the key instead of a variable's name: the message repeats only a plausible
    # name.
    is_name = variable in os.environ or re.fullmatch("[A-Z0-9_]+_(KEY|TOKEN)", variable)
    source = f"the environment variable {variable}" if is_name else "that variable"
    key = os.environ.get(variable, "").strip()
    if not key:
        hint = "" if is_name else " (--api-key-env takes a variable's name, not a key)"
        raise FwcError(
            f"no key for {model}: set {source}, name another with --api-key-env{hint}, "
            "or use --model baseline, which needs none"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FwcError(
            f"the key in {source} has characters that no key has: set it again"
        )
    return key


def check_address(url: str) -> None:
    """`FwcError` for an address that is not http(s), or has a password or query."""
    if re.search("[@?#]", url) or LIKE_A_KEY.search(
        url
    ):  # run.json and errors would show a secret
        raise FwcError(
            "the base URL holds a user, a password, a query or a key: give the address alone, and "
            "a key by "
            "--api-key-env"
        )
    safe = replace_invisible(url)[:200]
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise FwcError(
            f"base URL {safe!r} is not an http(s) address, for example http://127.0.0.1:8000/v1"
        )


class ChatModel(Service):
    """A model of an OpenAI-compatible service, by `client` or its `options`.

    The service is at `base_url`; without it, at OPENAI_BASE_URL, with a notice; else it is OpenAI.
    To a `base_url`, a key is sent only if `api_key_env` is given. Keys are read at the first
    request, so a run whose questions are all answered needs no key.

    name     the model's name, sent unchanged
    notice   called once for each notice (an adapted parameter, an unexpected model)
    timeout  seconds for one attempt (default 60; for a reasoning model, the row's deadline)
    backoff  seconds before the first retry; later waits double, with jitter
    breaker  consecutive failed attempts, over all rows, that stop the run (default: the larger of
             30 and 4 times `concurrency`); within 20 s of a success, failures do not stop the run
    words    the two answers that a JSON schema allows; without them, replies are free
    """

    api = "chat"
    _key_variable = "OPENAI_API_KEY"
    _url_variable = "OPENAI_BASE_URL"
    # of the model's name, not sent; a deployment with a prefix may answer as any model
    _prefix = ""
    _path = "/chat/completions"

    def __init__(
        self,
        name: str,
        client: Client | None = None,
        notice: Say | None = None,
        *,
        timeout: float | None = None,
        backoff: float = 0.5,
        breaker: int | None = None,
        words: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self._options = client = client or Client(**options)
        self._served_name = name.removeprefix(self._prefix)
        self.parameters = self._request_parameters(words)
        # after adaptation; never part of a request's identity
        self._sent = dict(self.parameters)
        super().__init__(name, notice, breaker or max(30, 4 * client.concurrency))
        self._deadline = client.deadline
        self._backoff = backoff
        self._pace = Pace(client.rpm, first_pause=2.0 * backoff)
        self._last_success = -math.inf
        named_url = os.environ.get(self._url_variable, "").strip().rstrip("/") or None
        self._base_url = client.base_url or named_url
        self._url_is_named = client.base_url is None and named_url is not None
        if self._base_url is not None:
            check_address(self._base_url)
        self.address = self._base_url or OPENAI_URL
        self.where = f"the service at {self._base_url}" if self._base_url else "OpenAI"
        self.simulated = is_simulation(name)  # or set by a reply
        # A reasoning model may need long before it answers.
        family = family_of(self._served_name)
        self._reasons = self.api == "chat" and family.reasons
        self._timeout = timeout or (
            client.deadline if self._reasons else ATTEMPT_SECONDS
        )
        self._adapted: set[str] = set()
        self._sdk: openai.AsyncOpenAI | None = None
        self._tell_first()

    def _tell_first(self) -> None:
        """Give the first notices: address from the environment, reasoning."""
        if self._url_is_named:
            self._tell(
                f"{self.name} is asked at {self._base_url}, which {self._url_variable} names"
            )
        effort = self.parameters.get(EFFORT)
        if self._reasons and "temperature" not in self.parameters:
            self._tell(
                f"{self.name} is a reasoning model, by its name: no temperature is sent, so "
                f"replies may vary "
                "(--param reasoning_effort=none turns reasoning off where the model allows it)"
            )
        if self._reasons and effort == "none" and EFFORT not in self._options.params:
            self._tell(
                f"{self.name} gives log-probabilities only without reasoning: "
                f"reasoning_effort=none is "
                "sent (to send another value: --param reasoning_effort=…)"
            )
        if self._base_url:
            address = self._base_url.rstrip("/")
            self.where_to_look = (
                f"{address}/models lists the models, if the base URL is right"
            )
            return
        self.where_to_look = (
            f"it may be retired, see {DEPRECATIONS}, or your account has no access"
        )

    def _request_parameters(self, words: Sequence[str]) -> Fields:
        """The parameters of every request, which are part of its identity."""
        return request_parameters(self._served_name, self._options, words)

    def require_key(self) -> None:
        """`FwcError` if the key is missing, or a client cannot be created."""
        self.sdk()

    async def aclose(self) -> None:
        """Close all connections; the next question opens new ones."""
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            await sdk.close()

    def pause_left(self) -> float:
        """Seconds until the service may be asked again, after status 429."""
        return self._pace.pause_left

    async def ask(self, messages: Messages, attempts: Attempts = Attempts()) -> Reply:  # noqa: B008
        """Ask, as often as `attempts` allows, until a reply, a refusal, or the deadline."""
        self.require_key()  # imports before the row's time begins
        await self._pace.turn(self._deadline)
        began = time.monotonic()
        number = 0
        broke_off = False
        while True:
            number += 1
            sent_at = time.monotonic()
            try:
                reply = await self._attempt(messages, number, began)
            except AttemptError as failure:
                attempts.lost(failure.billed)
                if failure.filtered:
                    seconds = time.monotonic() - began
                    return Reply(
                        "", finish_reason=FILTERED, attempts=number, latency=seconds
                    )
                wait = self.after_failure(failure, number, sent_at)
                affordable = True
                if wait is not None and wait < self._left(began):
                    await asyncio.sleep(wait)
                    affordable = await attempts.again()
                    if affordable:
                        await self._pace.turn(self._left(began))
                        if self._left(began) > 0.0:
                            continue
                        attempts.lost(billed=False)
                why = f"the service refuses this row ({failure})"
                if not affordable:
                    why = (
                        f"no money is left for another attempt ({number} attempts; "
                        f"last: {failure})"
                    )
                elif failure.scope is FailureScope.ATTEMPT:
                    waited = (
                        f"{self._deadline:g} s ({number} attempts; last: {failure})"
                    )
                    why = f"no reply within the deadline of {waited}"
                return Reply(
                    text=None,
                    error=why,
                    attempts=number,
                    latency=time.monotonic() - began,
                )
            self._failed_in_a_row, self._last_success = 0, time.monotonic()
            self._pace.succeeded(sent_at)
            if (
                reply.ending == "unfinished"
                and not broke_off
                and self._left(began) > 0.0
            ):
                broke_off = True
                attempts.lost(billed=True)
                if await attempts.again():
                    continue
            return reply

    ask_within = ask

    def after_failure(
        self, failure: AttemptError, attempts: int, sent_at: float
    ) -> float | None:
        """Seconds to the next attempt; None gives up the row, `ProviderError` the run."""
        if failure.scope is FailureScope.RUN:
            raise ProviderError(self.explain(failure))
        if failure.scope is FailureScope.ROW:
            return None
        never = self._last_success == -math.inf
        if never and not failure.sent and attempts > 1 and is_local(self.address):
            raise ProviderError(
                f"nothing listens at {self.address} ({failure}): is the server running? Start it, "
                f"or name "
                "its address with --base-url"
            )
        if (
            failure.status == 429 and failure.scope is FailureScope.ATTEMPT
        ):  # all rows must wait
            self._pace.refused(sent_at, failure.retry_after)
            if self._pace.refusals >= _MOST_REFUSALS:
                raise ProviderError(
                    f"{self.where} refused {self._pace.refusals} times in a row (too many "
                    f"requests), "
                    f"despite pauses (last: {failure}): try later or set --rpm; the replies are "
                    f"kept"
                )
            return self._pace.pause_left
        self._count_failure(
            failure, tolerant=time.monotonic() - self._last_success <= _BLIP_SECONDS
        )
        if failure.scope is FailureScope.UNCLEAR and attempts >= _UNCLEAR_ATTEMPTS:
            return None
        if failure.retry_after is not None:
            return failure.retry_after
        return min(self._backoff * 2.0 ** (attempts - 1), LONGEST_BACKOFF) * (
            0.5 + random.random()
        )

    def _left(self, began: float) -> float:
        return began + self._deadline - time.monotonic()

    def request_body(self, messages: Messages) -> Json:
        """The request's body for `messages`, without refused parameters."""
        return {"model": self._served_name, "messages": messages, **self._sent}

    def read(self, body: Any, messages: Messages) -> Reply:
        """The reply in a response to `messages`; `AttemptError` if it is missing."""
        return read_reply(body)

    def tell_of(self, reply: Reply) -> None:
        """Give a notice of a reply by another model."""
        # A deployment, whose name has a prefix, may serve any model.
        if (
            reply.model
            and not self._prefix
            and not _same_model(reply.model, self._served_name)
        ):
            self._tell(f"{self.where} answers as {reply.model!r}, not as {self.name!r}")
        if reply.text and asks_json(self._sent) and json_answer(reply.text) is None:
            self._tell(f"{self.where} does not keep to --answer-format json")

    async def _attempt(self, messages: Messages, attempts: int, began: float) -> Reply:
        """Send the conversation once, or again after an adaptation."""
        sent = self._sent
        sent_at = time.monotonic()
        try:
            response = await self._post(self.request_body(messages), began)
            text = response.content.decode("utf-8", "replace")
            body = self.read_body(text)
            if isinstance(body, str) and text.lstrip()[:1] in {"{", "["}:
                raise AttemptError(
                    FailureScope.ATTEMPT,
                    "the reply is broken JSON",
                    response.status_code,
                )
            reply = self.read(body, messages)
        except AttemptError as failure:
            if self._adapt(failure, messages, sent):
                return await self._attempt(messages, attempts + 1, began)
            raise
        self.tell_of(reply)
        self.simulated |= is_simulation(reply.model, reply.fingerprint)
        return replace(reply, attempts=attempts, latency=time.monotonic() - sent_at)

    async def _post(self, body: Json, began: float) -> "httpx2.Response":
        """Send one HTTP request through the SDK; every failure becomes an `AttemptError`."""
        import httpx2

        # `create` would validate every message (5.5 ms for 34), and accept a page of HTML as a
        # completion.
        limit = min(self._timeout, max(self._left(began), 0.001))
        options: Any = {"security": {"bearer_auth": True}}
        try:
            async with asyncio.timeout(limit):
                return await self.sdk().post(
                    self._path, body=body, cast_to=httpx2.Response, options=options
                )
        except TimeoutError:
            raise AttemptError(
                FailureScope.ATTEMPT, f"no response within {limit:.3g} s"
            ) from None
        except Exception as error:
            raise self.failure_of(error) from None

    def failure_of(self, error: Exception) -> AttemptError:
        """Classify an exception of the SDK as an `AttemptError`, or raise it again."""
        import httpx2
        import openai

        from fwc_llm.models.openai.transport import TooLargeError

        if isinstance(error, AttemptError):
            return error
        for cause in (error, error.__cause__):
            if isinstance(cause, FwcError | AssertionError | MemoryError):
                raise cause
            if isinstance(cause, TooLargeError):
                return AttemptError(FailureScope.UNCLEAR, str(cause))
        if isinstance(error, openai.APIStatusError):
            body = self.read_body(error.response.content.decode("utf-8", "replace"))
            return http_failure(error.status_code, body, error.response.headers)
        if isinstance(error, openai.APITimeoutError):
            return AttemptError(
                FailureScope.ATTEMPT, f"no response within {self._timeout:g} s"
            )
        failed = isinstance(error, openai.APIConnectionError)
        reason = "the connection failed" if failed else "the response is unreadable"
        sent = not isinstance(
            error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout
        )
        return AttemptError(
            FailureScope.ATTEMPT, f"{reason} ({self._cause(error)})", sent=sent
        )

    def _adapt(self, failure: AttemptError, messages: Messages, sent: Fields) -> bool:
        """Omit or rename a default parameter that is refused; return whether to send again."""
        name = failure.parameter
        if name in self._options.params or name not in sent:
            return False
        if (
            self._sent.get(name) != sent[name]
        ):  # a concurrent request has adapted it already
            return True
        if name in self._adapted or name not in (*_LIMITS, "temperature"):
            return False
        self._adapted.add(name)
        self._sent = {key: value for key, value in sent.items() if key != name}
        note = "it accepts no temperature: sent without, so replies may vary"
        if name in _LIMITS:
            other = _LIMITS[1 - _LIMITS.index(name)]
            self._adapted.add(other)  # never rename it back
            self._sent[other] = sent[name]
            note = f"it takes {other} in place of {name}: sent so"
        self._tell(f"{self.name}: {note}")
        return True

    @property
    def _key_name(self) -> str | None:
        """The environment variable of the key; None if no key is sent."""
        by_variable = self._url_is_named and self._key_variable in os.environ
        if self._base_url is None or by_variable:
            default = self._key_variable
        else:
            default = None
        return self._options.api_key_env or default

    @property
    def key_hint(self) -> str:  # type: ignore[override]
        """Advice for a rejected key."""
        sent = f"check the key in {self._key_name}"
        return (
            sent
            if self._key_name
            else "no key was sent; name its variable with --api-key-env"
        )

    def read_body(self, text: str) -> Any:
        """Parse a response as sanitized JSON, or as sanitized text."""
        try:
            return sanitize_json(parse_json(text))
        except ValueError:
            return sanitize_json(text)

    def _cause(self, error: BaseException) -> str:
        return described(error.__cause__ or error)

    def sdk(self) -> "openai.AsyncOpenAI":
        """The SDK's client, created on first use; `FwcError` if that is impossible."""
        if self._sdk is None:
            if self._key_name is None:
                key = "no-key"
            else:
                key = read_key(self._key_name, self.name)
            try:
                import httpx2

                from fwc_llm.models.openai.transport import BoundedClient

                alive = max(self._options.concurrency, 100)
                limits = httpx2.Limits(
                    max_connections=None, max_keepalive_connections=alive
                )
                local = is_local(self.address)
                http_client = BoundedClient(
                    local, self._tell_of_rest, limits=limits, timeout=self._timeout
                )
                self._sdk = self._make_sdk(
                    key, max_retries=0, timeout=self._timeout, http_client=http_client
                )
            except (
                Exception
            ) as error:  # ImportError, ValueError, FileNotFoundError, InvalidURL, …
                raise FwcError(
                    f"no connection to {self.where} can be set up ({self._cause(error)}): check "
                    f"the base "
                    "URL and the variables for proxies (HTTPS_PROXY, ALL_PROXY) and certificates "
                    "(SSL_CERT_FILE)"
                ) from None
            # The environment may name the user's account at OpenAI: no other service gets it.
            if self._base_url is not None:
                self._sdk.organization = self._sdk.project = None
        return self._sdk

    def _tell_of_rest(self) -> None:
        self._tell(
            f"{self.where} sends more than one response to a request: only the first is read; if a "
            f"proxy "
            "stands in between, look at it"
        )

    def _make_sdk(self, key: str, **options: Any) -> "openai.AsyncOpenAI":
        import openai

        # Custom headers of the environment go only to the environment's address, or to OpenAI.
        theirs = self._base_url is None or self._url_is_named
        headers = {} if theirs else _without_custom_headers()
        headers["Authorization"] = f"Bearer {key}"
        return openai.AsyncOpenAI(
            api_key=key, base_url=self.address, default_headers=headers, **options
        )


# The domains of Azure's resources, including those of sovereign clouds.
_AZURE = re.compile(
    (
        r"https://[\w-]+\.(?:openai|cognitiveservices|services\.ai)\.azure\.(?:com|us"
        r"|cn)(?::443)?(?:/|$)"
    ),
    re.I,
)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """(scheme, host, port) of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


class AzureModel(ChatModel):
    """A deployment on Azure OpenAI, written `azure:DEPLOYMENT`.

    The key in AZURE_OPENAI_API_KEY is sent to the address in AZURE_OPENAI_ENDPOINT and to Azure's
    own domains; any other address gets a key only by `api_key_env`.
    """

    _key_variable = "AZURE_OPENAI_API_KEY"
    _url_variable = "AZURE_OPENAI_ENDPOINT"
    _prefix = "azure:"

    def __init__(self, name: str, *arguments: Any, **options: Any) -> None:
        super().__init__(name, *arguments, **options)
        if self._base_url is None:
            raise FwcError(
                f"no endpoint for {name}: set AZURE_OPENAI_ENDPOINT to the resource's address "
                "(https://NAME.openai.azure.com), or give it as --base-url"
            )
        self.where_to_look = (
            f"see the deployments of the resource at {self.address}, "
            "not the models' names"
        )

    @property
    def _key_name(self) -> str | None:
        address = os.environ.get(self._url_variable, "").strip()
        theirs = bool(_AZURE.match(self.address)) or _origin(self.address) == _origin(
            address
        )
        return self._options.api_key_env or (self._key_variable if theirs else None)

    def _make_sdk(self, key: str, **options: Any) -> "openai.AsyncOpenAI":
        import openai

        version = os.environ.get("OPENAI_API_VERSION") or AZURE_VERSION
        return openai.AsyncAzureOpenAI(
            azure_endpoint=self.address,
            api_key=key,
            api_version=version,
            default_headers=_without_custom_headers(),
            **options,
        )
