"""The prompts of a report's rows are those that were sent."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.models.base import Messages, Reply
from fwc_llm.report.read import read_run
from fwc_llm.report.rows import rows_of_run
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import load_task

TASK = load_task("census")


class Listener:
    """Answers yes, and keeps what it was sent."""

    name, simulated = "listener", True
    parameters: Mapping[str, Any] = {"temperature": 0.0}

    def __init__(self) -> None:
        self.heard: list[Messages] = []

    async def ask(self, messages: Messages) -> Reply:
        self.heard.append([dict(message) for message in messages])  # type: ignore[misc]
        return Reply("Yes")

    async def aclose(self) -> None:
        pass


def run(out: Path, arms: list[str], **options: Any) -> tuple[Path, list[Messages]]:
    listener = Listener()
    settings = Settings(m=4, n_test=6, base_parity=None, **options)
    return evaluate(TASK, listener, arms, settings=settings, out=out).folder, listener.heard


def shown(found: Mapping[str, Any]) -> list[list[tuple[str, str]]]:
    """Every prompt of the block, put together as the page does."""
    data, prompts = found["data"], []
    places = [
        pair for arm in data["answers"] for pair in zip(arm["fixed"], arm["query"], strict=True)
    ] + [(cells[6], cells[7]) for arm in data["variants"] for cells in arm]  # fmt: skip
    for fixed, query in places:
        if query < 0:
            continue
        parts = [
            [role, name, data["head"] + text + data["tail"]] for role, name, text in data["queries"][query]
        ]
        prompts.append([(role, text) for role, _, text in data["fixed"][fixed] + parts])
    return prompts


def sent(heard: list[Messages]) -> list[list[tuple[str, str]]]:
    return [[(m["role"], m["content"]) for m in messages] for messages in heard]


@pytest.fixture(scope="module")
def folder_and_heard(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Messages]]:
    arms = ["zero", "balanced", "balanced+removal", "instruction"]
    options: dict[str, Any] = {"repeats": 2, "counterfactual": True, "orders": ("random", "given")}
    return run(tmp_path_factory.mktemp("prompts") / "run", arms, **options)


def test_every_prompt_is_the_one_that_was_sent(folder_and_heard: tuple[Path, list[Messages]]) -> None:
    """With edits, orders, repeats and the protected attribute changed."""
    folder, heard = folder_and_heard
    found = rows_of_run(read_run(folder))
    assert found is not None
    assert (found["shown"], found["of"], found["missing"]) == (12, 12, {})
    assert sorted(shown(found)) == sorted(sent(heard))


def test_examples_chosen_for_every_row_are_shown(tmp_path: Path) -> None:
    folder, heard = run(tmp_path / "run", ["nearest"])
    found = rows_of_run(read_run(folder))
    assert found is not None
    assert sorted(shown(found)) == sorted(sent(heard))


def test_a_run_may_forbid_its_rows(folder_and_heard: tuple[Path, list[Messages]], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_and_heard[0], tmp_path / "copy"))
    described = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps(described | {"no_rows": True}), encoding="utf-8")
    assert rows_of_run(read_run(folder)) is None
