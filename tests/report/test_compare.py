"""What changed between two runs, and whether the answers differ."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fwc_llm import evaluate
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.compare import compare_runs, comparison_table
from fwc_llm.report.narrative import what_was_run
from fwc_llm.report.read import read_run
from fwc_llm.report.terminal import as_text
from fwc_llm.tasks import load_task
from tests.data.tables import write_task

MakeRun = Callable[..., Path]
FAIR = {"Female": (0.3, 0.6), "Male": (0.3, 0.6)}
UNFAIR = {"Female": (0.05, 0.5), "Male": (0.5, 0.95)}


def test_a_change_in_the_answers_is_more_than_noise(make_run: MakeRun) -> None:
    first = read_run(make_run("a", rates={"fwc": UNFAIR, "old": FAIR}))
    second = read_run(make_run("b", rates={"fwc": FAIR, "new": FAIR}, seed=1, model="gpt-4o"))
    compared = compare_runs(first, second)
    (arm,) = compared["arms"]
    gap = arm["demographic_parity_difference"]
    assert arm["paired"]
    assert gap["distinguishable"]
    assert gap["difference"] < -0.2
    assert gap["second"] - gap["first"] == pytest.approx(gap["difference"], abs=0.03)
    assert (compared["only_first"], compared["only_second"]) == (["old"], ["new"])
    changed = {one["name"]: (one["first"], one["second"]) for one in compared["changed"]}
    assert changed == {"model": ("gpt-4", "gpt-4o"), "seed": ("0", "1")}
    assert "differs" in as_text(comparison_table(compared))


def test_another_seed_of_the_same_answers_is_noise(make_run: MakeRun) -> None:
    compared = compare_runs(read_run(make_run("a", seed=0)), read_run(make_run("b", seed=1)))
    assert len(compared["arms"]) == 3
    for arm in compared["arms"]:
        for metric in ("accuracy", "demographic_parity_difference"):
            assert arm[metric]["distinguishable"] is False
    text = as_text(comparison_table(compared))
    assert text.count("cannot be told") + text.count("no difference shown") == 6
    assert "Paired on the rows" in text


@pytest.mark.parametrize(("second_rates", "told_apart"), [(UNFAIR, False), (FAIR, True)])
def test_runs_over_different_rows_are_independent(
    make_run: MakeRun, second_rates: dict, told_apart: bool
) -> None:
    first = make_run("a", rates={"fwc": UNFAIR}, seed=3)
    second = make_run("b", rates={"fwc": second_rates}, seed=4, fingerprint="1" * 64)
    compared = compare_runs(read_run(first), read_run(second))
    (arm,) = compared["arms"]
    assert not arm["paired"]
    gap = arm["demographic_parity_difference"]
    assert gap["distinguishable"] is told_apart
    assert gap["low"] <= gap["difference"] <= gap["high"]
    assert any("different versions of the table" in note for note in compared["notes"])
    assert "independent samples" in as_text(comparison_table(compared))


def test_a_run_against_itself_is_the_same(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    compared = compare_runs(run, run)
    assert compared["changed"] == []
    assert all(arm["accuracy"]["difference"] == 0 for arm in compared["arms"])
    assert all(arm["accuracy"]["p_adjusted"] == 1 for arm in compared["arms"])
    assert "Nothing changed" in as_text(comparison_table(compared))


def test_runs_without_a_common_arm_say_so(make_run: MakeRun) -> None:
    compared = compare_runs(
        read_run(make_run("a", rates={"x": FAIR}, repeats=1)),
        read_run(make_run("b", rates={"y": FAIR}, repeats=1)),
    )
    assert compared["arms"] == []
    assert "no arm in common" in as_text(comparison_table(compared))


def test_a_run_that_is_not_complete_says_so_everywhere(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    requests = run.results["requests"]
    part = replace(run, results={**run.results, "unanswered": 5})
    said = f"5 of {requests:,} requests have no reply."
    assert any(note.endswith(f"is incomplete: {said}") for note in compare_runs(part, run)["notes"])
    assert said in what_was_run(part, statistics(part.answered))
    assert said not in what_was_run(run, statistics(run.answered))


def test_another_choice_of_protected_is_no_other_task_file(tmp_path: Path) -> None:
    rows = (f"{k},{'ab'[k // 3 % 2]},{'fm'[k % 2]},{k // 2 % 2}\n" for k in range(96))
    table = "x,colour,sex,y\n" + "".join(rows)
    path = write_task(tmp_path, table, protected='[[protected]]\ncolumn = "colour"\noptional = true')
    runs = []
    for name in ("sex", "colour"):
        evaluate(load_task(path, protected=name), "baseline", ["zero"], n_test=16, out=tmp_path / name)
        runs.append(read_run(tmp_path / name))
    compared = compare_runs(*runs)
    assert "protected" in {one["name"] for one in compared["changed"]}
    assert not [note for note in compared["notes"] if "versions of the task file" in note]
