"""What a decision model's client sends, and what it makes of what comes back."""

from typing import Any

import pandas as pd
import pytest
import respx

from fwc_llm import load_task
from fwc_llm.answers import parse_answer
from fwc_llm.errors import ProviderError
from fwc_llm.models import Usage
from fwc_llm.models.base import Message
from fwc_llm.models.decisions import DecisionModel
from fwc_llm.models.openai.retry import AttemptError
from fwc_llm.prompts import Prompt
from tests.faults.loopback import HttpReply, HttpRequest, decision, nouls, refusal
from tests.models.asking import KEY, ask, over_http, sent
from tests.refusals import refused

QUESTION: Message = {"role": "question", "content": "Is it?"}
EXAMPLE: Message = {"role": "user", "content": "Example"}
RECORD: Message = {"role": "user", "content": "Record"}
SYSTEM: Message = {"role": "system", "content": "Look."}
TEXT = [EXAMPLE, RECORD, QUESTION]
CHAT = [SYSTEM, EXAMPLE, {"role": "assistant", "content": "yes"}, RECORD, QUESTION]
AS_TEXT = "Look.\n\nExample\n\nAnswer: yes\n\nRecord"


def quick(api: str = "decisions", **options: Any) -> DecisionModel:
    return DecisionModel(
        "gpt-6-luna", api=api, **{"backoff": 0.001, "deadline": 5.0, **options}
    )


def exchange(
    reply: Any, messages: list[Message], api: str = "decisions", **options: Any
) -> Any:
    """The reply and the bodies of the requests, over HTTP; `reply` may be a function of the
    request.
    """

    def answer(request: HttpRequest) -> HttpReply:
        given = reply(request) if callable(reply) else reply
        return given if isinstance(given, HttpReply) else HttpReply(given)

    (found,), _, requests = over_http(answer, quick, messages, api=api, **options)
    return found, [request.json() for request in requests]


def test_a_prompt_of_the_user_alone_is_one_text(provider: respx.MockRouter) -> None:
    route = provider.post("/decisions").respond(json=decision(0.75, "gpt-6-luna"))
    model = quick(params={"prompt_cache_key": "census"})
    reply = ask(model, TEXT)
    assert sent(route) == {
        "model": "gpt-6-luna",
        "input": "Example\n\nRecord",
        "questions": [
            {"type": "predicate", "name": "answer", "instructions": "Is it?"}
        ],
        "prompt_cache_key": "census",
    }
    assert route.calls[0].request.headers["authorization"] == f"Bearer {KEY}"
    assert (reply.text, reply.p_yes, reply.model) == ("yes", 0.75, "gpt-6-luna")
    assert reply.usage == Usage(100, 1, 64)
    assert model.notices == [], "nothing about reasoning or temperature"
    assert model.parameters == {"api": "decisions", "prompt_cache_key": "census"}


def test_other_prompts_are_messages_where_roles_are_taken(
    provider: respx.MockRouter,
) -> None:
    route = provider.post("/decisions").respond(json=decision(0.25))
    named: list[Message] = [
        {"role": "system", "content": "Example", "name": "example_user"},
        {"role": "system", "content": "yes", "name": "example_assistant"},
    ]
    reply = ask(quick(), [CHAT[0], *named, *CHAT[3:]])
    assert sent(route)["input"] == CHAT[:4], (
        "a name that stands for a role becomes the role"
    )
    assert [question["name"] for question in sent(route)["questions"]] == ["answer"]
    assert (reply.text, reply.p_yes) == ("no", 0.25)


@pytest.mark.parametrize(
    "refused",
    [
        refusal(
            400,
            "Invalid value: 'system'. Supported values are: 'user'.",
            "invalid_value",
            param="input[0].role",
        ),
        refusal(400, "input[0].role must be user"),
        HttpReply(
            {
                "detail": [
                    {
                        "loc": ["body", "input", "str"],
                        "msg": "Input should be a valid string",
                    }
                ]
            },
            422,
        ),
    ],
    ids=["parameter", "words", "validation"],
)
def test_where_roles_are_refused_one_text_is_sent_and_that_is_said_once(
    refused: HttpReply,
) -> None:
    """Also by requests that were under way with roles when it was found out."""

    def handler(request: HttpRequest) -> HttpReply:
        if isinstance(request.json()["input"], str):
            return HttpReply(decision(0.9))
        return refused

    replies, model, requests = over_http(
        handler, quick, CHAT[:5], times=6, together=True
    )
    assert [reply.p_yes for reply in replies] == [0.9] * 6
    assert sum(request.json()["input"] == AS_TEXT for request in requests) == 6
    assert model.request_body(CHAT[:5])["input"] == AS_TEXT, (
        "the next is not even tried with roles"
    )
    assert len([note for note in model.notices if "several roles" in note]) == 1


