"""Every format says the same, from the same document; text from the data stays text."""

import json
import re

import pytest

from fwc_llm.metrics.counts import TABLE
from fwc_llm.report import sections
from fwc_llm.report.formats import render
from fwc_llm.report.html import page
from fwc_llm.report.records_csv import COLUMNS
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import run_table
from tests.report.conftest import MakeRun, lines

pytestmark = pytest.mark.usefixtures("no_data")

EVIL = "<script>alert('x')</script>"


def test_json_is_strict_and_complete(make_run: MakeRun) -> None:
    text = render([make_run(repeats=2)], "json")
    assert "NaN" not in text
    document = json.loads(text)
    (run,) = document["runs"]
    assert [arm["arm"] for arm in run["statistics"]["arms"]] == ["zero", "balanced", "fwc"]
    assert run["examples"]["fwc"][0]["certificate"]["objective"] == 3.84
    assert len(run["examples"]["fwc"]) == 2
    assert run["prompts"]["zero"][0]["role"] == "system"
    assert run["cost"]["usage"]["prompt_tokens"] > 0
    assert run["about"]["fingerprint"] == "0" * 64


def test_csv_is_tidy_and_has_the_jsons_numbers(make_run: MakeRun) -> None:
    folder = make_run(repeats=2)
    found = lines(render([folder], "csv"))
    assert tuple(found[0]) == COLUMNS
    document = json.loads(render([folder], "json"))
    for arm in document["runs"][0]["statistics"]["arms"]:
        own = [line for line in found if line["arm"] == arm["arm"]]
        (accuracy,) = [line for line in own if line["metric"] == "accuracy"]
        assert float(accuracy["value"]) == arm["accuracy"]["value"]
        assert float(accuracy["low"]) == arm["accuracy"]["low"]
        rates = {line["group"]: float(line["value"]) for line in own if line["metric"] == "rate"}
        assert rates == {name: group["rate"] for name, group in arm["groups"].items()}
    (run,) = document["runs"]
    for test in run["statistics"]["comparisons"]:
        (line,) = (
            one
            for one in found
            if (one["arm"], one["against"], one["metric"])
            == (test["second"], test["first"], "demographic_parity_difference_difference")
        )
        gap = test["dp_gap"]
        assert (float(line["value"]), line["verdict"]) == (gap["difference"], gap["verdict"] or "")
    metrics = {metric.key for metric in TABLE if metric.key in run["statistics"]["arms"][0]}
    assert metrics <= {one["metric"] for one in found}


def test_a_formula_does_not_reach_a_spreadsheet(make_run: MakeRun) -> None:
    rates = {"zero": {"=1+1": (0.1, 0.5), "@b": (0.3, 0.8)}}
    found = lines(render([make_run(rates=rates)], "csv"))
    assert {line["group"] for line in found} == {"", "'=1+1", "'@b"}


def test_markdown_has_the_papers_table(make_run: MakeRun) -> None:
    folder = make_run(repeats=5)
    text = render([folder], "md")
    accuracy = json.loads((folder / "results.json").read_text())["arms"][0]
    assert (
        f"| zero | {100 * accuracy['accuracy']:.2f} ± {100 * accuracy['accuracy_sd']:.2f}" in text
    )


def test_further_gaps_stand_folded_with_their_verdicts(make_run: MakeRun) -> None:
    folder = make_run(repeats=2, probabilities=True)
    text = render([folder], "md")
    html = render([folder])
    table = text.split("### Further gaps")[1].split("\n### ")[0]
    (run,) = json.loads(render([folder], "json"))["runs"]
    for arm in run["statistics"]["arms"]:
        for metric in (one for one in TABLE if not one.headline):
            mark = sections.MARKS[arm[metric.key]["verdict"]] + " " * metric.judged
            ends = f"({arm[metric.key]['low']:.3f} to {arm[metric.key]['high']:.3f})"
            assert f"{arm[metric.key]['value']:.3f} {mark}{ends}" in table
        for name, group in arm["groups"].items():
            assert f"| {name} | {arm['arm']} | {group['auc']:.3f} (" in table
    assert '<details class="part further"><summary><h3>Further gaps' in html
    assert "Further gaps" not in as_text(run_table(folder))
    bare = (
        render([make_run("bare", repeats=1)], "md").split("### Further gaps")[1].split("\n### ")[0]
    )
    assert "TPR gap | FPR gap | Precision gap |" in bare
    assert "AUC" not in bare


def test_markup_is_escaped_in_markdown(make_run: MakeRun) -> None:
    rates = {f"zero{EVIL}|x": {"a|b": (0.1, 0.5), "c": (0.3, 0.8)}}
    run = make_run(rates=rates, repeats=1, title=EVIL, model=f"{EVIL}\n# heading")
    text = render([run], "md")
    assert "<script" not in re.sub(r"\\<", "", text)
    assert not any(line.startswith("# heading") for line in text.splitlines())


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_results_say_so_in_every_format(make_run: MakeRun, simulated: bool) -> None:
    folder = make_run(repeats=1, model="surrogate", simulated=simulated)
    for format in ("html", "md"):
        assert ("Simulated" in render([folder], format)) == simulated
    assert json.loads(render([folder], "json"))["simulated"] == simulated
    assert {line["simulated"] for line in lines(render([folder], "csv"))} == {
        str(simulated).lower()
    }


def test_the_page_escapes_everything(make_run: MakeRun) -> None:
    rates = {f"zero{EVIL}": {f"A{EVIL}": (0.1, 0.5), "B": (0.3, 0.8)}}
    text = render(
        [make_run(rates=rates, repeats=1, evil=EVIL, title=EVIL, model=EVIL, command=EVIL)], "html"
    )
    # One script, ours, and the rows as data: the policy lets no other run (tests/browser).
    assert re.findall("<script[^>]*>", text) == ['<script type="application/json">', "<script>"]
    assert EVIL not in text
    assert "&lt;script&gt;" in text


@pytest.mark.slow
def test_odd_runs_still_make_a_page(make_run: MakeRun) -> None:
    """One arm, one repeat, tiny groups, no labels of one kind: nothing is undefined enough to
    fail.
    """
    rates = {"only": {"A": (0.0, 0.0), "B": (0.0, 0.0)}}
    assert "–" in render(
        [make_run("a", rates=rates, repeats=1, per_cell=(1, 1), unparsed=0.0)], "html"
    )
    one_group = {"only": {"A": (0.2, 0.8)}}
    assert "there is no disparity to measure" in render(
        [make_run("b", rates=one_group, repeats=1)], "html"
    )
    empty = make_run("c", repeats=1, per_cell=(0, 20))
    assert "–" in render([empty], "html")
    three = {"x": {"A": (0.1, 0.4), "B": (0.2, 0.5), "C": (0.3, 0.6)}}
    assert "Rate of yes per group" in render(
        [make_run("d", rates=three, probabilities=True)], "html"
    )


@pytest.mark.slow
def test_the_page_is_made_of_the_document_alone(make_run: MakeRun) -> None:
    """The JSON holds everything but the rows: a page made from it again is the same page."""
    folder = make_run(repeats=2, probabilities=True, counterfactual=True)
    assert page(json.loads(render([folder], "json"))) == render([folder], "html", with_rows=False)


def test_a_description_may_lack_what_is_optional(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    described = json.loads((folder / "run.json").read_text())
    needed = ("format", "task", "model", "simulated", "arms", "settings")
    (folder / "run.json").write_text(json.dumps({name: described[name] for name in needed}))
    for format in ("html", "md", "csv", "json"):
        assert render([folder], format)
