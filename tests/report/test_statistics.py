"""The statistics of a run: what its answers were made of comes out again, and oddities are said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm.metrics.counts import METRICS
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.read import read_run

MakeRun = Callable[..., Path]


def found_in(folder: Path) -> dict[str, Any]:
    """The statistics as any reader of the JSON gets them."""
    read: dict[str, Any] = json.loads(json.dumps(statistics(read_run(folder).answered), allow_nan=False))
    return read


def arm_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(arm for arm in found["arms"] if arm["arm"] == name)


def test_they_agree_with_results_json(make_run: MakeRun) -> None:
    folder = make_run()
    found, results = found_in(folder), json.loads((folder / "results.json").read_text())
    for said in results["arms"]:
        arm = arm_of(found, said["arm"])
        assert arm["n"] == said["n"]
        assert arm["coverage"] == pytest.approx(said["coverage"])
        assert arm["accuracy"]["value"] == pytest.approx(said["accuracy"])
        for metric in METRICS:
            assert arm[metric]["paper_summary"]["mean"] == pytest.approx(said[metric])
            assert arm[metric]["sd"] == pytest.approx(said[f"{metric}_sd"])
            assert arm[metric]["per_repeat"] == pytest.approx([one[metric] for one in said["per_repeat"]])
            assert arm[metric]["low"] <= arm[metric]["value"] <= arm[metric]["high"]
        assert {name: group["rate"] for name, group in arm["groups"].items()} == pytest.approx(said["rates"])


def test_the_arms_that_differ_are_told_apart_and_no_others(make_run: MakeRun) -> None:
    same = {"Female": (0.2, 0.6), "Male": (0.4, 0.8)}
    rates = {"zero": {"Female": (0.05, 0.5), "Male": (0.5, 0.95)}, "one": same, "two": same}
    found = found_in(make_run(rates=rates))
    verdicts = {
        (test["first"], test["second"]): test["demographic_parity_difference"]["distinguishable"]
        for test in found["comparisons"]
    }
    assert verdicts == {("zero", "one"): True, ("zero", "two"): True, ("one", "two"): False}
    for test in found["comparisons"]:  # those with the first arm are decided together, metric by metric
        for one in (test[metric] for metric in METRICS[:2]):
            k = 2 if test["first"] == "zero" else 1
            assert one["p_adjusted"] == pytest.approx(min(1.0, k * one["p_value"]))
            assert one["distinguishable"] == (one["verdict"] == "differs")


def test_equal_treatment_stays_within_the_noise_floor(make_run: MakeRun) -> None:
    alike = {"Female": (0.4, 0.4), "Male": (0.4, 0.4)}
    arm = arm_of(found_in(make_run(rates={"zero": alike}, repeats=1, seed=1)), "zero")
    gap = arm["demographic_parity_difference"]
    assert gap["p_value"] > 0.05
    assert gap["value"] <= gap["noise_95"] < 0.16


def test_probabilities_rank_and_can_be_equalised(make_run: MakeRun) -> None:
    arm = arm_of(found_in(make_run(repeats=2, probabilities=True)), "zero")
    p = arm["probabilities"]
    assert p["n"] == 400
    assert p["auc"] > 0.8
    equal = p["equal_rate_thresholds"]["demographic_parity_difference"]
    assert equal < 0.5 * arm["demographic_parity_difference"]["value"]


def silent(folder: Path, group: str) -> Path:
    """Take every answer of one group away, in the answers and in the results."""
    import csv

    path = folder / "answers.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["group"] == group:
            row |= {"answer": "", "reason": "refused"}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    results = json.loads((folder / "results.json").read_text())
    for arm in results["arms"]:
        kept = [row for row in rows if row["arm"] == arm["arm"] and row["answer"]]
        arm["accuracy"] = float(np.mean([row["answer"] == row["label"] for row in kept]))
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_one_group_without_answers_leaves_gaps_with_reasons(make_run: MakeRun) -> None:
    found = found_in(silent(make_run(repeats=1), "Male"))
    arm = arm_of(found, "fwc")
    assert arm["demographic_parity_difference"]["value"] is None
    assert arm["reasons"]["demographic_parity_difference"] == "no parsed answer in group Male"
    assert arm["accuracy"]["value"] > 0
    assert arm["groups"]["Male"]["rate"] is None
    assert arm["groups"]["Male"]["coverage"] == 0
    assert "fwc: no parsed answer in group Male." in found["notes"]
    assert found["comparisons"][0]["demographic_parity_difference"]["distinguishable"] is None
    assert found["comparisons"][0]["accuracy"]["p_value"] <= 1
    assert arm["treatments"]["as-no"]["demographic_parity_difference"] > 0


RATES_FWC = {"Female": (0.25, 0.62), "Male": (0.22, 0.60)}


def test_orders_of_one_source_share_its_spread(make_run: MakeRun) -> None:
    rates = {"fwc@given": RATES_FWC, "fwc@random": RATES_FWC, "zero": RATES_FWC}
    own = {f"fwc@{order}": {"family": "fwc", "order": order, "template": ""} for order in ("given", "random")}
    found = found_in(make_run(rates=rates, variations=own))
    split = arm_of(found, "fwc@given")["variance"]["accuracy"]
    assert split == arm_of(found, "fwc@random")["variance"]["accuracy"] | {"rows": split["rows"]}
    assert split["order"] > 0
    assert arm_of(found, "zero")["variance"]["accuracy"]["order"] is None
    # Of about 97 rows a repeat each right with probability ~0.7.
    assert split["rows"] == pytest.approx(0.21 / 196, rel=0.25)
