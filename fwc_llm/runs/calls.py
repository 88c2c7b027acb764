"""One question of a run: its identity, and the journal's record of its reply."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from fwc_llm.answers import parse_answer, probability
from fwc_llm.models.base import Asked, Messages, Model, Reply
from fwc_llm.runs.journal import request_id


@dataclass(frozen=True)
class Call:
    """One question of a run: its arm, repeat, row, variant and messages.

    `asked` is the row itself, for a model that reads rows; it is no part of the question's identity.
    `variant` is "" for the row as it is, "counterfactual:<level>" for one with its protected level changed.
    """

    arm: str
    repeat: int
    row: str
    variant: str
    messages: Messages = field(repr=False)
    asked: Asked | None = field(default=None, repr=False, compare=False)


def parameters_json(model: Model) -> str:
    """The model and everything besides the messages that can change its reply, as canonical JSON."""
    return json.dumps([model.name, dict(model.parameters)], sort_keys=True, default=str)


def call_id(parameters: str, call: Call) -> str:
    """The identity of a call: model and parameters, repeat, messages, arm, row and variant.

    Arm, row and variant are part of it because two arms may send the same messages, and each needs a reply.
    """
    return request_id(parameters, call.repeat, call.arm, call.row, call.variant, call.messages)


def make_record(request: str, call: Call, reply: Reply) -> dict[str, Any]:
    """The journal's record of one reply, parsed; rescoring parses it again."""
    answer = parse_answer(reply)
    return {
        "request": request,
        "arm": call.arm,
        "repeat": call.repeat,
        "row": call.row,
        "variant": call.variant,
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "refusal": reply.refusal,
        "error": reply.error,
        "logprobs": reply.logprobs,
        "answer": answer.value,
        "reason": answer.reason,
        "p_yes": probability(reply),
        **({"others": dict(reply.others)} if reply.others else {}),
        "usage": dict(vars(reply.usage)) if reply.usage is not None else None,
        "model": reply.model,
        "fingerprint": reply.fingerprint,
        "attempts": reply.attempts,
        "latency": round(reply.latency, 4),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "raw": reply.raw,
    }
