"""Our tasks inside Inspect: their arguments, their samples, the surrogate behind
`fwc/surrogate`.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.tasks import load_task, task_names
from tests.conftest import PYPROJECT
from tests.data.tables import write_task
from tests.inspect.designs import table
from tests.models.asking import MESSAGES

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("with_inspect")]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("own")
    return str(
        write_task(folder, table(), outcome='positive = ["yes"]\nnegative = ["no"]')
    )


def built(own: str, **arguments: Any) -> Any:
    from fwc_llm.inspect.registry import TASKS

    return TASKS["taskfile"](
        **{"file": own, "shots": "zero", "n_test": 8, "m": 4} | arguments
    )


def test_every_built_in_task_is_a_task_of_inspect() -> None:
    from inspect_ai._util.registry import registry_info

    from fwc_llm.inspect.registry import TASKS

    assert set(TASKS) == {*task_names(), "taskfile"}
    for name, one in TASKS.items():
        assert registry_info(one).name.removeprefix("fwc_llm/") == name
    entries = PYPROJECT["project"]["entry-points"]
    assert entries["inspect_ai"] == {
        "fwc_llm": "fwc_llm.inspect.registry"
    }  # Inspect goes by this name


def test_a_sample_is_a_question_and_the_arms_of_a_row_stand_together(own: str) -> None:
    task = built(own, shots=["zero", "balanced"], repeats=2)
    assert len(task.dataset) == 2 * 2 * 8
    for first, second in zip(task.dataset[::2], task.dataset[1::2], strict=True):
        assert (first.metadata["arm"], second.metadata["arm"]) == ("zero", "balanced")
        assert first.metadata["row"] == second.metadata["row"]
        assert first.target == first.metadata["label"]
        assert [message.role for message in first.input] == ["system", "user"]
        assert len(second.input) == 2 + 2 * 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_tset": 8}, "n_test"),
        ({"n_test": 0}, "test rows"),
        ({"epsilon": "small"}, "epsilon"),
        ({"shots": "nobodys"}, "nobodys"),
        ({"shots": 3}, "shots"),
        ({"template": "none"}, "no template set"),
        ({"options": "x"}, "options"),
        ({"file": "gone.toml"}, "gone.toml"),
        ({"answer_format": "json"}, "answer_format json is for"),
        (
            {"answer_format": "probability", "logprobs": True},
            "leave out one of the two",
        ),
    ],
)
def test_wrong_task_arguments_are_named_without_a_traceback(
    own: str, arguments: Any, words: str
) -> None:
    from inspect_ai._util.error import PrerequisiteError

    with pytest.raises(PrerequisiteError) as caught:
        built(own, **arguments)
    assert words in str(caught.value.message).replace("\\[", "[")


def test_names_of_messages_are_left_out_and_that_is_said(
    own: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(own).parent / "named"
    folder.mkdir()
    for name, role in (
        ("system", '"system", name="example"'),
        ("shots", '"user"'),
        ("query", '"user"'),
    ):
        (folder / f"{name}.j2").write_text(
            f"{{% call message({role}) %}}x{{% endcall %}}"
        )
    built(own, template=str(folder))
    assert "carry no names" in caplog.text


def test_the_surrogate_answers_as_it_does_to_us() -> None:
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai.model import GenerateConfig

    from fwc_llm import build_prompt
    from fwc_llm.inspect.registry import SurrogateAPI
    from fwc_llm.models.inspect import to_chat, to_reply
    from fwc_llm.models.surrogate.model import Surrogate
    from fwc_llm.models.surrogate.prompt_reader import UnreadablePromptError

    task = load_task("census")
    messages = build_prompt(task, task.test().iloc[0])

    def asked(messages: Any, **config: Any) -> Any:
        api = SurrogateAPI("surrogate")
        return to_reply(
            asyncio.run(
                api.generate(to_chat(messages), [], "none", GenerateConfig(**config))
            )
        )

    for config in ({}, {"temperature": 0.9, "seed": 5}):
        reply, ours = asked(messages, **config), Surrogate(**config).reply(messages)
        for field in ("text", "usage", "logprobs", "model", "finish_reason"):
            assert getattr(reply, field) == getattr(ours, field)
    with pytest.raises(UnreadablePromptError):
        asked(MESSAGES)
    for name, options in (("gpt-4", {}), ("surrogate", {"colour": 1})):
        with pytest.raises(PrerequisiteError) as caught:
            SurrogateAPI(name, **options)
        assert "the one model is fwc/surrogate" in caught.value.message
