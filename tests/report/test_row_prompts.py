"""The prompts of a report's rows are those that were sent."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evals.frames import from_frame
from fwc_llm.evaluation.evaluate import evaluate
from fwc_llm.models.base import Messages, Reply
from fwc_llm.report.rows import MOST_ROWS, RowBlock, chosen, rows_of_run
from fwc_llm.runs.recorded_run import read_run
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import load_task
from tests.command import read_json
from tests.models.four_members import FourMembers

TASK = load_task("census")


class Listener(FourMembers):
    """Answers yes, and keeps what it was sent."""

    name = "listener"
    simulated = True

    def __init__(self) -> None:
        self.heard: list[Messages] = []

    async def ask(self, messages: Messages) -> Reply:
        self.heard.append([dict(message) for message in messages])  # type: ignore[misc]
        return Reply("Yes")


def run(out: Path, arms: list[str], **options: Any) -> tuple[Path, list[Messages]]:
    listener = Listener()
    settings = Settings(m=4, n_test=6, base_parity=None, **options)
    return evaluate(
        TASK, listener, arms, settings=settings, out=out
    ).folder, listener.heard


def shown(found: Mapping[str, Any]) -> list[list[tuple[str, str]]]:
    """Every prompt of the block, put together as the page does."""
    data = found["data"]
    said = [one for row in data["rows"] for one in (*row["answers"], *row["twins"])]
    parts = [
        [data["prompts"][place] for place in one["prompt"]]
        for one in said
        if "prompt" in one
    ]
    return [[(role, text) for role, _, text in first + query] for first, query in parts]


def sent(heard: list[Messages]) -> list[list[tuple[str, str]]]:
    return [[(m["role"], m["content"]) for m in messages] for messages in heard]


@pytest.fixture(scope="module")
def folder_and_heard(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, list[Messages]]:
    orders = ("random", "given")
    arms = ["zero", "instruction", *(f"balanced@{order}" for order in orders)]
    arms += [f"balanced+removal@{order}" for order in orders]
    options: dict[str, Any] = {"repeats": 2, "counterfactual": True}
    return run(tmp_path_factory.mktemp("prompts") / "run", arms, **options)


def test_every_prompt_is_the_one_that_was_sent(
    folder_and_heard: tuple[Path, list[Messages]],
) -> None:
    """With edits, orders, repeats and the protected attribute changed."""
    folder, heard = folder_and_heard
    found = rows_of_run(read_run(folder))
    assert (found["shown"], found["of"], found["missing"]) == (12, 12, {})
    assert sorted(shown(found)) == sorted(sent(heard))


def test_examples_chosen_for_every_row_are_shown(out: Path) -> None:
    folder, heard = run(out, ["nearest"])
    assert sorted(shown(rows_of_run(read_run(folder)))) == sorted(sent(heard))


def test_a_run_may_forbid_its_rows(
    folder_and_heard: tuple[Path, list[Messages]], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folder_and_heard[0], tmp_path / "copy"))
    described = read_json(folder / "run.json")
    (folder / "run.json").write_text(json.dumps(described | {"no_rows": True}))
    assert rows_of_run(read_run(folder)) is None


# --- The block of rows


SAID = {"answer": "yes", "reason": "", "p_yes": "0.25", "reply": "Yes"}


def asked(text: str) -> tuple[Messages, Messages]:
    return [{"role": "system", "content": "Answer."}], [
        {"role": "user", "content": text}
    ]


def block_of(rows: list[str], arms: list[str], group: str = "A") -> RowBlock:
    frame = pd.DataFrame({"row": rows, "group": group, "label": "no", "answer": "yes"})
    frames = [frame.assign(arm=arm) for arm in arms]
    return RowBlock(from_frame(pd.concat(frames), least_groups=1).answers)


def test_prompts_are_stored_once_and_long_replies_are_cut() -> None:
    block = block_of(["r0", "r1", "r2"], ["zero", "fwc"])
    answers = [block.answer(SAID, *asked("Record")) for _ in block.rows]
    long = block.answer(SAID | {"reply": "x" * 100_000})
    assert (
        answers == [{"answer": "yes", "p": 0.25, "reply": "Yes", "prompt": [0, 1]}] * 3
    )
    found = block.as_json({})["data"]
    assert found["prompts"] == [(("system", "", "Answer."),), (("user", "", "Record"),)]
    assert len(long["reply"]) <= 2_000
    assert "it had 100,000 characters" in long["reply"]
    assert block.answer(
        {"answer": "", "reason": "error", "p_yes": "", "reply": ""}
    ) == {"reason": "error"}


def test_what_turns_text_around_or_steers_a_terminal_is_shown() -> None:
    block = block_of(["r\x1b[31m"], ["zero\u202e"], "A\u2066")
    (row,) = block.rows.values()
    row["answers"] = [
        block.answer(SAID | {"reply": "\u202eoN\x00"}, *asked("a\u200fb"))
    ]
    shown = json.dumps(block.as_json({}), ensure_ascii=False)
    assert not {"\u202e", "\x1b", "\u2066", "\x00", "\u200f"} & set(shown)
    assert "⟨U+202E⟩oN⟨U+0000⟩" in shown


def test_the_page_has_room_for_so_much_and_no_more() -> None:
    block = block_of(["r"], ["zero"])
    answers = []
    for number in range(
        25
    ):  # a message may have millions of characters, of which 65,536 are shown
        messages: Messages = [
            {"role": "user", "content": f"{number}" + "x" * 66_000} for _ in range(20)
        ]
        answers.append(block.answer(SAID, [], messages))
    assert len(json.dumps(block.as_json({}))) < 35_000_000
    prompts = block.as_json({})["data"]["prompts"]
    texts = [prompts[answer["prompt"][1]][0][2] for answer in answers]
    assert texts[0].startswith("0xxx")
    assert texts[-1] == "[left out: the page would be too large]"


def test_a_sample_is_said_by_its_numbers_and_always_the_same() -> None:
    assert chosen(10_000, 3) == list(range(10_000))
    sample = chosen(50_000, 1)
    assert len(sample) == MOST_ROWS == len(set(sample))
    assert sample == sorted(sample) == chosen(50_000, 1)
    assert len(chosen(50_000, 40)) == 3_000  # arms count as well
