"""What changed between two runs, and whether the answers differ."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm.metrics.intervals import EQUAL, SHOWN, UNREAD
from fwc_llm.report.compare import AFTER, BEFORE, compare_runs
from fwc_llm.report.narrative import what_was_run
from fwc_llm.runs.recorded_run import read_run
from tests.command import Run
from tests.report.conftest import MakeRun

FAIR = {"Female": (0.3, 0.6), "Male": (0.3, 0.6)}
UNFAIR = {"Female": (0.05, 0.5), "Male": (0.5, 0.95)}


def test_a_change_in_the_answers_is_more_than_noise(make_run: MakeRun) -> None:
    first = read_run(make_run("a", rates={"fwc": UNFAIR, "old": FAIR}))
    second = read_run(
        make_run("b", rates={"fwc": FAIR, "new": FAIR}, seed=1, model="gpt-4o")
    )
    compared = compare_runs(first, second)
    (arm,) = compared["arms"]
    gap = compared["records"].of("dp_gap_difference", "fwc", against=BEFORE)
    assert arm["paired"]
    unparsed = [np.isnan(run.answers["fwc"].answer) for run in (first, second)]
    assert unparsed[0].any()
    assert gap.n == len(unparsed[0]), "whether or not they were read"
    assert gap.verdict == "differs"
    assert gap.value < -0.2
    before, after = (
        compared["records"].of("dp_gap", "fwc", scope=s) for s in (BEFORE, AFTER)
    )
    assert after.value - before.value == pytest.approx(gap.value, abs=0.03)
    assert "Only in the first run: old." in compared["notes"]
    assert "Only in the second run: new." in compared["notes"]
    changed = {
        one["name"]: (one["first"], one["second"]) for one in compared["changed"]
    }
    assert changed == {"model": ("gpt-4", "gpt-4o"), "seed": ("0", "1")}
    assert "differs" in str(compared)


def test_another_seed_of_the_same_answers_is_noise(make_run: MakeRun) -> None:
    compared = compare_runs(
        read_run(make_run("a", seed=0)), read_run(make_run("b", seed=1))
    )
    assert len(compared["arms"]) == 3
    for record in compared["records"]:
        assert record.verdict not in SHOWN
    text = " ".join(str(compared).split())
    assert "Paired on the rows" in text


def test_one_draw_of_examples_tells_nothing_of_their_strategy(fwc: Run) -> None:
    asked = "eval --model surrogate --task census --shots random --m 4 --n-test 60"
    fwc(f"{asked} --repeats 5 --out many", code=0)
    fwc(f"{asked} --seed 1 --out one", code=0)
    compared = compare_runs(read_run(Path("one")), read_run(Path("many")))
    told = [r for r in compared["records"] if r.scope == "this strategy" and r.verdict]
    assert not told
    assert "cannot be told with 1 draw of examples" in str(compared)


@pytest.mark.parametrize(
    ("second_rates", "told_apart"), [(UNFAIR, False), (FAIR, True)]
)
def test_runs_over_other_rows_are_apart(
    make_run: MakeRun, second_rates: dict, told_apart: bool
) -> None:
    first = make_run("a", rates={"fwc": UNFAIR}, seed=3)
    second = make_run("b", rates={"fwc": second_rates}, seed=4, fingerprint="1" * 64)
    compared = compare_runs(read_run(first), read_run(second))
    (arm,) = compared["arms"]
    assert not arm["paired"]
    gap = compared["records"].of("dp_gap_difference", "fwc", against=BEFORE)
    assert (gap.verdict in SHOWN) is told_apart
    assert gap.low <= gap.value <= gap.high
    assert any("different versions of the table" in note for note in compared["notes"])
    assert "independent samples" in str(compared)


def test_a_run_against_itself_is_the_same(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    compared = compare_runs(run, run)
    changes = compared["records"].where(metric="accuracy_difference")
    assert {one.p for one in changes if one.p == one.p} == {1.0}
    assert "Nothing changed" in str(compared)
    apart = compare_runs(
        run, read_run(make_run("other", rates={"other": FAIR}, repeats=1))
    )
    assert apart["arms"] == []
    assert "no arm in common" in str(apart)


def test_margins_designs_and_small_groups_of_the_runs_count(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))

    def with_settings(**changed: Any) -> Any:
        return replace(
            run,
            described={
                **run.described,
                "settings": {**run.described["settings"], **changed},
            },
        )

    for margin, verdict in ((0.9, EQUAL), (0.001, UNREAD)):
        compared = compare_runs(
            with_settings(margin=margin), with_settings(margin=0.95)
        )
        for record in compared["records"].where(metric="dp_gap_difference"):
            assert record.verdict in (verdict, "")
    assert not [
        note
        for note in compare_runs(run, run)["notes"]
        if "different" in note or "Gaps" in note
    ]
    noted = compare_runs(run, with_settings(base_parity=None))["notes"]
    assert any("different base parities" in note for note in noted)


def test_a_run_that_is_not_complete_says_so_everywhere(make_run: MakeRun) -> None:
    run = read_run(make_run(repeats=1))
    requests = run.results["requests"]
    part = replace(run, results={**run.results, "unanswered": 5})
    said = f"5 of {requests:,} requests have no reply."
    assert any(
        note.endswith(f"is incomplete: {said}")
        for note in compare_runs(part, run)["notes"]
    )
    assert said in what_was_run(part)
    assert said not in what_was_run(run)


# --- `fwc-llm report` and `fwc-llm compare` from the command line


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_data: None) -> None:
    """An empty folder to work in, without data."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_a_report_is_one_page_in_the_folder_named_and_text_is_printed(
    make_run: MakeRun, fwc: Run
) -> None:
    folder = make_run(repeats=1)
    assert fwc("report", folder, "--format", "json").json["task"] == "adult"
    assert fwc("report", folder, "--format", "csv").out.startswith("run,task,model")
    assert not (folder / "report.html").exists()
    assert fwc("report", folder).code == 0
    assert not list(Path().iterdir())
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert fwc("report", folder, "-o", "other.md").code == 0
    assert Path("other.md").read_text().startswith("# UCI Adult")


def test_the_page_of_several_runs_overwrites_nothing_unless_named(
    make_run: MakeRun, fwc: Run
) -> None:
    runs = make_run("a", repeats=1), make_run("b", repeats=1)
    assert fwc("report", *runs).code == 0
    before = Path("report.html").read_text()
    again = fwc("report", *runs)
    assert (again.code, "report.html exists already" in again.err) == (2, True)
    assert fwc("report", runs[0], "-o", "report.html", "--force").code == 0
    assert Path("report.html").read_text() != before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("report", "nowhere"), "nowhere is not a folder"),
        (("report", "{a}", "{german}"), "different tasks"),
        (("report", "{a}", "{a}"), "named twice"),
        (("report", "{a}", "--format", "pdf"), "none of html"),
        (("report", "{a}", "-o", "missing/x.html"), "cannot write"),
        (("compare", "{a}", "{german}"), "different tasks"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    make_run: MakeRun, fwc: Run, words: tuple[str, ...], message: str
) -> None:
    places = {
        "a": make_run("a", repeats=1),
        "german": make_run("g", repeats=1, task="german"),
    }
    outcome = fwc(*(word.format(**places) for word in words))
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
