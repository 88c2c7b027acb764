"""Every kind of fault of a decision model's service, by name; the kinds are those of `table.py`."""

import json
from collections.abc import Callable
from typing import Any

from tests.faults.loopback import HttpReply, decision, nouls, refusal
from tests.faults.table import ESCAPES, FAULTS, KEY, Fault, Kind


def decision_faults(api: str) -> tuple[Fault, ...]:
    """The faults of `/v1/decisions` or `/v1/systemone`."""
    return tuple(
        Fault(name, kind, reply)
        for kind, faults in _own(api).items()
        for name, reply in faults.items()
    )


def shared_faults() -> tuple[Fault, ...]:
    """The faults that any service may have: those of chats, but for replies that are good for a
    chat alone.
    """
    return tuple(fault for fault in FAULTS if fault.kind != "harmless")


def _own(api: str) -> dict[Kind, dict[str, HttpReply]]:
    good: Callable[..., Any] = decision if api == "decisions" else nouls
    bare = (
        {"type": "predicate", "name": "answer"}
        if api == "decisions"
        else {"type": "noul"}
    )
    whole = {**bare, ("probability" if api == "decisions" else "noul"): 0.75}

    def one(answer: Any) -> HttpReply:
        return HttpReply(
            good(answers=[answer] if api == "decisions" else {"answer": answer})
        )

    def without(key: str) -> HttpReply:
        return HttpReply({name: value for name, value in good().items() if name != key})

    def written(number: str) -> HttpReply:
        text = json.dumps(good(p=0.125)).replace("0.125", number)
        return HttpReply(text.encode(), headers={"content-type": "application/json"})

    return {
        "harmless": {
            **{
                f"P(yes) {number}": written(number)
                for number in ("0", "1", "0.5", "1e-400", "-0.0")
            },
            "a refusal": one({"type": "refusal", "name": "answer"}),
            "a refusal with words": one(
                {"type": "refusal", "refusal": f"no {KEY} {ESCAPES}"}
            ),
            "an answer with more than is known": one(
                {**whole, "confidence": [KEY], "x": ESCAPES}
            ),
            "an answer without its type": one(
                {name: value for name, value in whole.items() if name != "type"}
            ),
            "another model": HttpReply(good(model=f"other-{KEY}{ESCAPES}")),
            "a model that is not text": HttpReply(good(model=[KEY])),
            "no model": without("model"),
            "no usage": without("usage"),
            "usage a list": HttpReply(good(usage=[1])),
            "usage of texts": HttpReply(
                good(usage={"input_tokens": "x", "output_tokens": -1})
            ),
            "usage beyond everything": HttpReply(good(usage={"input_tokens": 10**300})),
        },
        "unclear": {
            **{
                f"P(yes) {number[:20]}": written(number)
                for number in (
                    "NaN",
                    "Infinity",
                    "-Infinity",
                    "1e400",
                    "1.0000000001",
                    "-0.25",
                    "true",
                    "null",
                    '"0.5"',
                    "[0.5]",
                    "9" * 400,
                )
            },
            "no P(yes)": one(bare),
            "an unknown field": refusal(422, "Unknown field: 'statt'"),
        },
        "attempt": {
            "no answers": without("answers"),
            "answers null": HttpReply(good(answers=None)),
            "no answer among the answers": HttpReply(
                good(answers=type(good()["answers"])())
            ),
            "answers of the other format": HttpReply(
                good(answers={} if api == "decisions" else [])
            ),
            "an answer null": one(None),
            "an answer a number": one(0.5),
            "a chat completion": HttpReply(
                {"choices": [{"message": {"content": "Yes"}}], "model": "x"}
            ),
        },
        "row": {
            "too long": refusal(
                400,
                "input is too long: it exceeds the context window",
                "string_above_max_length",
            ),
            "too long, 422": refusal(
                422, "This model's maximum context length is 512 tokens"
            ),
        },
        "run": {
            "no such endpoint": HttpReply({"detail": f"Not Found {KEY}"}, 404),
            "no such endpoint, HTML": HttpReply(f"<html>{ESCAPES}</html>", 404),
            "no such method": HttpReply({"detail": "Method Not Allowed"}, 405),
            "not implemented": HttpReply("", 501),
            "another model wanted": refusal(
                400, "Only gpt-6-luna is supported", param="model"
            ),
        },
    }
