"""Statistics of seventeen designs to six digits, as recorded: a number changes by intention or
by a fault.

What the numbers mean is tested beside this file. To record: `python -m
tests.metrics.test_recorded_numbers`.
"""

import json
import re
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evals.frames import from_frame
from fwc_llm.meaning import MeaningRule
from fwc_llm.metrics.adverse_impact import impact_tables
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.planning import (
    QUESTIONS,
    Assumptions,
    Design,
    smallest,
    steps_needed,
)
from fwc_llm.metrics.prediction_powered import FeatureTable, assisted_answers
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.statistics import statistics
from tests.command import read_json
from tests.metrics.worlds import people

FILE = Path(__file__).parent.parent / "golden" / "statistics.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"


def designed(run: RunAnswers, **options: Any) -> RunAnswers:
    return replace(run, design=replace(run.design, **options))


def found(run: RunAnswers, **options: Any) -> list[Record]:
    """The records of statistics and of impact tables."""
    impact = impact_tables(run, **options)
    return list(statistics(run, impact.records).records)


def cases() -> Iterator[tuple[str, Any]]:
    """What each design gives; every design is of other options."""
    two = from_frame(people(160, 1), min_group=20)
    yield "two arms", found(two)
    drawn = impact_tables(designed(two, labels_fixed=True))
    yield "drawn by label", [*drawn.records]
    weighted = people(240, 2, arms=3, names="abcd")
    four = from_frame(
        weighted,
        weight="weight",
        cluster="person",
        against="all",
        unread="as-no",
        min_group=30,
    )
    yield "weights and people", found(four)
    many = from_frame(
        people(600, 8, arms=1, names=string.ascii_letters[:32]),
        p_yes=None,
        min_group=20,
    )
    yield "32 groups", found(many)
    crossed = (
        people(300, 9, arms=1)
        .drop(columns="group")
        .assign(sex=people(300, 9, arms=1)["group"])
    )
    both = from_frame(crossed, protected=["sex", "job"], p_yes=None)
    yield "two attributes", found(both)
    thirds = people(120, 12).replace("no", "nay")
    thirds.loc[thirds["score"] > 1, "answer"] = "maybe"
    for others in ("no", "drop"):
        rule = MeaningRule(("yes",), ("nay",), others)
        yield (
            f"other answers: {others}",
            found(
                from_frame(thirds, rules={"answer": rule, "label": rule}, min_group=1)
            ),
        )
    yield (
        "one group",
        found(from_frame(people(60, 10, repeats=2, names="f"), least_groups=1)),
    )
    denied = people(400, 11)
    denied["answer"] = np.where(denied["score"] > 2.5, "yes", "no")
    yield "nearly all no", found(designed(from_frame(denied), model=True))
    strategy = from_frame(
        people(60, 3, repeats=5), "group and label", margin=0.1, min_group=1
    )
    yield "five draws of examples", found(strategy)
    given = from_frame(people(200, 4), given="job", label=None, min_group=1)
    yield "given the job, without labels", found(given)
    again = from_frame(people(80, 5, repeats=4), min_group=1)
    yield "asked twice", found(designed(again, times=2))
    pool = people(900, 6, arms=1)[["row", "group", "label", "score", "job"]]
    asked = people(900, 6)
    asked = asked[asked["row"].isin([f"r{k}" for k in range(220)])][
        ["row", "arm", "group", "label", "answer", "p_yes"]
    ]
    labels = (pool["label"] == "yes").to_numpy(dtype=np.int64)
    rows, group = pd.Index(pool["row"]), pool["group"].to_numpy()
    table = FeatureTable(rows, group, labels, pool[["score", "job"]])
    assisted = assisted_answers(from_frame(asked, min_group=1), table)
    yield ("predictions", found(assisted))
    told = people(90, 7)
    changed = {}
    for arm, a in from_frame(
        told.assign(answer=told["label"]), min_group=1
    ).answers.items():
        changed[arm] = replace(
            a, variant=[f"told:{'m' if group == 'f' else 'f'}" for group in a.group]
        )
    yield (
        "counterfactuals",
        found(replace(from_frame(told, min_group=1), counterfactuals=changed)),
    )
    plan = Design(
        ("f", "m"),
        np.array([[40.0, 60], [60, 40]]),
        np.array([[400.0, 300], [500, 200]]),
        3,
    )
    steps = replace(plan, rows=plan.rows / 10)
    needed = [
        steps_needed(0.15, question, steps, Assumptions(), False)
        for question in QUESTIONS
    ]
    yield ("planning", plain({"found": [smallest(plan), needed]}))


