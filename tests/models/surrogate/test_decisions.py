"""The surrogate's decisions behind real HTTP: by OpenAI's own client, by plain requests, and wrong ones."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from fwc_llm.models.decisions.conversation import take_apart
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.serve import serving
from fwc_llm.prompts import Prompt
from fwc_llm.shots import select_shots
from fwc_llm.tasks import load_task

QUESTION = {"type": "predicate", "name": "q", "instructions": "Is the income high?"}
NOUL = {"type": "noul", "instructions": "Is the income high?"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def prompts() -> dict[str, Any]:
    """One row with weighted examples: as a chat, and as the wordings of the other sets for decisions."""
    census = load_task("census")
    shots = select_shots(census, "random", 6, progress=False)
    row = census.test().iloc[3]
    found: dict[str, Any] = {"chat": Prompt(census, shots).build(row)}
    for template in ("decision", "default", "paper", "decodingtrust"):
        found[template] = Prompt(census, shots, template, questions="several").build(row)
    return found


def post(url: str, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}/{path}", json={"model": "surrogate", **body})


@pytest.mark.parametrize("template", ["decision", "default", "paper", "decodingtrust"])
def test_every_wording_and_format_means_what_the_chat_means(
    url: str, prompts: dict[str, Any], template: str
) -> None:
    p = Surrogate().p_yes(prompts["chat"])
    asked = take_apart(prompts[template])
    nouls = {name: {"type": "noul", "instructions": words} for name, words in asked.questions.items()}
    found = post(url, "systemone", state=asked.text, questions=nouls).json()
    assert {name: answer["noul"] for name, answer in found["answers"].items()} == pytest.approx(
        {"answer": p, "negation": 1 - p, "paraphrase": p}, abs=1e-6
    )
    assert found["model"] == "surrogate (simulated)"
    assert found["usage"]["input_tokens"] == len(asked.text.split())
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        for given in (asked.text, [dict(message) for message in asked.input]):
            decision = client.decisions.create(model="surrogate", input=given, questions=[QUESTION])  # type: ignore[arg-type, list-item]
            answer: Any = decision.answers[0]
            assert (answer.type, answer.name) == ("predicate", "q")
            assert answer.probability == pytest.approx(p, abs=1e-6)


def test_a_state_may_be_an_object(url: str, prompts: dict[str, Any]) -> None:
    census = load_task("census")
    row = census.test().iloc[3]
    text = Prompt(census, None, questions="one").build(row)[-2]["content"]
    state = dict(line.removeprefix("- ").split(": ") for line in text.splitlines()[1:])
    p = Surrogate().p_yes(Prompt(census, None).build(row))
    assert post(url, "systemone", state=state, questions={"q": NOUL}).json()["answers"]["q"]["noul"] == (
        pytest.approx(p, abs=1e-6)
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("systemone", {"state": "x", "questions": {}}, 422, "at least one question"),
        ("systemone", {"state": "x", "questions": {"q": 7}}, 422, "not an object"),
        ("systemone", {"statt": "x", "questions": {"q": NOUL}}, 422, "Unknown parameter: 'statt'"),
        ("systemone", {"state": 7, "questions": {"q": NOUL}}, 422, "'state' must be text or an object"),
        (
            "systemone",
            {"state": "x", "questions": {"q": {**NOUL, "type": "score"}}},
            422,
            "type 'noul' alone",
        ),
        (
            "systemone",
            {"state": "x", "questions": {"q": {"type": "noul"}}},
            422,
            "'instructions' is not text",
        ),
        ("systemone", {"model": "jev", "state": "x", "questions": {"q": NOUL}}, 404, "`jev` does not exist"),
        ("systemone", {"model": 7, "state": "x", "questions": {"q": NOUL}}, 422, "model parameter"),
        ("systemone", {"state": "nobody", "questions": {"q": NOUL}}, 400, "cannot read this prompt"),
        ("decisions", {"input": "x", "questions": []}, 400, "a list of 1 to 400"),
        ("decisions", {"input": "x", "questions": [QUESTION] * 401}, 400, "a list of 1 to 400"),
        ("decisions", {"input": "x", "questions": [QUESTION], "temperature": 0}, 400, "'temperature'"),
        ("decisions", {"input": [], "questions": [QUESTION]}, 400, "at least one message"),
        ("decisions", {"questions": [QUESTION]}, 400, "at least one message"),
    ],
)
def test_what_is_wrong_is_refused_as_the_services_do(
    url: str, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    response = post(url, path, **body)
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


def test_a_get_is_not_allowed(url: str) -> None:
    response = httpx.get(f"{url}/systemone")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
