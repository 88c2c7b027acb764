"""Classifies failed requests (stop run, give up row, retry), and limits the rate."""

import asyncio
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from fwc_llm.sanitize import Fields, as_single_line, mapping_of, parse_uint

QUOTA_CODES = {
    "insufficient_quota",
    "billing_not_active",
    "billing_hard_limit_reached",
    "access_terminated",
}
_MODEL_CODES = {"model_not_found", "deploymentnotfound", "model_not_available"}
_KEY_CODES = {
    "invalid_api_key",
    "invalid_issuer",
    "account_deactivated",
    "invalid_organization",
}
_ROW_CODES = {"context_length_exceeded", "string_above_max_length", "invalid_prompt"}
_FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "moderation_blocked",
}
# A gateway passes on a filter's refusal as text: LiteLLM's code is then "400" and its type None.
_FILTER_WORDS = re.compile(
    r"content ?policy ?violation|content management policy|content[ _-]?filter(?:ed|ing "
    r"polic)|responsibleai"
    r"|content exists risk|(?:prompt|input|request|content)\w* (?:was|were|has been|is) "
    r"(?:flagged|filtered)",
    re.IGNORECASE,
)
_PARAMETER_CODES = {
    "unsupported_parameter",
    "unsupported_value",
    "unknown_parameter",
    "invalid_value",
}
_ROW_WORDS = re.compile(
    r"maximum context length|context (window|size)|prompt is too long|exceeds? the .*context",
    re.I,
)
_KEY_WORDS = re.compile(
    r"(invalid|incorrect|missing|no) (api[ _-]?key|auth(entication)?)\b|authentication error",
    re.I,
)
_UNKNOWN_ARGUMENT = re.compile(r"unrecognized request arguments? supplied: (\w+)", re.I)
_QUOTED = re.compile(r"['\"`](\w+)['\"`]")
_LONGEST_WORD = 100
_LONGEST_WAIT = 120.0  # seconds; caps what a service asks for
_LONGEST_PAUSE = 60.0  # seconds; caps a pause whose length the service does not give


class FailureScope(Enum):
    """What a failure means for the run."""

    RUN = "run"  # every other request would fail in the same way: stop the run
    ROW = "row"  # this request can never succeed, others can: give up the row
    UNCLEAR = "unclear"  # an unknown refusal: retry a few times
    ATTEMPT = "attempt"  # temporary: retry until the deadline


@dataclass(eq=False)
class AttemptError(Exception):
    """A failed attempt; `reason` is one line without secrets."""

    scope: FailureScope
    reason: str
    status: int | None = None
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None
    filtered: bool = False  # a content filter refuses the prompt
    sent: bool = True  # False if no connection was established

    def __str__(self) -> str:
        return self.reason

    @property
    def about_model(self) -> bool:
        """Whether the service reports the model as unknown or not available."""
        return self.parameter == "model" or self.code in _MODEL_CODES

    @property
    def billed(self) -> bool:
        """Whether the service may charge for the attempt: it did not reject it."""
        if self.status is None:
            return self.sent
        return self.filtered or self.status == 408 or not 300 <= self.status < 500


def http_failure(status: int, body: Any, headers: Mapping[str, str]) -> AttemptError:
    """Classify a response with a status of at least 300; `body` is JSON, text or None."""
    error, message = _error(body)
    code = _word(error, "code").lower()
    kind = _word(error, "type").lower()
    codes = {code, kind, _word(mapping_of(error.get("innererror")), "code").lower()}
    flagged = "flagged_input" in mapping_of(
        error.get("metadata")
    )  # OpenRouter, with status 403
    filtered = status not in {401, 402, 404, 429} and bool(
        flagged or codes & _FILTER_CODES or _FILTER_WORDS.search(message)
    )
    parameter = ""
    scope = FailureScope.ATTEMPT
    if 300 <= status < 400:
        scope = FailureScope.RUN
        message = (
            f"a redirect to {as_single_line(headers.get('location', '?'))}; give that address as "
            f"--base-url"
        )
    elif filtered:
        scope = FailureScope.ROW
    elif codes & (QUOTA_CODES | _KEY_CODES | _MODEL_CODES) or status in {
        401,
        402,
        403,
        404,
    }:
        scope = FailureScope.RUN
    elif 400 <= status < 500 and status not in {408, 409, 425, 429}:
        unknown = _UNKNOWN_ARGUMENT.search(message)
        parameter = _word(error, "param") or (unknown[1] if unknown else "")
        if codes & _ROW_CODES or _ROW_WORDS.search(message) or status == 413:
            scope = FailureScope.ROW
        else:
            ours = (unknown or code in _PARAMETER_CODES) and not parameter.startswith(
                "messages"
            )
            if ours and not parameter and (quoted := _QUOTED.search(message)):
                parameter = quoted[1]
            for_all = ours or parameter == "model" or _KEY_WORDS.search(message)
            scope = FailureScope.RUN if for_all else FailureScope.UNCLEAR
    reason = f"{status}: {message}" if message else f"{status} without an explanation"
    wait = retry_after(headers)
    return AttemptError(scope, reason, status, code or kind, parameter, wait, filtered)


