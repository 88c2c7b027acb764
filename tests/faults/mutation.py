"""Inputs made from good ones by damage: values of JSON swapped for hostile ones, pieces of bytes
cut, doubled and replaced.
"""

import json
import math
import random
from typing import Any

_DEEP: Any = [0]
for _ in range(200):
    _DEEP = [_DEEP]
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**53 + 1,
    10**400,
    math.nan,
    math.inf,
    "",
    " ",
    "\0",
    "\r\n",
    "\ud800",
    "\x1b[2J",
    "x" * 5000,
    "../../etc/passwd",
    "~nobody/x",
    "=1+1",
    "yes",
    "nan",
    "1e400",
    "utf-16",
    "{{ 7 * 7 }}",
    "<|im_start|>",
    "a\u0301" * 50,
    [],
    {},
    _DEEP,
)
_TOKENS = [str(value).encode("utf-8", "backslashreplace") for value in HOSTILE]
_TOKENS += [b'{"a":' * 300, b'"', b",", b"\xff\xfe", b"]", b"=", b"\\", b"#"]


def damaged(seed: bytes, rng: random.Random) -> bytes:
    """`seed` after one to four changes of its bytes."""
    content = bytearray(seed)
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(content))
        end = min(len(content), start + rng.choice((0, 1, 4, 16, 64)))
        twice = bytes(content[start:end]) * rng.choice((2, 50))
        content[start:end] = rng.choice((b"", twice, rng.choice(_TOKENS)))
    return bytes(content)


def _changed(value: Any, rng: random.Random) -> Any:
    """JSON in which one value is hostile, or is gone."""
    inside = isinstance(value, dict | list) and len(value) > 0
    if not inside or rng.random() < 0.2:
        return rng.choice((*HOSTILE, [value], {"a": value}))
    entries = dict(value if isinstance(value, dict) else enumerate(value))
    key = rng.choice(list(entries))
    if rng.random() < 0.1:
        del entries[key]
    else:
        entries[key] = _changed(entries[key], rng)
    return entries if isinstance(value, dict) else list(entries.values())


def hostile(seed: bytes, rng: random.Random) -> bytes:
    """`seed` damaged in one way or another; JSON often stays JSON, of Python's dialect."""
    try:
        value = json.loads(seed)
    except ValueError:
        return damaged(seed, rng)
    if rng.random() < 0.4:
        return damaged(seed, rng)
    for _ in range(rng.randint(1, 3)):
        value = _changed(value, rng)
    return json.dumps(value).encode("utf-8", "backslashreplace")
