"""The arms that set apart FWC's slots, geometry, weights and order."""

from collections import Counter
from pathlib import Path

import pytest

from evals.ablate import ARMS, OPTIONS, STEPS, ablation_rows, ablation_steps
from fwc_llm import evaluate, load_shots, load_task
from fwc_llm.metrics.statistics import statistics
from fwc_llm.runs.folder import file_name
from fwc_llm.runs.recorded_run import read_run


@pytest.mark.slow
def test_each_step_changes_one_part_and_the_parts_add_up(tmp_path: Path) -> None:
    task = load_task("census")
    run, options = tmp_path / "run", {"m": 8, "n_test": 16, "repeats": 5, "strategy_options": OPTIONS}
    result = evaluate(task, "surrogate", ARMS, out=run, progress=False, **options)
    cells, rows, sets = {}, {}, {}
    for arm in ARMS:
        files = [run / "shots" / f"{file_name(arm)}-{repeat}.json" for repeat in range(5)]
        shown = [load_shots(file, task).examples for file in files]
        cells[arm] = [Counter((str(e.values["sex"]), e.label) for e in one) for one in shown]
        rows[arm] = [[example.row for example in one] for one in shown]
        sets[arm] = [sorted(one) for one in rows[arm]]
    assert cells["strata"] == cells["fwc"] != cells["balanced"]
    assert sets["strata"] != sets["fwc"]
    assert rows["fwc+unweighted@alternate"] == rows["fwc@alternate"]
    assert sets["fwc@random"] == sets["fwc"] == sets["fwc@alternate"]
    assert rows["fwc@random"] != rows["fwc"] != rows["fwc@alternate"]
    prompts = {arm: (run / "prompts" / f"{file_name(arm)}.json").read_text() for arm in ARMS}
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
    assert len(ablation_rows(ablation_steps(found))) == len(STEPS)
    for test in found["comparisons"]:  # as with fewer repeats than tell strategies apart
        test["accuracy"]["p_value"] = None
    assert "p " not in ablation_rows(ablation_steps(found))[0][3]
