"""Every kind of fault that a chat-completions service is tried with, by name.

`harmless` replies are replies all the same; an `attempt` fails and may be made again; a `row` is
refused for good; a `run` is rejected. `unclear` refusals are tried again, but not for long.
"""

import gzip
import json
from dataclasses import dataclass
from typing import Any, Literal

from tests.faults.loopback import HttpReply, completion, refusal

KEY = "sk-plant/ed+0123456789=abcDEFghij"
Kind = Literal["harmless", "attempt", "unclear", "row", "run"]
STALL = 30.0  # seconds, longer than any client here waits
ESCAPES = "\x1b[2J\x1b]52;c;ZXZpbA==\x07\x9b31m\u202eevil\u2066"


@dataclass(frozen=True)
class Raw(HttpReply):
    """Bytes on the wire, in the place of a response."""

    def encode(self) -> bytes:
        assert isinstance(self.body, bytes)
        return self.body


@dataclass(frozen=True)
class Fault:
    """What a service answers, and what that is to the client."""

    name: str
    kind: Kind
    reply: HttpReply

    def exit_codes(self, lasting: bool) -> set[int]:
        """How a run may end that meets it: with every request (`lasting`), or once."""
        if lasting:
            return {"harmless": {0}, "row": {4}, "run": {3}}.get(self.kind, {3, 4})
        return {"row": {4}, "run": {3}}.get(self.kind, {0})


def _with(**changes: Any) -> HttpReply:
    return HttpReply(completion("Yes", **changes))


def _choice(message: Any = None, **changes: Any) -> HttpReply:
    message = {"role": "assistant", "content": "Yes"} if message is None else message
    return _with(
        choices=[{"index": 0, "message": message, "finish_reason": "stop"} | changes]
    )


def _content(content: Any) -> HttpReply:
    return _choice({"role": "assistant", "content": content})


def _text(old: str, new: str, reply: HttpReply | None = None) -> HttpReply:
    """A completion in which a piece of its JSON is written otherwise."""
    text = json.dumps(completion("Yes") if reply is None else reply.body)
    assert old in text
    return HttpReply(
        text.replace(old, new).encode(), headers={"content-type": "application/json"}
    )


def _bytes(body: bytes, status: int = 200, **headers: str) -> HttpReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(body, status, {"content-type": "application/json"} | named)


def _headers(status: int = 200, **headers: str) -> HttpReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if status < 400:
        body = completion("Yes")
    else:
        body = {"error": {"message": "later", "code": "rate_limit"}}
    return HttpReply(body, status, named)


def _logprobs(*top: Any, token: Any = "Yes") -> HttpReply:
    return _choice(logprobs={"content": [{"token": token, "top_logprobs": list(top)}]})


