"""What the desk's CI runs: no key, no network, no cost."""

from pathlib import Path

from evals.examples.desk.app import FOLDER
from evals.examples.desk.client import PERSON, post
from fwc_llm import load_task
from fwc_llm.testing import Answers, Failure


def test_the_desk_decides(fwc_openai: Answers) -> None:
    assert post(PERSON) in {
        (200, "yes"),
        (200, "no"),
    }  # the surrogate, which reads the prompt, answers
    (call,) = fwc_openai.calls
    assert len(call.messages) == 2 + 2 * 8  # eight examples, each with its answer
    assert "hours per week: 38" in call.messages[-1]["content"]


def test_what_is_no_decision_goes_to_a_person(fwc_openai: Answers) -> None:
    for trouble in (
        "I cannot help with that.",
        Failure(500, headers={"x-should-retry": "false"}),
    ):
        fwc_openai.use(trouble)
        assert post(PERSON)[0] == 503


def test_what_was_never_evaluated_is_the_callers_mistake(fwc_openai: Answers) -> None:
    lacking = {name: value for name, value in PERSON.items() if name != "age"}
    for person, column in (
        (lacking, "age"),
        (PERSON | {"sex": "F"}, "sex"),
        (PERSON | {"age": -41}, "age"),
    ):
        status, detail = post(person)
        assert status == 422
        assert f"'{column}'" in detail
    assert not fwc_openai.calls


def test_the_frozen_task_is_that_of_this_version(tmp_path: Path) -> None:
    load_task("census").freeze(tmp_path / "task.json")
    assert (tmp_path / "task.json").read_text() == (FOLDER / "task.json").read_text()