def test_system_one_takes_a_state_and_named_questions() -> None:
    def reply(request: HttpRequest) -> Any:
        assert request.path == "/v1/systemone"
        return nouls(
            0.99,
            "gpt-6-luna-1",
            names=list(request.json()["questions"]),
            usage={"input_tokens": 7, "output_tokens": 0},
        )

    found, seen = exchange(reply, CHAT, "systemone")
    questions = {"answer": {"type": "noul", "instructions": "Is it?"}}
    assert seen == [{"model": "gpt-6-luna", "state": AS_TEXT, "questions": questions}]
    assert (found.p_yes, found.usage.prompt_tokens) == (0.99, 7)


@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_criteria_go_with_the_question(api: str) -> None:
    meant: list[Message] = [
        {"role": "question", "name": "criteria:true", "content": "above $50k"},
        {"role": "question", "name": "criteria:false", "content": "no more than that"},
    ]
    body = quick(api, base_url="http://127.0.0.1:9/v1").request_body([*CHAT, *meant])
    if api == "systemone":
        (asked,) = body["questions"].values()
        assert asked["criteria"] == {"true": "above $50k", "false": "no more than that"}
    else:
        (asked,) = body["questions"]
        assert (
            asked["instructions"]
            == "Is it?\nTrue: above $50k\nFalse: no more than that"
        )


@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_a_refusal_is_a_refusal(api: str) -> None:
    refused = {"type": "refusal", "name": "answer"}
    answers: Any = [refused] if api == "decisions" else {"answer": refused}
    reply, _ = exchange(decision(answers=answers), CHAT, api)
    assert (parse_answer(reply).reason, reply.p_yes) == ("refused", None)


def test_an_answer_is_found_by_name_or_is_the_only_one() -> None:
    by_name = decision(
        answers=decision(0.9, names=["other"])["answers"] + decision(0.2)["answers"]
    )
    nameless = decision(answers=[{"type": "predicate", "probability": 0.2}])
    for body in (by_name, nameless):
        reply, _ = exchange(body, CHAT)
        assert reply.p_yes == 0.2


@pytest.mark.parametrize(
    ("api", "names"),
    [
        ("decisions", ("negation", "paraphrase")),
        ("decisions", ("answer", "answer")),
        ("systemone", ("other",)),
    ],
)
def test_an_answer_that_is_named_for_another_question_is_never_taken(
    api: str, names: Any
) -> None:
    answers: Any = [{"name": name, "probability": 0.9, "noul": 0.9} for name in names]
    if api == "systemone":
        answers = {
            str(name): answer for name, answer in zip(names, answers, strict=True)
        }
    with pytest.raises(AttemptError, match="without an answer to the question"):
        quick(api, base_url="http://127.0.0.1:9/v1").read(
            decision(answers=answers), CHAT
        )


def test_the_address_tells_the_dialect_of_services_that_are_known() -> None:
    model = quick(base_url="https://api.perplexity.ai/v1")
    assert "state" in model.request_body(TEXT)
    assert "System One's format" in model.notices[0]


