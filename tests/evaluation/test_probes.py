"""First names beside the row, and columns that tell the group: what is asked, and what is found
of it.
"""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from fwc_llm import Client, Messages, Result, evaluate
from fwc_llm.evaluation.evaluate import prepare
from fwc_llm.metrics.perturbation_effects import changes
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import ArmAnswers
from fwc_llm.models import Message
from fwc_llm.report.formats import render
from fwc_llm.runs.plan import FIRST_NAME, name_variants, with_first_name
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import Task, census_task
from tests.metrics.worlds import answers_of
from tests.refusals import refused

CENSUS = census_task(60, 400)
QUESTION: Message = {"role": "question", "content": "Is it?"}
MEN = {"Brad", "Brendan", "Brett", "Geoffrey", "Greg", "Jay", "Matthew", "Neil", "Todd"}


def name_in(messages: Messages) -> str | None:
    found = re.search(r"^- first name: (\w+)$", messages[-1]["content"], re.MULTILINE)
    return found[1] if found else None


def run_zero(model: Any, out: Path, **options: Any) -> Result:
    return evaluate(
        CENSUS, model, arms=("zero",), n_test=40, base_parity=None, out=out, **options
    )


def run(
    model: Any, out: Path, probe: str
) -> tuple[Result, dict[tuple[str, str], Record]]:
    """The result, and the records of a probe by group and metric."""
    result = run_zero(model, out, probe=(probe,))
    found = result.records.where(arm="zero", scope=probe)
    return result, {(record.against, record.metric): record for record in found}


def test_a_model_that_goes_by_first_names_is_found_out(out: Path) -> None:
    names: list[str | None] = []

    def by_name(messages: Messages) -> float:
        names.append(name_in(messages))
        return 0.75 if names[-1] in MEN else 0.25

    result, found = run(by_name, out, "names")
    changed = found["Female", "changed"]
    yes = found["Female", "selection_rate_difference"]
    stated = found["Female", "mean_p_yes_difference"]
    assert (changed.group, changed.n) == ("Male", 40)
    assert changed.value == yes.value >= 0.8  # those of black men are not in MEN
    assert stated.value == pytest.approx(yes.value / 2)
    assert stated.low < stated.value < stated.high
    assert result.data["requests"] == len(names) == 3 * 40
    assert sum(name is None for name in names) == 40
    page = render([result.folder], "md")
    assert "First names of another group" in page
    assert "Female shown as Male" in page


def test_a_name_is_of_the_level_and_of_what_the_row_says_besides() -> None:
    levels = {"sex": ["female", "male"], "race": ["Black", "White"]}
    row = {"sex": "male", "race": "Black", "age": 40}
    found, again = (dict(name_variants(levels, "row 1", row)) for _ in range(2))
    assert found == again
    names = {variant: values[FIRST_NAME] for variant, values in found.items()}
    assert set(names) == {
        "names:sex=female",
        "names:sex=male",
        "names:race=Black",
        "names:race=White",
    }
    assert names["names:sex=male"] == names["names:race=Black"]  # a black man's
    assert names["names:race=White"] in MEN
    sentence: Messages = [
        {"role": "user", "content": "A person of age 40.\n"},
        QUESTION,
    ]
    named = with_first_name(sentence, {FIRST_NAME: "Todd"})
    assert [message["content"] for message in named] == [
        "A person of age 40.\nFirst name: Todd",
        "Is it?",
    ]
    assert with_first_name(named, {}) is named


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("names", "no lists of first names for the levels a, b"),
        ("ages", "probe"),
        ("proxies", "probe"),
    ],
)
def test_a_probe_that_a_table_has_nothing_for_is_refused(
    two: Task, probe: Any, words: str
) -> None:
    with refused(words):
        prepare(two, "x", ("zero",), Settings(n_test=16, probe=(probe,)), Client())


one_group = partial(answers_of, groups="a", label=1)


def by_metric(
    before: ArmAnswers, after: ArmAnswers, people: Any = None
) -> dict[str, Record]:
    if people is not None:
        after = replace(after, cluster=np.asarray(people).astype(str))
    return {record.metric: record for record in changes(before, after)}


def test_the_change_of_yes_holds_the_truth_where_few_answers_change(
    rng: Generator,
) -> None:
    """As a difference of two independent shares 0.88 to 0.93 of these intervals held it."""
    held = 0
    for _ in range(300):
        before = (rng.random(120) < 0.5) * 1.0
        change = rng.random(120)
        after = np.where(change < 0.04, 1.0, np.where(change > 0.99, 0.0, before))
        found = by_metric(one_group(before), one_group(after))[
            "selection_rate_difference"
        ]
        held += found.low <= 0.5 * (0.04 - 0.01) <= found.high
    assert held / 300 > 0.93


def test_changes_are_paired_and_requests_count_once(rng: Generator) -> None:
    cluster = np.repeat(np.arange(25), 20)
    before = rng.integers(0, 2, 500).astype(float)
    shift = np.repeat(rng.normal(0.1, 0.05, 25), 20)  # alike within a request
    stated = one_group(before, 0.5), one_group(before, 0.5 + shift)
    found = by_metric(*stated, cluster)["mean_p_yes_difference"]
    assert found.value == pytest.approx(shift.mean())
    width = found.high - found.low
    each = shift[::20]
    assert width == pytest.approx(
        2 * 2.064 * each.std(ddof=1) / 5, rel=0.01
    )  # t with 24 degrees of freedom
    missing = by_metric(one_group([1.0, 0.0, 1.0]), one_group([0.0, math.nan, 1.0]))
    yes = missing["selection_rate_difference"]
    assert (missing["changed"].n, missing["lost"].value) == (2, 1)
    assert (missing["changed"].value, yes.value) == (0.5, -0.5)
    assert missing["accuracy_difference"].value == -0.5
    assert yes.low < -0.5 < yes.high
