"""Prompt arms: `removal` takes the protected attribute out of every text, `instruction` asks for
fairness.
"""

import json
from pathlib import Path

import pytest

from fwc_llm.prompts import Prompt, split_edits
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import select_shots
from fwc_llm.tasks import Task, revealing_columns
from tests.refusals import refused
from tests.wordings import CHATS, template_set


def test_the_columns_that_name_the_protected_attribute_are_found(
    census: Task, two: Task
) -> None:
    assert revealing_columns(census) == ("sex", "relationship")
    assert revealing_columns(two) == ("group",)


@pytest.mark.parametrize("template", CHATS)
def test_removal_leaves_no_trace_in_any_built_in_wording(
    census: Task, template: str
) -> None:
    shots = select_shots(census, "random", 12)
    row = census.test().iloc[0]
    text = json.dumps(Prompt(census, shots, template, edits=("removal",)).build(row))
    for word in ("Male", "Female", "Husband", "Wife", "sex", "relationship"):
        assert word not in text
    assert "race" in text
    whole = json.dumps(Prompt(census, shots, template).build(row))
    assert "sex" in whole
    assert "relationship" in whole


@pytest.mark.parametrize("template", CHATS)
def test_an_instruction_is_one_more_sentence_in_the_first_message(
    census: Task, template: str
) -> None:
    row = census.test().iloc[0]
    for shots in (None, select_shots(census, "balanced", 8)):
        plain = Prompt(census, shots, template).build(row)
        asked = Prompt(census, shots, template, edits=("instruction",)).build(row)
        assert asked[1:] == plain[1:]
        assert len(asked[0]["content"]) > len(plain[0]["content"])
        assert "differ in sex alone." in asked[0]["content"]
        both = Prompt(census, shots, template, edits=("instruction", "removal")).build(
            row
        )
        assert "sex" not in json.dumps(both)
        assert "differ in group alone." in both[0]["content"]


def test_an_own_template_without_the_sentence_or_the_guard_is_refused(
    two: Task, tmp_path: Path
) -> None:
    template_set(
        tmp_path, query='{% call message("user") %}{{ row["group"] }}{% endcall %}'
    )
    with refused("has no sentence for `instruction`"):
        Prompt(two, None, tmp_path, edits=("instruction",))
    with refused("`removal` takes 'group' out of the texts"):
        Prompt(two, None, tmp_path, edits=("removal",)).build(two.test().iloc[0])
    with refused("no edit 'politeness'"):
        Prompt(two, None, edits=("politeness",))


def test_edits_combine_with_any_arm_which_keeps_its_examples(two: Task) -> None:
    assert split_edits("fwc+removal+instruction") == ("fwc", ("removal", "instruction"))
    assert split_edits("instruction") == ("zero", ("instruction",))
    assert split_edits("my+file.json+removal") == ("my+file.json", ("removal",))
    with refused("twice"):
        split_edits("fwc+removal+removal")
    arms = ("random", "random+instruction", "random+removal", "removal")
    plan = make_plan(two, arms, Settings(m=4, n_test=8, base_parity=0.0))
    repeat = plan.repeats[0]
    assert [arm.name for arm in plan.arms] == list(arms)
    assert (
        repeat.shots["random"]
        == repeat.shots["random+instruction"]
        == repeat.shots["random+removal"]
    )
    assert repeat.shots["removal"].m == 0
    prompts = {arm.name: json.dumps(plan.prompt(arm)) for arm in plan.arms}
    assert len(set(prompts.values())) == 4