@pytest.mark.parametrize(
    "said",
    [
        {"usage": {"input_tokens": 5, "state_tokens_dropped": 3}},
        {"usage": {"truncated": True}},
        {"truncated_questions": ["answer"]},
        {
            "answers": {
                "answer": {
                    "type": "noul",
                    "noul": 0.75,
                    "truncated": {"state_tokens_dropped": 3},
                }
            }
        },
    ],
)
def test_an_input_that_was_cut_off_is_counted_and_refused_by_strict(
    said: dict[str, Any],
) -> None:
    reply, _ = exchange(nouls(0.75, **said), TEXT, "systemone")
    assert (reply.p_yes, reply.truncated) == (0.75, True)
    with pytest.raises(
        ProviderError, match=r"truncated an input.*leave out strict=True"
    ):
        exchange(nouls(0.75, **said), TEXT, "systemone", strict=True)
    assert not exchange(
        nouls(0.75, usage={"state_tokens_dropped": 0}), TEXT, "systemone"
    )[0].truncated


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_tokens": 5}, "'max_tokens' is for chats"),
        ({"params": {"questions": []}}, "'questions' cannot be set"),
        ({"params": {KEY: 1}}, "parameter may hold a key"),
        ({"api": "oracle"}, "choose 'chat', 'decisions' or 'systemone'"),
        ({"api": "systemone"}, "api='systemone' needs the service's address"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    with refused(words):
        quick(**options)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            HttpReply({"detail": "Not Found"}, 404),
            r"has no POST /decisions.*does not speak api='decisions'.*systemone",
        ),
        (
            refusal(404, "The model `x` does not exist", "model_not_found"),
            "does not answer POST /decisions with the model",
        ),
        (
            refusal(
                400, "Only gpt-6-luna is supported", "unsupported_value", param="model"
            ),
            "does not answer POST /decisions",
        ),
        (refusal(401, "no key"), "rejects the key"),
    ],
)
def test_what_every_request_would_meet_stops_the_run_and_says_why(
    reply: HttpReply, words: str
) -> None:
    with pytest.raises(ProviderError, match=words):
        exchange(reply, TEXT)


def test_a_probability_that_is_none_is_asked_for_again_but_not_for_long() -> None:
    replies = iter([decision(1.5), decision(None), decision(0.75)])
    found, seen = exchange(lambda request: next(replies), TEXT)
    assert (found.p_yes, found.attempts, len(seen)) == (0.75, 3, 3)
    found, seen = exchange(decision(-1), TEXT)
    assert (found.text, len(seen)) == (None, 3)
    assert "an answer without a probability from 0 to 1 (-1)" in found.error


@pytest.mark.parametrize("kind", ["choice", "", 7, ["noul"], "\x1b[31m"])
@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_the_probability_of_another_kind_of_answer_is_no_p_yes(
    api: str, kind: Any
) -> None:
    answer = {
        "type": kind,
        "name": "answer",
        "choice": "no",
        "probability": 0.9,
        "noul": 0.9,
    }
    answers: Any = [answer] if api == "decisions" else {"answer": answer}
    found, seen = exchange(decision(answers=answers), TEXT, api)
    assert (found.text, found.p_yes, len(seen)) == (None, None, 3)
    assert f"an answer that is not a P(yes) (its type is {kind!r})" in found.error


def test_a_decision_model_gets_a_third_choice(provider: respx.MockRouter) -> None:
    table = pd.DataFrame(
        {
            "sex": ["f", "m"] * 30,
            "age": range(60),
            "decision": ["approved", "declined", "referred"] * 20,
        }
    )
    task = load_task(table, protected="sex", outcome="decision")
    prompt = Prompt(task, template="decision", question_apart=True)
    messages = prompt.build(task.test().iloc[0])
    shares = {"yes": 0.3, "no": 0.1, "refer": 0.6}
    stated = [{"value": word, "probability": p} for word, p in shares.items()]
    answer = {"type": "choice", "name": "answer", "choice": "refer"}
    answer |= {"confidence": 0.6, "probabilities": stated}
    body = {"model": "gpt-6-luna", "answers": [answer]}
    route = provider.post("/decisions").respond(json=body)
    reply = ask(DecisionModel("gpt-6-luna"), messages)
    (question,) = sent(route)["questions"]
    assert question["type"] == "choice"
    assert [choice["value"] for choice in question["choices"]] == ["no", "yes", "refer"]
    assert parse_answer(reply, task).value == "refer"
    assert reply.p_yes == pytest.approx(0.75)
    stated[0]["probability"] = stated[1]["probability"] = 0.0
    provider.post("/decisions").respond(json=body)
    alone = ask(DecisionModel("gpt-6-luna"), messages)
    assert parse_answer(alone, task).value == "refer"
    assert alone.p_yes is None
