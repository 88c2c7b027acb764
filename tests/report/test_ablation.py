"""The ablation: arms that differ in one part each, and the steps between them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from fwc_llm import evaluate, load_task
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.ablation import ablation_notes, ablation_rows, ablation_steps
from fwc_llm.report.read import read_run
from fwc_llm.runs.ablation import ARMS, OPTIONS, STEPS
from fwc_llm.runs.folder import file_name
from fwc_llm.shots import load_shots


@pytest.mark.slow
def test_each_step_changes_one_part_and_the_parts_add_up(tmp_path: Path) -> None:
    task = load_task("census")
    result = evaluate(
        task, "surrogate", ARMS, m=8, n_test=16, repeats=5, strategy_options=OPTIONS, out=tmp_path / "run",
        progress=False,
    )  # fmt: skip
    shots = {
        arm: [load_shots(tmp_path / "run" / "shots" / f"{file_name(arm)}-{r}.json", task) for r in range(5)]
        for arm in ARMS
    }

    def cells(arm: str) -> list[Counter[tuple[str, str]]]:
        return [Counter((str(e.values["sex"]), e.label) for e in one.examples) for one in shots[arm]]

    def rows(arm: str) -> list[list[str]]:
        return [[example.row for example in one.examples] for one in shots[arm]]

    def sets(arm: str) -> list[list[str]]:
        return [sorted(one) for one in rows(arm)]

    assert cells("strata") == cells("fwc") != cells("balanced")
    assert sets("strata") != sets("fwc")
    assert rows("fwc+unweighted@alternate") == rows("fwc@alternate")
    assert sets("fwc@random") == sets("fwc") == sets("fwc@alternate")
    assert rows("fwc@random") != rows("fwc") != rows("fwc@alternate")
    prompts = {arm: (tmp_path / "run" / "prompts" / f"{file_name(arm)}.json").read_text() for arm in ARMS}
    weighted = {arm for arm, text in prompts.items() if "Weight of this example" in text}
    assert weighted == {"fwc@alternate", "fwc", "fwc@random"}

    found = statistics(read_run(result.folder).answered)
    steps = {step["part"]: step for step in ablation_steps(found)}
    assert list(steps) == [step.part for step in STEPS]
    assert {step["of"] for step in steps.values()} == {"this strategy"}
    for metric in ("accuracy", "demographic_parity_difference"):
        parts = [steps[part][metric]["difference"] for part in ("slots", "geometry", "weights", "order")]
        assert sum(parts) == pytest.approx(steps["all of FWC"][metric]["difference"], abs=1e-12)
    apart = {(test["first"], test["second"]): test for test in found["comparisons"]}
    for step in STEPS:  # corrected over the steps alone, and what the report shows is left as it was
        whole = apart[step.first, step.second]["accuracy"]["p_adjusted"]
        assert steps[step.part]["accuracy"]["p_adjusted"] <= whole
    assert len(ablation_rows(found)) == len(STEPS)
    assert "other draws of the examples" in ablation_notes(found)[0]

    # The run's own experiment file names the same arms again.
    text = (tmp_path / "run" / "experiment.toml").read_text()
    assert f"shots = {json.dumps(','.join(ARMS))}" in text
