"""Models behind Inspect: its mock model, a provider of our own, and a real one against a
loopback server.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import evaluate, open_model
from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models import Reply, Usage
from fwc_llm.models.base import Attempts
from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal, serving
from tests.models.asking import KEY, MESSAGES, over_http

NAME = "inspect:openai-api/mine/some-model"


@pytest.fixture(autouse=True)
def inspect_and_key(with_inspect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("MINE_API_KEY", KEY)


def asked(
    answer: HttpReply, **options: Any
) -> tuple[list[Reply], Any, list[HttpRequest]]:
    return over_http(answer, partial(open_model, NAME), **{"deadline": 60.0} | options)


def test_a_reply_is_read_whole() -> None:
    top = [
        {"token": "Yes", "logprob": -0.1, "bytes": None},
        {"token": "No", "logprob": -2.4, "bytes": None},
    ]
    content = [{"token": "Yes", "logprob": -0.1, "bytes": None, "top_logprobs": top}]
    body = completion("Yes", "some-model-0613")
    body["choices"][0]["logprobs"] = {"content": content, "refusal": None}
    (reply,), model, (request,) = asked(
        HttpReply(body), logprobs=True, params={"seed": 3}
    )
    assert (reply.text, reply.finish_reason, reply.error, reply.refusal) == (
        "Yes",
        "stop",
        None,
        False,
    )
    assert (reply.usage, reply.model) == (Usage(100, 1, 64), "some-model-0613")
    assert reply.logprobs == (("Yes", -0.1), ("No", -2.4))
    sent = request.json()
    assert [
        {name: one[name] for name in ("role", "content")}
        for one in sent.pop("messages")
    ] == MESSAGES
    expected = {
        "temperature": 0,
        "max_tokens": 20,
        "logprobs": True,
        "top_logprobs": 20,
        "seed": 3,
    }
    assert sent == {"model": "some-model", **expected}
    assert request.headers["authorization"] == f"Bearer {KEY}"
    (once,) = model.notices
    assert "(given: seed)" in once


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {
                "message": {
                    "role": "assistant",
                    "content": None,
                    "refusal": "I cannot judge people",
                }
            },
            "refused",
        ),
        (
            {
                "message": {"role": "assistant", "content": "Yes"},
                "finish_reason": "content_filter",
            },
            "filtered",
        ),
        (
            {
                "message": {"role": "assistant", "content": "Well,"},
                "finish_reason": "length",
            },
            "truncated",
        ),
        (
            {
                "message": {
                    "role": "assistant",
                    "content": "Yes",
                    "tool_calls": [
                        {
                            "id": "1",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                }
            },
            "refused",
        ),
    ],
)
def test_refusals_and_what_is_no_answer_are_told_apart(
    change: dict[str, Any], reason: str
) -> None:
    body = completion("Yes")
    body["choices"][0] |= change
    (reply,), _, _ = asked(HttpReply(body))
    assert reply.error is None
    assert parse_answer(reply).reason == reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusal(401, f"Incorrect API key: {KEY}", "invalid_api_key"), "check the key"),
        (
            refusal(
                400,
                "Unsupported: 'temperature'",
                "unsupported_parameter",
                param="temperature",
            ),
            "refuses the parameter 'temperature'",
        ),
        (refusal(404, "The model does not exist", "model_not_found"), "check its name"),
    ],
)
def test_what_fails_for_every_row_stops_the_run(answer: HttpReply, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        asked(answer)
    assert KEY not in str(caught.value)


def test_a_row_has_a_deadline() -> None:
    (reply,), _, _ = asked(HttpReply(completion("Yes"), delay=5.0), deadline=0.3)
    assert reply.text is None
    assert "no reply within the deadline of 0.3 s" in str(reply.error)


def test_every_attempt_is_one_request_that_a_budget_hears_of() -> None:
    heard = list[bool]()

    class Poor(Attempts):
        def lost(self, billed: bool) -> None:
            heard.append(billed)

        async def again(self) -> bool:
            return len(heard) < 2

    def make(**options: Any) -> Any:
        model: Any = open_model(NAME, **options)
        model.ask = partial(model.ask_within, attempts=Poor())
        return model

    (reply,), _, requests = over_http(refusal(500, "out of order"), make, deadline=60.0)
    assert "no money is left" in str(reply.error)
    assert (len(requests), reply.attempts) == (2, 2), (
        "Inspect and the SDK send none more"
    )
    assert heard == [True, True]


def test_what_a_provider_cannot_do_is_said_once() -> None:
    named: Any = [{"role": "system", "name": "example_user", "content": "x"}, *MESSAGES]
    make = partial(open_model, NAME)  # Inspect's own mock model would fetch a rank file
    _, model, _ = over_http(
        HttpReply(completion("Yes")), make, named, 2, deadline=60.0, logprobs=True
    )
    names, logprobs = model.notices
    assert "names" in names
    assert "gives no log-probabilities" in logprobs


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("inspect:anthropic", {}, "names no model"),
        ("inspect:nobody/x", {}, "nobody"),
        ("inspect:openai/gpt-6-luna", {}, "OPENAI_API_KEY"),
        (NAME, {"api_key_env": "sk-planted"}, "a variable's name, not a key"),
        (NAME, {"params": {"colour": "red"}}, "no option 'colour'"),
        (NAME, {"params": {"cache": True}}, r"leave out params\['cache'\]"),
        (NAME, {"params": {"temperature": "hot"}}, "temperature"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_request(
    name: str, options: Any, words: str
) -> None:
    with pytest.raises(FwcError, match=words) as caught:
        open_model(
            name, **{"base_url": "http://127.0.0.1:9/v1"} | options
        ).require_key()  # type: ignore[attr-defined]
    assert caught.value.exit_code == 2
    assert not re.search(r"\n|\[bold\]", str(caught.value))


def test_a_missing_extra_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fwc_llm.models.inspect.find_spec", lambda name: None)
    with pytest.raises(FwcError, match=r"pip install 'fwc-llm\[inspect\]'"):
        open_model("inspect:anthropic/claude-x")


@pytest.mark.slow
def test_a_run_through_inspect_is_the_run_without(tmp_path: Path) -> None:
    """The journal, the statistics and a second pass: nothing is asked twice, and the numbers are
    the same.
    """
    small: Any = {"arms": ("zero", "balanced"), "n_test": 16, "m": 4}
    with serving() as url:
        asked = {"logprobs": True, "base_url": url, "out": tmp_path / "a", **small}
        there = evaluate("census", "inspect:openai-api/mine/surrogate", **asked)
    again = evaluate(
        "census", "inspect:openai-api/mine/surrogate", **asked
    )  # the server is gone
    here = evaluate("census", "surrogate", out=tmp_path / "b", **small)
    assert again.data == there.data
    for key in ("records", "usage", "unanswered", "returned_models"):
        assert there.data[key] == here.data[key]
    assert (
        there.answers()
        .drop(columns="simulated")
        .equals(here.answers().drop(columns="simulated"))
    )
    for path in (tmp_path / "a").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
