"""What went wrong with one request, and how far it reaches: the run, the row, or only this attempt."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from time import time
from typing import Any

from fwc_llm.untrusted import header_number, shortened, storable, whole

_CONTEXT_CODES = {"context_length_exceeded", "string_above_max_length"}
_FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "responsibleaipolicyviolation",
}
_KEY_CODES = {"invalid_api_key", "invalid_issuer", "account_deactivated", "invalid_organization"}
_QUOTA_CODES = {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "access_terminated"}
_MODEL_CODES = {"model_not_found", "deploymentnotfound", "model_not_available"}
_PARAMETER_CODES = {"unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_value"}
_CONTEXT_WORDS = re.compile(
    r"maximum context length|context window|prompt is too long|exceeds? the .*context", re.I
)
_KEY_WORDS = re.compile(
    r"(invalid|incorrect|missing|no) (api[ _-]?key|auth(entication)?)\b|authentication error", re.I
)
_PARAMETER_WORDS = re.compile(
    r"(unsupported|unknown) (parameter|value)|unrecognized request argument|does not support .*parameter",
    re.I,
)
_QUOTED = re.compile(r"['\"`](\w+)['\"`]")
_LONGEST_REASON = 300
_LONGEST_WORD = 100
_MOST_LOOKED_AT = 4096  # characters of an error, in patterns that a long one could keep busy
_LONGEST_WAIT = 120.0  # seconds; a service that asks for more is asked again sooner
_TAG = re.compile(r"<[^>]+>")


class Reach(Enum):
    """How far a failure reaches."""

    RUN = "run"  # every other request would fail alike: stop
    ROW = "row"  # this request can never succeed, others can
    UNCLEAR = "unclear"  # a refusal that we do not know: tried again, but not for long
    ATTEMPT = "attempt"  # try again


@dataclass(eq=False)
class AttemptError(Exception):
    """Why one attempt failed. `reason` is one line without secrets."""

    reach: Reach
    reason: str
    status: int | None = None
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None
    rate_limited: bool = False

    def __str__(self) -> str:
        return self.reason


def http_failure(status: int, body: Any, headers: Mapping[str, str]) -> AttemptError:
    """The failure behind a response with a status of 400 or above; `body` is JSON, text or None."""
    error = _error_of(body)
    message, code, kind = _message(error, body), _word(error, "code").lower(), _word(error, "type").lower()
    reason = f"{status}: {message}" if message else f"{status} without an explanation"
    reach, parameter = Reach.ATTEMPT, ""
    if {code, kind} & (_QUOTA_CODES | _KEY_CODES | _MODEL_CODES) or status in {401, 402, 403, 404}:
        reach = Reach.RUN
    elif 400 <= status < 500 and status not in {408, 409, 425, 429}:
        reach, parameter = _refusal(status, code, message, error)
    return AttemptError(
        reach,
        reason,
        status,
        code or kind,
        parameter,
        retry_after(headers),
        rate_limited=status == 429 and reach is Reach.ATTEMPT,
    )


def _refusal(status: int, code: str, message: str, error: Mapping[str, Any]) -> tuple[Reach, str]:
    """The reach of a request that the service refused as such, and the parameter that it names."""
    parameter, inner = _word(error, "param"), error.get("innererror")
    inner_code = _word(inner, "code").lower() if isinstance(inner, Mapping) else ""
    if code in _CONTEXT_CODES or _CONTEXT_WORDS.search(message) or status == 413:
        return Reach.ROW, parameter
    if {code, inner_code} & _FILTER_CODES:
        return Reach.ROW, parameter
    if _KEY_WORDS.search(message):
        return Reach.RUN, parameter
    if parameter.startswith("messages"):
        return Reach.UNCLEAR, parameter
    if _PARAMETER_WORDS.search(message) or code in _PARAMETER_CODES:
        named = _QUOTED.search(message)
        return Reach.RUN, parameter or (named.group(1) if named else "")
    return Reach.UNCLEAR, parameter


def body_failure(body: Any) -> AttemptError:
    """The failure behind a response with status 200 that is not a completion."""
    error = _error_of(body)
    if isinstance(body, Mapping) and body.get("error"):
        status = whole(error.get("code"), 600) or whole(error.get("status"), 600) or 0
        message, code = _message(error, body), _word(error, "code").lower()
        if status >= 400:
            return http_failure(status, body, {})
        if code in _QUOTA_CODES | _KEY_CODES | _MODEL_CODES:
            return AttemptError(Reach.RUN, message, 200, code)
        return AttemptError(Reach.ATTEMPT, f"an error with status 200: {message}", 200)
    if isinstance(body, str):
        what = "HTML" if body.lstrip()[:1] == "<" else "text"
        return AttemptError(Reach.ATTEMPT, f"{what} instead of JSON, with status 200: {one_line(body)}", 200)
    return AttemptError(Reach.ATTEMPT, "a response without choices", 200)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the service asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date)."""
    if (milliseconds := header_number(headers, "retry-after-ms", 1000.0 * _LONGEST_WAIT)) is not None:
        return milliseconds / 1000.0
    if (seconds := header_number(headers, "retry-after", _LONGEST_WAIT)) is not None:
        return seconds
    try:
        seconds = parsedate_to_datetime(headers.get("retry-after", "")[:100]).timestamp() - time()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return min(max(seconds, 0.0), _LONGEST_WAIT)


def _error_of(body: Any) -> Mapping[str, Any]:
    """The error object in whatever dialect: {"error": {…} or text}, {"detail": …}, {"message": …}."""
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error", body)
    return error if isinstance(error, Mapping) else {"message": error}


def _word(error: Mapping[str, Any], name: str) -> str:
    """A code or name in an error, which is short."""
    return one_line(str(error.get(name) or ""))[:_LONGEST_WORD]


def _message(error: Mapping[str, Any], body: Any) -> str:
    message = error.get("message") or error.get("detail") or (body if isinstance(body, str) else "")
    return one_line(message if isinstance(message, str) else str(message))


def one_line(text: str) -> str:
    """What a service says, on one line of bounded length."""
    line = storable(" ".join(_TAG.sub(" ", shortened(text, _MOST_LOOKED_AT)).split()))
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