_CHOICES: list[Any] = [
    None,
    [],
    {},
    "x",
    7,
    [None],
    [7],
    [{}],
    [{"message": None}],
    [{"message": []}],
]
_LONG = json.dumps(completion("Yes")).encode()
_ESCAPED = "".join(f"\\u{ord(character):04X}" for character in KEY)
_ECHOES = {"as it is": KEY, "upper case": KEY.upper()}
_HARMLESS: dict[str, HttpReply] = {
    # counts that are none
    **{
        f"prompt_tokens {number[:8]}": _text(
            '"prompt_tokens": 100', f'"prompt_tokens": {number}'
        )
        for number in ("Infinity", "NaN", "1e400", "9" * 5000, "-7", '"many"', "true")
    },
    "usage a list": _with(usage=[1, 2]),
    "usage null": _with(usage=None),
    # log-probabilities
    "logprob beyond floats": _text(
        "-0.125", "9" * 400, _logprobs({"token": "Yes", "logprob": -0.125})
    ),
    "logprob NaN": _text(
        "-0.125", "NaN", _logprobs({"token": "Yes", "logprob": -0.125})
    ),
    "logprob positive": _logprobs({"token": "Yes", "logprob": 1e308}),
    "logprob a text": _logprobs({"token": "Yes", "logprob": "-1"}),
    "token a list": _logprobs({"token": ["Yes"], "logprob": -1.0}, token=["Yes"]),
    "token of 100,000 marks": _logprobs({"token": "." * 100_000, "logprob": -1.0}),
    "10,000 top_logprobs": _logprobs(
        *({"token": f"t{i}", "logprob": -9.0} for i in range(10_000))
    ),
    "logprobs content a text": _choice(logprobs={"content": "x"}),
    # texts
    "a lone surrogate": _text('"content": "Yes"', '"content": "Yes \\ud800"'),
    "a reply of 2,000,000 characters": _content("Yes " * 500_000),
    "100,000 combining marks": _content("Yes e" + "\u0301\u0327" * 50_000),
    "terminal escapes": _content(f"Yes {ESCAPES}"),
    "a formula": _content('=HYPERLINK("http://evil";"x")'),
    "quotes, commas and line ends": _content('Yes",\r\n"no,\n\r,"'),
    "a zero byte": _content("Yes\0"),
    "an empty reply": _content(""),
    "spaces": _content("  \n\t "),
    "content null": _content(None),
    "content an object": _content({"text": "Yes"}),
    "content in parts": _content(
        [{"type": "text", "text": "Yes"}, None, 7, {"text": None}]
    ),
    "refusal true": _choice({"role": "assistant", "content": "Yes", "refusal": True}),
    "content_filter": _choice(finish_reason="content_filter"),
    "status 400, filtered": refusal(
        400, "Filtered.", innererror={"code": "ResponsibleAIPolicyViolation"}
    ),
    # the rest of a body
    "model with escapes": _with(model=f"gpt {ESCAPES}"),
    "model of 100,000 characters": _with(model="m" * 100_000),
    "nested 90 deep": _text('"model"', '"more": ' + "[" * 90 + "]" * 90 + ', "model"'),
    "3 MB of more": _with(more=["x" * 1000] * 3000),
    "100,000 keys": _with(more={f"k{i}": i for i in range(100_000)}),
    "a key twice": HttpReply(
        b'{"model": "m", "choices": 7, "choices": '
        + json.dumps(completion("Yes")["choices"]).encode()
        + b"}"
    ),
    "a byte order mark": _bytes(b"\xef\xbb\xbf" + _LONG),
    "a second choice": _with(choices=[*completion("Yes")["choices"], None, 7]),
    **{
        f"the key echoed, {name}": _content(f"Yes {echo}")
        for name, echo in _ECHOES.items()
    },
    "the key echoed, in a key": _with(**{KEY: KEY}),
    "the key echoed, in JSON escapes": _text('"model"', f'"k": "{_ESCAPED}", "model"'),
    # headers
    "Retry-After with a reply": _headers(retry_after="99999"),
    "a thousand cookies": _headers(
        set_cookie="; ".join(f"c{i}=x" for i in range(1000))
    ),
    "escapes in headers": _headers(x_request_id="\x9b31m evil", server="\x9b2J"),
    "a charset that is none": _bytes(
        _LONG, content_type="application/json; charset=undefined"
    ),
    "a charset of 16 bits": _bytes(
        _LONG, content_type="application/json; charset=utf-16"
    ),
    "no content-type": _bytes(_LONG, content_type=""),
    "packed": _bytes(gzip.compress(_LONG), content_encoding="gzip"),
}
_DEEP = b'{"error": ' * 100_000 + b"1" + b"}" * 100_000
_ATTEMPT: dict[str, HttpReply] = {
    "finish_reason of 100,000 characters": _choice(finish_reason="x" * 100_000),
    **{
        f"status {status}": refusal(status, "trouble")
        for status in (408, 409, 425, 500, 502, 503, 504, 529)
    },
    "status 500 without a body": HttpReply(b"", 500),
    "status 500 as HTML": HttpReply(f"<html>{KEY}{ESCAPES}</html>", 500),
    "status 500, nested 100,000 deep": _bytes(_DEEP, 500),
    "status 500, a lone surrogate": _bytes(b'{"error": {"message": "\\ud800"}}', 500),
    "status 500, 5 MB of text": HttpReply("<" * 5_000_000, 500),
    "status 500, message a list": HttpReply(
        {"error": {"message": [1, {"a": KEY}], "code": ["x"]}}, 500
    ),
    "status 503, the key in escapes": _bytes(
        f'{{"error": {{"message": "{_ESCAPED.lower()}"}}}}'.encode(), 503
    ),
    "status 429": _headers(429),
    **{
        f"status 429, Retry-After {value[:30]!r}": _headers(429, retry_after=value)
        for value in (
            "0",
            "-1",
            "nan",
            "inf",
            "1e400",
            "9" * 400,
            "soon",
            "",
            "Wed, 21 Oct 2015 07:28:00 GMT",
            f"Wed, 21 Oct {'9' * 20} 07:28:00 GMT",
            "Wed, 21 Oct 10000 07:28:00 GMT",
            "0" * 5000,
        )
    },
    "status 429, retry-after-ms NaN": _headers(429, retry_after_ms="nan"),
    "status 599": refusal(599, "trouble"),
    "a reset": HttpReply("", cut=0),
    "a reset in the body": HttpReply(completion("Yes"), cut=60),
    "a body shorter than it says": HttpReply(
        _LONG[:99], headers={"content-length": "9999"}, cut=99
    ),
    "a stall": HttpReply(completion("Yes"), delay=STALL),
    "half a JSON": _bytes(_LONG[: len(_LONG) // 2]),
    "bytes that are not UTF-8": _bytes(b"\xff\xfe" + _LONG),
    "an empty body": _bytes(b""),
    "HTML": HttpReply(
        f"<!doctype html><h1>Service &amp; maintenance {KEY} {ESCAPES}</h1>"
    ),
    "text": HttpReply("later"),
    "nested 100,000 deep": _bytes(b"[" * 100_000),
    "an object nested 100,000 deep": _bytes(_DEEP),
    **{
        f"the body {body!r}": _bytes(body.encode())
        for body in ("null", "true", "42", '"Yes"', "[]", "{}", "NaN")
    },
    **{f"choices {choices!r}": _with(choices=choices) for choices in _CHOICES},
    "error with 200": HttpReply(
        {"error": {"message": f"upstream {KEY}", "code": None}}
    ),
    "error with 200, a text": HttpReply({"error": KEY}),
    "error with 200, a list": HttpReply({"error": [KEY, ESCAPES]}),
    "error with 200, status of 400 digits": _bytes(
        b'{"error": {"message": "x", "code": ' + b"9" * 400 + b"}}"
    ),
    "error with 200, status 503": HttpReply({"error": {"message": "x", "status": 503}}),
    "broken gzip": _bytes(b"\x1f\x8b" + _LONG, content_encoding="gzip"),
    "no HTTP": Raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n", cut=0),
    "a status line that is none": Raw(
        b"HTTP/1.1 abc Wrong\r\ncontent-length: 0\r\n\r\n"
    ),
    "a header without a colon": Raw(
        b"HTTP/1.1 200 OK\r\nbroken header\r\ncontent-length: 0\r\n\r\n"
    ),
    "two lengths": Raw(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 4\r\n\r\n{}{}"
    ),
    "a length of 400 digits": Raw(
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 400 + b"\r\n\r\n{}", cut=999
    ),
    "a header of 1 MB": Raw(
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\ncontent-length: 0\r\n\r\n"
    ),
    "a chunk that is none": Raw(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    ),
}
_UNCLEAR: dict[str, HttpReply] = {
    **{
        f"status {code}": refusal(code, f"trouble {KEY} {ESCAPES}")
        for code in (400, 406, 418, 422, 451)
    },
    "status 400, code a number": HttpReply(
        {"error": {"message": "x", "code": 7, "param": {"a": 1}}}, 400
    ),
    "status 400, detail a list": HttpReply(
        {"detail": [{"loc": ["body"], "msg": "x"}]}, 422
    ),
    "17 MB": HttpReply(b" " * (17 << 20)),
    "64 MB, packed": _bytes(
        gzip.compress(b" " * (64 << 20), 1), content_encoding="gzip"
    ),
}
_ROW: dict[str, HttpReply] = {
    "context length": refusal(
        400, "This model's maximum context length is 8192.", "context_length_exceeded"
    ),
    "context length, in words": HttpReply(
        {"detail": f"the prompt is too long {ESCAPES}"}, 400
    ),
    "status 413": HttpReply("too large", 413),
}
_RUN: dict[str, HttpReply] = {
    "a redirect to another host": HttpReply(
        "", 307, {"location": "http://evil.example/v1/chat/completions"}
    ),
    "a redirect to what is not an address": HttpReply(
        "", 307, {"location": "http://[::1/"}
    ),
    "a redirect with the key": HttpReply(
        "", 307, {"location": f"http://evil.example/{KEY}"}
    ),
    "status 304": HttpReply("", 304),
    "status 401": refusal(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
    "status 401, the key in upper case": refusal(
        401, f"Incorrect API key: {KEY.upper()} {ESCAPES}"
    ),
    "status 402": refusal(402, "pay first"),
    "status 403": HttpReply(f"<html>{KEY}</html>", 403),
    "status 404": refusal(404, f"no such model {ESCAPES}", "model_not_found"),
    "status 404, nested 100,000 deep": _bytes(_DEEP, 404),
    "the quota is used up": refusal(
        429, "You exceeded your quota", "insufficient_quota"
    ),
    "a bad key with status 400": HttpReply(
        {"error": {"message": f"Authentication Error, {KEY}"}}, 400
    ),
    "a bad key with status 200": HttpReply(
        {"error": {"message": f"bad {KEY}", "code": "invalid_api_key"}}
    ),
    "a parameter that we do not send": refusal(
        400, "Unsupported parameter: 'evil'", "unsupported_parameter"
    ),
}
_ALL: dict[Kind, dict[str, HttpReply]] = {
    "harmless": _HARMLESS,
    "attempt": _ATTEMPT,
    "unclear": _UNCLEAR,
    "row": _ROW,
    "run": _RUN,
}
FAULTS = tuple(
    Fault(name, kind, reply)
    for kind, faults in _ALL.items()
    for name, reply in faults.items()
)
