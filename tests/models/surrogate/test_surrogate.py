"""The surrogate: what it reads, what moves it, and that it says so when it cannot read."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.answers import parse_answer
from fwc_llm.models import open_model, traits
from fwc_llm.models.base import Message
from fwc_llm.models.surrogate.model import FORMS, Surrogate
from fwc_llm.models.surrogate.prompt_reader import (
    CATEGORICAL,
    NUMERIC,
    UnreadablePromptError,
    describe,
    read,
)
from fwc_llm.prompts import Prompt
from fwc_llm.shots.base import Example, Shots
from fwc_llm.tasks import Task
from tests.refusals import refused
from tests.wordings import CHATS

SENTENCE = (
    "A person in 1996 has the following attributes: age 37, workclass Private, education "
    "Some-college, "
    "highest education level 10, marital status Divorced, occupation Sales, relationship "
    "Not-in-family, "
    "race White, sex Female, capital gain 0, capital loss 0, hours per week 42, native country "
    "United-States."
)


def examples(
    task: Task, labels: str = "ynyn", weights: tuple[float, ...] | None = None
) -> Shots:
    """The first rows of the pool, called yes or no as `labels` says, whatever is true."""
    chosen = []
    for i, label in enumerate(labels):
        values = {
            str(name): value for name, value in task.pool().iloc[i].to_dict().items()
        }
        weight = weights[i] if weights else None
        chosen.append(Example(str(i), values, "yes" if label == "y" else "no", weight))
    return Shots("test", task.name, task.fingerprint, 0, tuple(chosen))


def rows_of(task: Task, n: int) -> list[Any]:
    return task.test().head(n).to_dict("records")


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_all_template_sets_say_the_same_to_it(census: Task, weighted: bool) -> None:
    shots = examples(
        census, "ynnyyn", (1.0, 0.5, 0.25, 0.75, 1.0, 0.1) if weighted else None
    )
    prompts = {template: Prompt(census, shots, template) for template in CHATS}
    assert len(prompts) == 3
    for row in rows_of(census, 20):
        readings = [
            replace(read(prompt.build(row)), words=("yes", "no"))
            for prompt in prompts.values()
        ]
        assert readings[0] == readings[1] == readings[2]
        person = readings[0].person
        numbers = (
            "age",
            "education-num",
            "capital-gain",
            "capital-loss",
            "hours-per-week",
        )
        assert person.numbers == tuple(float(row[name]) for name in numbers)
        assert person.words == tuple(
            row[name.replace(" ", "-")] for name in CATEGORICAL
        )
        assert readings[0].answers == (True, False, False, True, True, False)
        weights = [example.weight for example in readings[0].examples]
        assert weights == ([1.0, 0.5, 0.25, 0.75, 1.0, 0.1] if weighted else [None] * 6)


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        SENTENCE.replace(", ", "\n"),
        SENTENCE.replace(", ", "\n* ").replace("age 37", "Age: 37 years"),
        SENTENCE.replace(", ", "; ").replace(
            "marital status Divorced", "MARITAL-STATUS = Divorced"
        ),
        SENTENCE.replace("age 37", "age is 37.0").replace(
            "hours per week 42", "hours_per_week: 42 hours"
        ),
        f"Judge this person.\n\n{SENTENCE}\nIs the income above $50k? The age of the question is "
        f"unknown.",
    ],
)
def test_other_wordings_are_read_where_they_name_the_attributes(text: str) -> None:
    assert describe(text) == describe(SENTENCE)
    assert describe(text).number("age") == 37
    assert describe(text).word("marital status") == "Divorced"


@pytest.mark.parametrize("name", [*NUMERIC, *CATEGORICAL])
def test_an_attribute_that_is_not_there_is_named(name: str) -> None:
    parts = SENTENCE.removeprefix(
        "A person in 1996 has the following attributes: "
    ).split(", ")
    text = ", ".join(part for part in parts if not part.startswith(f"{name} "))
    with pytest.raises(UnreadablePromptError, match=f"did not find '{name}' in "):
        Surrogate().p_yes(user(text))


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "a last message of role user"),
        (
            [*user(SENTENCE), {"role": "assistant", "content": "yes"}],
            "a last message of role user",
        ),
        ([*user(SENTENCE), *user(SENTENCE)], "examples as pairs of messages"),
        (
            [
                *user(SENTENCE),
                {"role": "assistant", "content": "perhaps"},
                *user(SENTENCE),
            ],
            "examples as pairs of messages",
        ),
        (user(f"{SENTENCE}\n{SENTENCE}"), "'age' stands twice"),
        (
            user(SENTENCE.replace("42", "many")),
            "a number after 'hours per week' and found 'many'",
        ),
    ],
)
def test_what_it_cannot_read_it_says(messages: list[Message], says: str) -> None:
    with pytest.raises(UnreadablePromptError, match=says) as refused:
        asyncio.run(Surrogate().ask(messages))
    assert refused.value.exit_code == 2


texts = st.one_of(
    st.text(max_size=60),
    st.just(SENTENCE),
    st.lists(
        st.sampled_from([*SENTENCE.split(", "), "weight 0.5", "weight -1", "age nan"])
    ).map(", ".join),
    st.just("yes"),
)
roles = st.sampled_from(["system", "user", "assistant"])
conversations = st.lists(
    st.fixed_dictionaries({"role": roles, "content": texts}), max_size=5
)


@given(conversations)
def test_any_conversation_is_answered_or_refused(messages: list[Message]) -> None:
    try:
        reply = Surrogate().reply(messages)
    except UnreadablePromptError:
        return
    assert parse_answer(reply).value in ("yes", "no")


# --- examples and weights (an assumption of ours: evals/surrogate.md)


def test_its_forms_have_names_and_differ_with_examples_alone(census: Task) -> None:
    forms = {form: open_model(f"surrogate:{form}") for form in FORMS}
    assert [model.name for model in forms.values()] == [
        "surrogate",
        *(f"surrogate:{f}" for f in FORMS[1:]),
    ]
    assert all(traits(model).simulated for model in forms.values())
    assert len(
        {str(model.parameters["coefficients"]) for model in forms.values()}
    ) == len(FORMS)
    row = rows_of(census, 1)[0]
    shown = examples(census, "ynny")
    prompts = [Prompt(census, shots).build(row) for shots in (None, shown)]
    bare, told = (
        [Surrogate(form=form).p_yes(prompt) for form in FORMS] for prompt in prompts
    )
    assert max(bare) - min(bare) < 0.2
    assert len(set(told)) == len(FORMS)
    with refused("no form 'foo': give one of"):
        open_model("surrogate:foo")


def test_equal_weights_count_as_none_and_zero_as_absent(census: Task) -> None:
    def p_yes(labels: str, weights: tuple[float, ...] | None = None) -> float:
        shots = examples(census, labels, weights)
        return Surrogate().p_yes(Prompt(census, shots).build(rows_of(census, 1)[0]))

    assert p_yes("ynyn", (2.0,) * 4) == pytest.approx(p_yes("ynyn"), abs=1e-12)
    assert p_yes("ynyn", (1.0, 1.0, 1.0, 0.0)) == pytest.approx(p_yes("yny"), abs=1e-12)
