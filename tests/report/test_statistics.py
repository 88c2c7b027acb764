"""The statistics of a run: what its answers were made of comes out again, and oddities are said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import FwcError, Result, audit, evaluate, load_task
from fwc_llm.metrics.counts import METRICS
from fwc_llm.metrics.statistics import statistics
from fwc_llm.models.openai.prices import price_of
from fwc_llm.report.cost import cost, cost_line
from fwc_llm.report.document import make_document
from fwc_llm.report.narrative import missed
from fwc_llm.report.sections import first
from fwc_llm.report.table_model import Scale
from fwc_llm.runs.recorded_run import PREDICTIONS, read_run
from fwc_llm.tasks import Task
from tests.people import make_people, write_people
from tests.report.conftest import MakeRun


def arm_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(arm for arm in found["arms"] if arm["arm"] == name)


def test_they_agree_with_results_json(make_run: MakeRun) -> None:
    folder = make_run()
    text = json.dumps(
        statistics(read_run(folder).answered), allow_nan=False
    )  # as readers of it have them
    found = json.loads(text)
    results = json.loads((folder / "results.json").read_text())
    for said in results["arms"]:
        arm = arm_of(found, said["arm"])
        assert arm["n"] == said["n"]
        assert arm["coverage"] == pytest.approx(said["coverage"])
        assert arm["accuracy"]["value"] == pytest.approx(said["accuracy"])
        for metric in METRICS:
            assert arm[metric]["paper_summary"]["mean"] == pytest.approx(said[metric])
            assert arm[metric]["paper_summary"]["sd"] == pytest.approx(said[f"{metric}_sd"])
            assert arm[metric]["low"] <= arm[metric]["value"] <= arm[metric]["high"]
        assert {name: group["rate"] for name, group in arm["groups"].items()} == pytest.approx(
            said["rates"]
        )


# --- Where the charts' marks stand


def test_the_first_table_is_drawn_at_its_values(make_run: MakeRun) -> None:
    """Arms by their gap, the true answers last; each chart's marks are the cell's own numbers."""
    found = statistics(read_run(make_run(unparsed=0.0)).answered)
    table = first(found)
    assert [row[0] for row in table.rows] == ["fwc", "balanced", "zero", "true answers"]
    gap = list(table.headings).index("DP gap")
    assert table.scales[gap].line == pytest.approx(0.5)
    for row in table.rows[:-1]:
        arm = arm_of(found, row[0])["dp_gap"]
        assert row[gap].plotted == (arm["low"], arm["value"], arm["high"])
        assert table.scales[gap].at(arm["value"]) == pytest.approx(
            100 * arm["value"] / table.scales[gap].high, abs=0.01
        )
    assert Scale(0.0, 0.5).at(2.0) == 100.0


# --- What a run used and cost


def results(**changes: Any) -> dict[str, Any]:
    tokens = {"prompt_tokens": 1_000_000, "completion_tokens": 1_000, "cached_tokens": 0}
    return {
        "model": "gpt-4o",
        "simulated": False,
        "requests": 5,
        "unanswered": 0,
        "usage": tokens,
        **changes,
    }


def test_dollars_are_tokens_times_prices() -> None:
    price = price_of("gpt-4o")
    found = cost(results(), {})
    assert found["dollars"] == pytest.approx(price.input + price.output / 1000)
    assert found["price_date"] == price.date


def test_a_simulation_and_an_unknown_model_have_no_dollars() -> None:
    assert "dollars" not in cost(results(simulated=True), {})
    assert "dollars" in cost(results(simulated=True, simulated_answers=False), {}), (
        "a real model, simulated rows"
    )
    assert "dollars" not in cost(results(model="my-model"), {})
    assert cost_line(results(model="my-model"), {}).startswith("used 1,000,000 prompt tokens")
    assert "$" in cost_line(results(), {})


# --- What a design finds and misses


def answers(repeats: int) -> pd.DataFrame:
    """Rows of their own in every repeat; arms that differ on a fifth of them."""
    rng = np.random.default_rng(0)
    row = np.arange(200 * repeats)
    asked = pd.DataFrame({"repeat": row // 200, "row": row, "group": np.array(["a", "b"])[row % 2]})
    asked["label"], zero = rng.choice(["no", "yes"], (2, len(row)))
    fwc = np.where(rng.random(len(row)) < 0.2, np.where(zero == "yes", "no", "yes"), zero)
    examples = asked["repeat"].astype(str)
    arms = {"zero": zero, "fwc": fwc}.items()
    parts = [asked.assign(arm=arm, answer=said, examples=arm + examples) for arm, said in arms]
    return pd.concat(parts, ignore_index=True)


def test_a_run_says_what_it_would_miss() -> None:
    found = audit(answers(1)).to_dict()
    (test,) = found["comparisons"]
    shown = test["accuracy"]
    error = (shown["high"] - shown["low"]) / 2 / 1.959964
    assert shown["smallest_found"] == pytest.approx(2.801585 * error, rel=1e-4)
    assert shown["smallest_found"] == pytest.approx(
        2.8016 * np.sqrt(0.2 / 200), rel=0.15
    )  # a fifth differ
    gap = test["dp_gap"]["smallest_found"]
    assert gap == pytest.approx(2 * shown["smallest_found"], rel=0.1)
    alone = found["arms"][0]["dp_gap"]
    assert alone["smallest_found"] == pytest.approx(2.8016 * 2 * np.sqrt(0.25 / 200), rel=0.1)
    (note,) = missed(found)
    assert (
        f"{100 * gap:.1f} points of DP gap or {100 * shown['smallest_found']:.1f} points of "
        f"accuracy" in note
    )
    assert "(these examples)" in note


def test_it_says_so_of_strategies_where_it_can() -> None:
    for repeats, of in ((3, "these examples"), (8, "this strategy")):
        found = audit(answers(repeats)).to_dict()
        (note,) = missed(found)
        assert f"({of})" in note
    (test,) = found["comparisons"]
    assert test["accuracy"]["smallest_found"] > test["these_examples"]["accuracy"]["smallest_found"]


# --- Assisted values of a run


GAP = "dp_gap"


def run(task: Task, out: Path, **options: Any) -> Result:
    return evaluate(task, "baseline", ["zero"], out=out, n_test=80, base_parity=None, **options)


def gap(result: Result) -> dict[str, Any]:
    return result.audit().to_dict()["arms"][0][GAP]


def test_predictions_are_made_when_asked_for_and_kept(two: Task, tmp_path: Path) -> None:
    result = run(two, tmp_path / "run")
    assert not (result.folder / PREDICTIONS).is_file()
    result.assisted()
    found = gap(result)
    worth = found["assisted"]["rows_worth"]
    assert worth > 80
    shown = f"effective sample size about {float(f'{worth:.2g}'):,.0f}"
    assert any(shown in note for note in result.audit().to_dict()["notes"])
    assisted = result.assisted().to_dict()
    assert assisted["assisted"]
    value = assisted["arms"][0][GAP]
    assert all(value[name] == found["assisted"][name] for name in ("value", "low", "high"))
    assert value["high"] - value["low"] < found["high"] - found["low"]
    shown = make_document([result.folder], assist=True)["runs"][0]["statistics"]
    assert shown["arms"][0][GAP]["value"] == value["value"]


def test_assist_said_before_asking_is_in_verdicts_and_gates(two: Task, tmp_path: Path) -> None:
    plain, assisted = (run(two, tmp_path / str(assist), assist=assist) for assist in (False, True))
    wide = plain.assisted().to_dict()["arms"][0][GAP]
    assert gap(assisted)["value"] == wide["value"]
    bound = (wide["high"] + gap(plain)["high"]) / 2
    assert assisted.check(f"dp_gap > {bound:.6f}").outcome == "passed"
    assert plain.check(f"dp_gap > {bound:.6f}").outcome == "undecided"


def test_predictions_of_other_answers_or_another_table_are_not_used(
    two: Task, tmp_path: Path
) -> None:
    result = run(two, tmp_path / "run")
    result.assisted()
    kept = result.folder / PREDICTIONS
    kept.write_text(kept.read_text().replace('"answers": "', '"answers": "x'))
    assert "assisted" not in gap(result)
    assert "assisted" in result.assisted().to_dict()["arms"][0][GAP], (
        "made again from the task's table"
    )
    kept.write_text("{}")
    other = load_task(write_people(tmp_path / "other", make_people(240, 2, seed=9)))
    with pytest.raises(FwcError, match="not the table"):
        Result(result.folder, result.data, other).assisted()