def body_failure(body: Any) -> AttemptError:
    """Classify a response with status 200 that is not a completion."""
    if mapping_of(body).get("error"):
        error, message = _error(body)
        status = (
            parse_uint(error.get("code"), 600)
            or parse_uint(error.get("status"), 600)
            or 0
        )
        if status >= 400:
            return http_failure(status, body, {})
        code = _word(error, "code").lower()
        for_all = code in QUOTA_CODES | _KEY_CODES | _MODEL_CODES
        scope = FailureScope.RUN if for_all else FailureScope.ATTEMPT
        return AttemptError(scope, f"an error with status 200: {message}", 200, code)
    if isinstance(body, str):
        kind = "HTML" if body.lstrip()[:1] == "<" else "text"
        return AttemptError(
            FailureScope.ATTEMPT,
            f"{kind} instead of JSON, with status 200: {as_single_line(body)}",
            200,
        )
    return AttemptError(FailureScope.ATTEMPT, "a response without choices", 200)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The wait in seconds by `retry-after-ms` or `Retry-After`, or None."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            if math.isfinite(seconds := unit * float(headers.get(name, ""))):
                return min(max(seconds, 0.0), _LONGEST_WAIT)
    try:
        seconds = (
            parsedate_to_datetime(headers.get("retry-after", "")[:100]).timestamp()
            - time.time()
        )
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return min(max(seconds, 0.0), _LONGEST_WAIT)


def _error(body: Any) -> tuple[Fields, str]:
    """The error object and its message, from any of the usual response formats."""
    error = mapping_of(body).get("error", mapping_of(body))
    if not isinstance(error, Mapping):
        error = {"message": error}
    message = (
        error.get("message")
        or error.get("detail")
        or (body if isinstance(body, str) else "")
    )
    return error, as_single_line(str(message))


def _word(error: Fields, name: str) -> str:
    """A field of an error, such as its code, on one line of at most 100 characters."""
    return as_single_line(str(error.get(name) or ""))[:_LONGEST_WORD]


class Pace:
    """Rate limiter: a common pause after refusals, and spacing by `rpm`."""

    def __init__(
        self,
        rpm: float | None = None,
        first_pause: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._per_request = 60.0 / rpm if rpm else 0.0  # seconds
        self._first_pause, self._clock, self._sleep = first_pause, clock, sleep
        self._next = self._paused_until = 0.0
        self._pause_began = -math.inf
        self.refusals = 0  # without a success in between

    async def turn(self, patience: float = math.inf) -> None:
        """Wait for a request's turn; for the end of a pause, at most `patience` seconds."""
        latest = self._clock() + patience
        while (at := max(self._next, min(self._paused_until, latest))) > (
            now := self._clock()
        ):
            await self._sleep(at - now)
        self._next = now + self._per_request

    def refused(self, sent_at: float, retry_after: float | None) -> None:
        """Pause all requests after a 429; those sent before the pause count as one refusal."""
        now = self._clock()
        pause = retry_after
        if sent_at > self._pause_began:
            self.refusals += 1
            self._pause_began = now
            if pause is None:
                pause = min(
                    self._first_pause * 2.0 ** (self.refusals - 1), _LONGEST_PAUSE
                )
                pause *= 0.5 + 0.5 * random.random()
        self._paused_until = max(self._paused_until, now + (pause or 0.0))

    def succeeded(self, sent_at: float) -> None:
        """Reset `refusals` if the request was sent after the last pause began."""
        if sent_at > self._pause_began:
            self.refusals = 0

    @property
    def pause_left(self) -> float:
        """Seconds until the pause ends."""
        return max(self._paused_until - self._clock(), 0.0)
