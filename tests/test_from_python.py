"""What a data scientist tries who never opens the command line: notebooks, services, tests."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from openai.types.chat import ChatCompletion

from fwc_llm import FwcError, Reply, audit, evaluate, load_task, parse_answer


def people(no: object = 0, yes: object = 1) -> pd.DataFrame:
    columns = {"age": range(20, 80), "sex": list("FM") * 30, "approved": [no, yes, yes, no] * 15}
    return pd.DataFrame(columns)


def completion(content: str | None, finish: str = "stop", **message: Any) -> ChatCompletion:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return ChatCompletion.model_validate(body | {"choices": [choice]})


def test_nothing_is_true_by_accident(tmp_path: Path) -> None:
    said = pd.DataFrame({"said": [1] * 200 + [0] * 200, "sex": ["M"] * 200 + ["F"] * 200})
    check = audit(said, answer="said", protected="sex").check("dp_gap > 0.1")
    assert (check.outcome, check.passed) == ("outside", False)
    result = evaluate("census", "surrogate", ("zero",), n_test=40, out=tmp_path / "run")
    for nothing, words in (
        (check, "check.passed"),
        (parse_answer("no"), "answer.value"),
        (result, r"result.check\(condition\).passed"),
    ):
        with pytest.raises(TypeError, match=f"neither true nor false.*{words}"):
            bool(nothing)


def test_a_completion_is_parsed_in_the_words_of_its_task() -> None:
    task = load_task(
        people("refused", "granted"), protected="sex", outcome="approved", words="values"
    )
    for reply in (
        "granted",
        Reply("granted"),
        completion("granted"),
        completion("granted").model_dump(),
    ):
        assert parse_answer(reply, task).value == "yes"
    assert parse_answer(completion("refused"), task).value == "no"
    assert parse_answer(completion(None, refusal="I cannot help."), task).reason == "refused"
    assert parse_answer(completion("grant", "length"), task).reason == "truncated"
    assert parse_answer(completion("granted", "content_filter"), task).reason == "filtered"
    assert parse_answer({"error": {"message": "overloaded"}}, task).reason == "error"


@pytest.mark.parametrize("reply", [None, ("yes",), 3])
def test_what_is_no_reply_is_named(reply: Any) -> None:
    with pytest.raises(FwcError, match="give a text, a Reply, or the completion"):
        parse_answer(reply)


@pytest.mark.parametrize("words", ["granted", None, {"ja": "ja", "nein": "nein"}])
def test_what_are_no_words_is_named(words: Any) -> None:
    with pytest.raises(FwcError, match=r"give a Task, or \{'yes'"):
        parse_answer("granted", words)
