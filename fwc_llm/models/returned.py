"""What a function or a classifier returned, as a `Reply`."""

import json
from dataclasses import replace
from numbers import Real
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fwc_llm.models.base import Reply
from fwc_llm.sanitize import as_single_line, clean_text, kind_of, parse_finite

_WANTED = "give text, P(yes) from 0 to 1, or a Reply"


def read_answer(answer: Any) -> Reply:
    """Convert a function's result to a reply, with an error if it is invalid."""
    if isinstance(answer, Reply):
        return _checked(answer)
    if isinstance(answer, str):
        return Reply(text=clean_text(answer))
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return Reply(text=None, error=f"it returned {kind_of(answer)}: {_WANTED}")
    value: Any = answer
    if not 0.0 <= value <= 1.0:  # NaN fails too
        return Reply(
            text=None,
            error=f"it returned {str(value)[:20]}, which is not a probability: {_WANTED}",
        )
    return Reply(text="yes" if value >= 0.5 else "no", p_yes=float(value))


def _checked(reply: Reply) -> Reply:
    """The reply, cleaned for the journal; with an error if a field is invalid."""
    try:
        reply = TypeAdapter(Reply).validate_python(vars(reply))
        json.dumps(reply.raw)
        raw = reply.raw
    except ValidationError as wrong:
        field = str(wrong.errors()[0]["loc"][0])
        return Reply(
            text=None,
            error=f"it returned a Reply whose {field} is {kind_of(getattr(reply, field))}",
        )
    except (TypeError, ValueError):
        raw = None
    if reply.p_yes is not None and not 0.0 <= reply.p_yes <= 1.0:
        return Reply(
            text=None, error="it returned a Reply whose p_yes is not a probability"
        )
    error = (
        "it gave no text and no reason"
        if reply.text is None and not reply.error
        else reply.error
    )
    return replace(
        reply,
        text=None if reply.text is None else clean_text(reply.text),
        error=None if error is None else as_single_line(error),
        logprobs=tuple(
            pair for pair in reply.logprobs or () if parse_finite(pair[1]) is not None
        )
        or None,
        latency=parse_finite(reply.latency) or 0.0,
        raw=raw,
    )
