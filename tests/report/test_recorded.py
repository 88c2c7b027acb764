"""Real answers: gpt-4-0314 and gpt-3.5-turbo-0301 on the same Adult rows, as DecodingTrust recorded them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairlearn.metrics as fairlearn
import pandas as pd
import pytest
from scipy.stats import binomtest

from fwc_llm.answers import parse_answer
from fwc_llm.metrics.statistics import statistics
from fwc_llm.models.base import Reply
from fwc_llm.report.compare import compare_runs
from fwc_llm.report.read import read_run
from fwc_llm.tasks import load_task

_AGE_AND_WEIGHT = re.compile(
    r"age (\d+), .*final weight (\d+), .*occupation ([\w-]+), .*hours per week (\d+)"
)


@pytest.fixture(scope="module")
def recorded(data_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """Per model the rows of answers.csv, labels found by matching the rows with adult.test."""
    task = load_task("adult", data_dir)
    test = task.test()
    key = zip(test["age"], test["fnlwgt"], test["occupation"], test["hours-per-week"], strict=True)
    place = {tuple(map(str, values)): row for row, values in zip(test.index, key, strict=True)}
    found: dict[str, list[dict[str, Any]]] = {}
    for model in ("gpt-4-0314", "gpt-3.5-turbo-0301"):
        pairs = json.loads((data_dir / "gpt4-answers" / f"{model}_adult_0_200.jsonl").read_text())
        rows: dict[str, dict[str, Any]] = {}
        for messages, response in pairs:
            matched = _AGE_AND_WEIGHT.search(messages[-1]["content"])
            assert matched, messages
            row = place[matched.groups()]
            text = response["choices"][0]["message"]["content"]
            answer = parse_answer(Reply(text, finish_reason=response["choices"][0]["finish_reason"]))
            rows[row] = {
                "arm": "zero",
                "repeat": 0,
                "row": row,
                "variant": "",
                "group": test.at[row, "sex"],
                "label": test.at[row, "income"],
                "answer": answer.value or "",
                "reason": answer.reason,
                "p_yes": "",
                "reply": text,
            }
        found[model] = list(rows.values())
    return found


def test_the_models_are_compared_row_by_row(
    recorded: dict[str, list[dict[str, Any]]], make_folder: Callable[..., Path]
) -> None:
    folders = [
        make_folder(model, answers, task="adult", model=model, arms=["zero"])
        for model, answers in recorded.items()
    ]
    runs = [read_run(folder) for folder in folders]
    assert len(runs[0].answers["zero"]) > 190
    (arm,) = compare_runs(*runs)["arms"]
    assert arm["paired"]
    four, three = ({row["row"]: row for row in answers} for answers in recorded.values())
    both = [row for row in four if four[row]["answer"] and three[row]["answer"]]
    better = sum(four[r]["answer"] == four[r]["label"] != three[r]["answer"] for r in both)
    worse = sum(three[r]["answer"] == three[r]["label"] != four[r]["answer"] for r in both)
    assert arm["n"] == len(both)
    assert (arm["accuracy"]["worse"], arm["accuracy"]["better"]) == (better, worse)
    assert arm["accuracy"]["p_value"] == pytest.approx(binomtest(better, better + worse).pvalue, abs=0.02)


def test_gpt_4s_gap_is_fairlearns_and_more_than_chance(
    recorded: dict[str, list[dict[str, Any]]], make_folder: Callable[..., Path]
) -> None:
    answers = recorded["gpt-4-0314"]
    run = read_run(make_folder("run", answers, task="adult", model="gpt-4", arms=["zero"]))
    (arm,) = statistics(run.answered)["arms"]
    table = pd.DataFrame(answers)
    table = table[table["answer"] != ""]
    yes, truth = table["answer"] == "yes", table["label"] == "yes"
    for metric in ("demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference"):
        theirs = getattr(fairlearn, metric)(truth, yes, sensitive_features=table["group"])
        assert arm[metric]["value"] == pytest.approx(theirs)
    assert arm["accuracy"]["value"] == pytest.approx((yes == truth).mean())
    assert arm["demographic_parity_difference"]["p_value"] < 0.01
