"""Prompts that are asked several times, and several template sets: counted, continued, and told
apart.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import Settings, Task, evaluate, load_task
from fwc_llm.files import resource_dir
from fwc_llm.models.base import Messages, Reply, Usage
from fwc_llm.report.formats import render
from tests.models.four_members import FourMembers
from tests.people import make_people, write_people
from tests.refusals import refused


class Dice(FourMembers):
    """A model that says yes now and then; `most` requests are answered, then Ctrl-C is pressed."""

    name = "dice"
    completion_limit = 1

    def __init__(self, most: int = 10**9, chance: float = 0.3) -> None:
        self.asked, self.most, self.chance, self.dice = (
            0,
            most,
            chance,
            random.Random(0),
        )

    async def ask(self, messages: Messages) -> Reply:
        if self.asked >= self.most:
            raise KeyboardInterrupt
        self.asked += 1
        return Reply(
            "Yes" if self.dice.random() < self.chance else "No", usage=Usage(100, 1)
        )


SMALL = Settings(n_test=20, base_parity=None, m=4, repeats=2)
SAMPLED: dict[str, Any] = {"settings": SMALL, "samples": 3, "counterfactual": True}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(
        write_people(tmp_path_factory.mktemp("people"), make_people(300, 2))
    )


@pytest.mark.slow
def test_a_run_that_was_interrupted_asks_the_rest(task: Task, out: Path) -> None:
    with refused("interrupted"):
        evaluate(task, Dice(100), ("zero", "balanced"), out=out, **SAMPLED)
    rest = Dice()
    result = evaluate(task, rest, ("zero", "balanced"), out=out, **SAMPLED)
    assert (
        result.data["requests"] == 2 * 20 * 3 * 2 * 2
    )  # repeats, rows, samples, arms, told as the other
    assert rest.asked == result.data["requests"] - 100
    assert (result.data["repeats"], result.data["samples"]) == (2, 3)
    assert [result.records.of("accuracy", arm).n for arm in result.arms] == [120, 120]
    with refused("samples"):
        evaluate(task, rest, ("zero", "balanced"), out=out, **SAMPLED | {"samples": 2})
    for kind in ("html", "md"):
        assert "The same prompt asked again" in render([result.folder], kind)
    (run,) = json.loads(render([result.folder], "json"))["runs"]
    assert [one["repeat"] for one in run["examples"]["balanced"]] == [0, 1]


def test_agreement_and_probabilities_are_those_of_the_dice(
    task: Task, out: Path
) -> None:
    options: dict[str, Any] = {
        "n_test": 100,
        "base_parity": None,
        "samples": 5,
        "out": out,
    }
    found = evaluate(task, Dice(), ("zero",), **options).audit().statistics
    again = found.of("same_answer", "zero")
    assert again.low < 0.3**2 + 0.7**2 < again.high
    assert again.n == 100
    both = found.of("prompts_with_both_answers", "zero").value
    assert both == pytest.approx(1 - 0.3**5 - 0.7**5, abs=0.12)
    assert found.of("auc_of_repeated_prompts", "zero").value == pytest.approx(
        0.5, abs=0.15
    )
    # Asked again is not other rows: the interval stays one of 100 rows, answers that differ help a
    # little.
    accuracy = found.of("accuracy", "zero")
    assert accuracy.high - accuracy.low > 0.07
    assert any("Every prompt was asked 5 times" in note for note in found.notes)


@pytest.mark.slow
def test_each_template_set_makes_an_arm(task: Task, tmp_path: Path) -> None:
    own = shutil.copytree(resource_dir("prompts") / "default", tmp_path / "my, own")
    arms = ("zero", "balanced@random", "balanced@given")
    options: dict[str, Any] = {"settings": SMALL, "out": tmp_path / "run"}
    result = evaluate(task, Dice(), arms, templates=("default", str(own)), **options)
    assert list(result.arms) == ["zero@default", "zero@my, own"] + [
        f"balanced@{order}@{one}"
        for order in ("random", "given")
        for one in ("default", "my, own")
    ]
    asks_nothing = Dice(most=0)
    evaluate(task, asks_nothing, arms, templates=("default", str(own)), **options)