@pytest.fixture(scope="module")
def found_cases() -> list[tuple[str, Any]]:
    return list(cases())


def numbers(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and verdict of records and documents, with its place."""
    if isinstance(content, Record):
        place = "/".join(str(part) for part in content.key)
        cells = content.plain()
        for name in ("value", "low", "high", "p", "verdict", "n"):
            if name in cells:
                yield from numbers(cells[name], f"{place}/{name}")
    elif isinstance(content, dict | list | tuple):
        for key, value in (
            content.items() if isinstance(content, dict) else enumerate(content)
        ):
            yield from numbers(value, f"{path}/{key}")
    elif not isinstance(content, str) or path.endswith("/verdict"):
        yield path, float(f"{content:.6g}") if isinstance(content, float) else content


def test_the_numbers_of_each_design_are_those_recorded(
    found_cases: list[tuple[str, Any]],
) -> None:
    recorded = read_json(FILE)
    for name, content in found_cases:
        places, values = zip(*numbers(content), strict=True)
        assert len(values) == len(recorded[name]), name
        for place, value, expected in zip(places, values, recorded[name], strict=True):
            if isinstance(expected, float):
                near = pytest.approx(expected, rel=1e-4, abs=1e-6)
            else:
                near = expected
            assert value == near, f"{name}: {place}"


def test_a_p_value_agrees_with_the_interval_beside_it(
    found_cases: list[tuple[str, Any]],
) -> None:
    """Whether replies are unread, groups many, or comparisons corrected."""
    told = 0
    for name, content in found_cases:
        for record in records_in(content):
            if record.p == record.p and record.low == record.low:
                equal = 1.0 if record.metric.endswith("ratio") else 0.0
                excludes = not record.low <= equal <= record.high
                assert (record.p < 0.05) == excludes, f"{name}: {record}"
                told += excludes
    assert told > 50


def test_n_counts_the_questions_of_a_repeat_and_of_two_arms() -> None:
    """Whether or not their replies were read."""
    records = statistics(from_frame(people(60, 3, repeats=3), min_group=1)).records
    of_repeats = [r.n for r in records.where(metric="dp_gap", arm="arm 0")]
    assert sorted(of_repeats)[:4] == [60, 60, 60, 180]
    assert {r.n for r in records.where(metric="accuracy_difference")} == {180}


def test_an_arm_without_p_yes_says_so_beside_one_with_it() -> None:
    frame = people(60, 3)
    frame.loc[frame["arm"] == "arm 1", "p_yes"] = np.nan
    records = statistics(from_frame(frame, min_group=1)).records
    for metric in ("auc_gap", "brier_gap"):
        assert records.of(metric, "arm 0").known
        assert not records.of(metric, "arm 1").known
        assert "P(yes)" in records.of(metric, "arm 1").reason


def records_in(content: Any) -> Iterator[Record]:
    if isinstance(content, Record):
        yield content
    elif isinstance(content, list | tuple):
        for part in content:
            yield from records_in(part)


def test_the_page_of_the_format_names_every_metric_and_scope(
    found_cases: list[tuple[str, Any]],
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    ends = "|".join(re.findall(r"`METRIC(_\w+)`", page))
    for name, content in found_cases:
        for record in records_in(content):
            assert record.scope in page, name
            metric = re.sub(r"^(threshold|ties_at)_\w+", r"\1_half", record.metric)
            while f"`{metric}`" not in page:
                shorter = re.sub(rf"({ends}|_gap)$", "", metric)
                assert shorter != metric, f"{name}: {record.metric}"
                metric = shorter


if __name__ == "__main__":
    lines = (
        f"{json.dumps(name)}: {json.dumps([v for _, v in numbers(content)])}"
        for name, content in cases()
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
