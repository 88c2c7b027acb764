"""Inputs made from good ones by damage: values swapped for hostile ones, bytes changed, pieces
cut and doubled.
"""

import json
import random
from collections.abc import Sequence
from typing import Any

HOSTILE_NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1",
    "9" * 400,
    "9" * 5000,
    "0",
    "-0.0",
    "1.5",
    "9007199254740993",
    "true",
    "null",
    "1e-400",
)
HOSTILE_TEXTS = (
    "",
    " ",
    "\0",
    "\n",
    "\r\n",
    "\ud800",
    "\x1b[2J",
    "\x9b31m",
    "\u202e",
    "x" * 5000,
    "../../etc/passwd",
    "~nobody/x",
    "/dev/zero",
    "=1+1",
    "'=1",
    "-",
    "yes",
    "no",
    "nan",
    "1e400",
    "undefined",
    "utf-16",
    "{{ 7 * 7 }}",
    "<|im_start|>",
    "\ufe64|im_start|>",
    "[INST]",
    "%s",
    "\\u002b",
    "fwc-llm-run/1",
    "a\u0301" * 50,
    "👩\u200d🔬",
)
_DEEP = "[" * 10_000 + "]" * 10_000
_TOKENS = (
    [text.encode("utf-8", "backslashreplace") for text in HOSTILE_TEXTS]
    + [number.encode() for number in HOSTILE_NUMBERS]
    + [
        b"[" * 300,
        b'{"a":' * 300,
        _DEEP.encode(),
        b"[" * 10_000,
        b'"',
        b",",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"]",
        b"}",
        b"=",
        b"\\",
        b"#",
    ]
)


def damaged(seed: bytes, rng: random.Random, more: Sequence[bytes] = ()) -> bytes:
    """`seed` after one to four changes of its bytes; `more` is what may be put in besides the
    usual.
    """
    content = bytearray(seed)
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(content))
        end = min(len(content), start + rng.choice((0, 1, 1, 4, 16, 64)))
        match rng.randrange(5):
            case 0:
                content[start:end] = rng.choice(
                    (*_TOKENS, *more) if not more or rng.random() < 0.3 else more
                )
            case 1:
                del content[start:end]
            case 2:
                content[start:start] = content[start:end] * rng.choice((1, 2, 50))
            case 3 if content:
                content[min(start, len(content) - 1)] = rng.randrange(256)
            case _:
                del content[start : rng.choice((end, len(content)))]
    return bytes(content)


def damaged_json(seed: bytes, rng: random.Random) -> bytes:
    """JSON in which values, names and types are not what they were; still JSON, if Python's
    dialect of it.
    """
    value = json.loads(seed)
    for _ in range(rng.randint(1, 3)):
        value = _changed(value, rng)
    text = json.dumps(value)
    while '"\\ufffcnumber"' in text:
        text = text.replace('"\\ufffcnumber"', rng.choice((*HOSTILE_NUMBERS, _DEEP)), 1)
    return text.encode("utf-8", "backslashreplace")


def _changed(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.75 and value and isinstance(value, dict | list):
        key: Any = (
            rng.choice(list(value))
            if isinstance(value, dict)
            else rng.randrange(len(value))
        )
        if isinstance(value, dict) and rng.random() < 0.1:
            return {
                rng.choice(HOSTILE_TEXTS) if name == key else name: item
                for name, item in value.items()
            }
        if rng.random() < 0.1:
            rest = {**value} if isinstance(value, dict) else [*value]
            del rest[key]
            return rest
        whole = {**value} if isinstance(value, dict) else [*value]
        whole[key] = _changed(value[key], rng)
        return whole
    likely = [
        "\ufffcnumber",
        "\ufffcnumber",
        rng.choice(HOSTILE_TEXTS),
        rng.choice(HOSTILE_TEXTS),
    ]
    return rng.choice(
        [*likely, [], {}, [value], {"a": value}, [value] * 20, None, True, 7]
    )


def hostile(seed: bytes, rng: random.Random) -> bytes:
    """`seed` damaged in one way or another."""
    if rng.random() < 0.6:
        try:
            return damaged_json(seed, rng)
        except ValueError:
            pass
    return damaged(seed, rng)
