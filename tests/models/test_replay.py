"""Replays: a run's replies come again for the same questions, and for no others."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import openai
import pytest

from fwc_llm import Messages, Reply, evaluate, open_model, tune
from fwc_llm.errors import ProviderError
from fwc_llm.models import traits
from fwc_llm.tasks import Task, load_task
from fwc_llm.testing import answers
from tests.command import read_json
from tests.evaluation.test_tune import LARGER, heeds
from tests.models.asking import ask
from tests.people import SMALL_CENSUS, make_people, write_people
from tests.refusals import refused

REAL = (
    Path(__file__).parents[1] / "recorded_runs" / "qwen"
)  # 48 replies of a real model about Adult
ARMS = ("zero", "zero+removal", "balanced")
OPTIONS: dict[str, Any] = {
    "n_test": 8,
    "m": 4,
    "samples": 2,
    "counterfactual": True,
    "base_parity": None,
    "progress": False,
}


@pytest.fixture
def moody() -> Any:
    """A model that answers the same question differently every time; every ninth row has no
    answer.
    """
    calls = count()

    async def moody(messages: Messages) -> Reply:
        number = next(calls)
        if number % 9 == 8:
            return Reply(None, error="busy")
        return Reply(
            ("yes", "no")[number // 3 % 2],
            finish_reason="stop",
            p_yes=(number % 97) / 97,
        )

    return moody


def numbers(folder: Path) -> Any:
    """All of results.json but what tells the two runs apart."""
    data = read_json(folder / "results.json")
    return {key: value for key, value in data.items() if key not in {"model", "local"}}


def test_a_replay_gives_every_reply_again_in_its_place(
    two: Task, moody: Any, tmp_path: Path
) -> None:
    """Arms, samples and changed levels may send the same messages, and were answered
    differently.
    """
    source = tmp_path / "source"
    copy = tmp_path / "copy"
    first = evaluate(two, moody, ARMS, out=source, **OPTIONS)
    name = f"replay:{source}"
    again = evaluate(two, name, ARMS, out=copy, **OPTIONS)
    assert again.answers().equals(first.answers())
    assert numbers(copy) == numbers(source)
    assert first.data["unanswered"] > 0
    evaluate(
        two, name, ("balanced", "zero"), out=tmp_path / "part", **OPTIONS
    )  # other arms are not needed
    resumed = evaluate(
        two, name, ARMS, out=copy, **OPTIONS
    )  # rows without an answer are asked again
    assert resumed.answers().equals(first.answers())
    assert '"replay:../source"' in (copy / "experiment.toml").read_text()
    page = again.report(tmp_path / "report.html").read_text()
    assert "replayed" in page
    assert "moody" in page


def test_the_marks_of_the_source_stay(tmp_path: Path) -> None:
    options: Any = {"n_test": 8, "base_parity": None, "progress": False}
    said = "surrogate"
    for name in ("source", "once", "twice"):
        out = tmp_path / name
        twice = evaluate(SMALL_CENSUS, said, ("zero",), out=out, **options)
        said = f"replay:{out}"
    assert twice.data["simulated_answers"]
    assert "surrogate (replayed" in twice.data["model"]
    model = open_model(f"replay:{tmp_path / 'source'}")
    assert (traits(model).local, traits(model).simulated, traits(model).reference) == (
        True,
        True,
        False,
    )


def test_a_tuning_is_replayed(tmp_path: Path) -> None:
    task = load_task(write_people(tmp_path, make_people(400, 2)))
    options: Any = LARGER | {"candidates": 4, "n_test": 40, "strategies": ["strata"]}
    tune(task, heeds, 0.15, 30.0, **options, out=tmp_path / "tuned")
    tune(
        task,
        f"replay:{tmp_path / 'tuned'}",
        0.15,
        30.0,
        **options,
        out=tmp_path / "again",
    )
    first, again = (
        read_json(tmp_path / name / "tuning.json") for name in ("tuned", "again")
    )
    assert {key for key in first if first[key] != again[key]} == {"model", "parameters"}


def test_other_questions_are_refused_by_name(
    two: Task, moody: Any, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    options = OPTIONS | {"samples": 1, "counterfactual": False}
    evaluate(two, moody, ("zero", "balanced"), out=source, **options)
    for number, (arm, changed, words) in enumerate(
        [
            ("balanced", {"m": 8}, "arm 'balanced', row .*another prompt"),
            ("zero", {"n_test": 16}, "arm 'zero', row .*never asked"),
            ("random", {}, "arm 'random', row .*never asked"),
            ("zero", {"samples": 2}, "asked only 1 times"),
        ]
    ):
        with pytest.raises(ProviderError, match=words):
            evaluate(
                two,
                f"replay:{source}",
                (arm,),
                out=tmp_path / str(number),
                **options | changed,
            )


@pytest.mark.parametrize(
    ("damage", "options", "words"),
    [
        (None, {"params": {"temperature": 1}}, "temperature is 1, .* leave it out"),
        (None, {"max_tokens": 9}, "max_tokens is 9"),
        (None, {"base_url": "http://127.0.0.1:1/v1"}, "in this process"),
        (("run.json", "{}"), {}, "run.json is damaged"),
        (("run.json", ""), {}, "name the folder of a run"),
        (("journal.jsonl.gz", "{}"), {}, "cannot read .*journal.jsonl.gz"),
        (("journal.jsonl", '{"format":"fwc-llm-journal/1"}\n'), {}, "no prompts"),
    ],
)
def test_bad_input(
    two: Task, moody: Any, tmp_path: Path, damage: Any, options: Any, words: str
) -> None:
    evaluate(
        two, moody, ("zero",), out=tmp_path, n_test=8, base_parity=None, progress=False
    )
    if damage is not None:
        (tmp_path / damage[0]).write_text(damage[1])
    with refused(words):
        open_model(f"replay:{tmp_path}", **options)


def test_an_application_is_tested_with_recorded_replies() -> None:
    first = json.loads((REAL / "journal.jsonl").read_text().splitlines()[1])
    messages = first["prefix"] + first["prompt"]
    with answers(REAL):
        said = openai.OpenAI().chat.completions.create(model="x", messages=messages)
    assert (said.choices[0].message.content, said.model) == (
        first["text"],
        first["model"],
    )
    with (
        pytest.raises(AssertionError, match="the test did not expect"),
        answers(REAL),
        pytest.raises(openai.BadRequestError),
    ):
        openai.OpenAI().chat.completions.create(model="x", messages=messages[1:])
    with pytest.raises(ProviderError, match="asked only 1 times"):
        ask(open_model(f"replay:{REAL}"), messages, times=2)
