"""`fwc-llm power`: what a design finds, what finding a difference takes, and every refusal in
one line.
"""

from pathlib import Path

import pytest

from tests.command import Run


@pytest.mark.slow
def test_it_says_what_the_design_finds(fwc: Run) -> None:
    outcome = fwc("power --task census --base-parity 0.5 --repeats 1", code=0)
    for said in (
        "600 requests",
        "22.9 points of gap at equal labels or 9.9 points",
        "fewer than 5 repeats",
        "25 % of the rows",
    ):
        assert said in outcome.out


def test_an_arm_alone_is_compared_with_nothing(fwc: Run) -> None:
    line = "power --task census --shots zero --detect 0.1 --json"
    needed = fwc(line).json["needed"]
    assert {one["question"] for one in needed} == {"gap_of_one"}
    told = fwc("power --task census --shots zero", code=0).out
    assert "a gap below" in told
    assert "two ways" not in told


def test_a_small_table_cannot_find_everything(fwc: Run, data_dir: Path) -> None:
    words = "power --task german --n-test 80 --repeats 20 --detect 0.1 --data-dir"
    outcome = fwc(words, data_dir)
    assert "too few rows for any such design" in outcome.out


def test_groups_below_min_group_are_not_planned_for(fwc: Run, data_dir: Path) -> None:
    words = "power --task german --protected sex,foreign_worker --n-test 100 --json"
    words += f" --repeats 1 --base-parity none --detect 0.3 --data-dir {data_dir}"
    large, every = (fwc(words, "--min-group", least).json for least in (30, 1))
    assert (large["min_group"], every["min_group"]) == (30, 1)
    assert large["smallest"][0]["gap"] < every["smallest"][0]["gap"]
    rows = [
        {one["question"]: one["n_test"] for one in each["needed"]}["gap"]
        for each in (large, every)
    ]
    assert rows[0] != rows[1]


@pytest.mark.slow
def test_eval_says_it_before_anything_is_paid(fwc: Run) -> None:
    small = "--task census --n-test 80"
    said = fwc(f"eval {small} --model gpt-4o-mini --shots zero --dry-run", code=0).out
    _, *lines = fwc(f"power {small} --shots zero", code=0).out.splitlines()
    assert lines
    assert said.splitlines()[-len(lines) :] == lines
