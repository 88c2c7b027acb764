"""A reply that Inspect has read: what it is, whatever Inspect calls it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.answers import parse_answer
from fwc_llm.models import Reply, Usage
from tests.faults.loopback import completion
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("with_inspect")


def reply(**changes: Any) -> Reply:
    from inspect_ai.model import model_output_from_openai

    from fwc_llm.models.inspect import to_reply

    body = completion("Yes", "some-model-0613")
    body["choices"][0] |= changes
    return to_reply(asyncio.run(model_output_from_openai(body)))


def said(content: str | None, **further: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **further}


def test_a_reply_is_read_whole() -> None:
    top = [
        {"token": "Yes", "logprob": -0.1, "bytes": None},
        {"token": "No", "logprob": -2.4, "bytes": None},
    ]
    content = [{"token": "Yes", "logprob": -0.1, "bytes": None, "top_logprobs": top}]
    read = reply(logprobs={"content": content, "refusal": None})
    assert (read.text, read.finish_reason, read.refusal) == ("Yes", "stop", False)
    assert (read.usage, read.model) == (Usage(100, 1, 64), "some-model-0613")
    assert read.logprobs == (("Yes", -0.1), ("No", -2.4))


_CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "finish", "reason"),
    [
        (said(None, refusal="I cannot judge people"), "stop", "refused"),
        (said("Yes"), "content_filter", "filtered"),
        (said("Well,"), "length", "truncated"),
        (said("Yes", tool_calls=[_CALL]), "stop", "refused"),
    ],
)
def test_refusals_and_what_is_no_answer_are_told_apart(
    message: dict[str, Any], finish: str, reason: str
) -> None:
    read = reply(message=message, finish_reason=finish)
    assert read.error is None
    assert parse_answer(read).reason == reason


def test_a_missing_extra_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from fwc_llm.models.inspect import read_log

    monkeypatch.setattr("fwc_llm.models.inspect.find_spec", lambda name: None)
    with refused(r"pip install 'fwc-llm\[inspect\]'"):
        read_log(Path("a.eval"))
