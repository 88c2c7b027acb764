"""Every format says the same, from the same document; text from the data stays text."""

import json
import re
from html import unescape
from statistics import fmean, stdev

import pandas as pd
import pytest

from fwc_llm.metrics.counts import OF_REFERRALS, TABLE
from fwc_llm.report.document import make_document
from fwc_llm.report.formats import render
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs.recorded_run import read_run
from tests.command import read_json
from tests.report.conftest import RATES, MakeRun, lines

pytestmark = pytest.mark.usefixtures("no_data")

EVIL = "<script>alert('x')</script>"


def test_json_is_strict_and_complete(make_run: MakeRun) -> None:
    text = render([make_run(repeats=2)], "json")
    assert "NaN" not in text
    document = json.loads(text)
    (run,) = document["runs"]
    assert [arm["arm"] for arm in run["statistics"]["arms"]] == [
        "zero",
        "balanced",
        "fwc",
    ]
    assert run["statistics"]["lead"] == "label_gap"
    assert run["examples"]["fwc"][0]["certificate"]["objective"] == 3.84
    assert len(run["examples"]["fwc"]) == 2
    assert run["prompts"]["zero"][0]["role"] == "system"
    assert run["cost"]["usage"]["prompt_tokens"] > 0
    assert run["about"]["fingerprint"] == "0" * 64


def test_a_formula_does_not_reach_a_spreadsheet(make_run: MakeRun) -> None:
    rates = {"zero": {"=1+1": (0.1, 0.5), "@b": (0.3, 0.8)}}
    found = lines(render([make_run(rates=rates)], "csv"))
    assert {line["group"] for line in found} == {"", "'=1+1", "'@b"}


def test_markdown_has_the_papers_table(make_run: MakeRun) -> None:
    folder = make_run(repeats=5)
    text = render([folder], "md")
    of_arm = {"arm": "zero", "metric": "accuracy", "against": ""}
    found = read_run(folder).statistics.records.where(**of_arm)
    values = [100 * record.value for record in found if record.repeat is not None]
    assert len(values) == 5
    assert f"| zero | {fmean(values):.1f} ± {stdev(values):.1f}" in text


def test_all_metrics_stand_folded_with_their_verdicts(make_run: MakeRun) -> None:
    folder = make_run(repeats=2, probabilities=True)
    text = render([folder], "md")
    html = render([folder])
    table = text.split("### All metrics")[1].split("\n### ")[0]
    stats = read_run(folder).statistics
    for arm in ("zero", "balanced", "fwc"):
        for metric in TABLE:
            record = stats.of(metric.key, arm)
            undefined = metric.key in ("precision_gap", *OF_REFERRALS)
            assert record.known != undefined, record.reason
            if metric.kind == "gap" and record.known:
                low, middle, high = (
                    f"{100 * share:.1f}"
                    for share in (record.low, record.value, record.high)
                )
                value = f"{middle} ({low} to {high})"
                assert (
                    f"| {arm} | {metric.title} | {value} | {record.verdict} |" in table
                )
    assert '<details class="part results"><summary><h3>All metrics' in html
    assert "All metrics" not in as_text(runs_table([read_run(folder)]))
    bare = render([make_run("bare", repeats=1)], "md").split("### All metrics")[1]
    assert "AUC gap" not in bare.split("\n### ")[0]


def test_markup_is_escaped_in_markdown(make_run: MakeRun) -> None:
    rates = {f"zero{EVIL}|x": {"a|b": (0.1, 0.5), "c": (0.3, 0.8)}}
    run = make_run(rates=rates, repeats=1, title=EVIL, model=f"{EVIL}\n# heading")
    text = render([run], "md")
    assert "<script" not in re.sub(r"\\<", "", text)
    assert not any(line.startswith("# heading") for line in text.splitlines())


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_results_say_so_in_every_format(
    make_run: MakeRun, simulated: bool
) -> None:
    folder = make_run(repeats=1, model="surrogate", simulated=simulated)
    for format in ("html", "md", "tex"):
        assert ("Simulated" in render([folder], format)) == simulated
    assert json.loads(render([folder], "json"))["simulated"] == simulated
    assert {line["simulated"] for line in lines(render([folder], "csv"))} == {
        str(simulated).lower()
    }


def test_the_page_escapes_everything(make_run: MakeRun) -> None:
    rates = {f"zero{EVIL}": {f"A{EVIL}": (0.1, 0.5), "B": (0.3, 0.8)}}
    text = render(
        [
            make_run(
                rates=rates, repeats=1, evil=EVIL, title=EVIL, model=EVIL, command=EVIL
            )
        ],
        "html",
    )
    # One script, ours, and the rows as data: the policy lets no other run (tests/browser).
    assert re.findall("<script[^>]*>", text) == [
        '<script type="application/json">',
        "<script>",
    ]
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
    forty = {"x": {f"g{k}": (0.2, 0.5) for k in range(40)}}
    folder = make_run("d", rates=forty, per_cell=(4, 8), probabilities=True)
    answers = pd.read_csv(folder / "answers.csv", dtype=str, keep_default_na=False)
    answers.loc[answers.index % 3 == 0, "p_yes"] = ""
    answers.to_csv(folder / "answers.csv", index=False)
    for format in ("html", "md", "json", "csv", "tex", "comment"):
        text = render([folder], format)
        assert "g9" in text, format
        assert not re.search(r"\bnan\b", text, re.IGNORECASE), format


def test_a_description_may_lack_what_is_optional(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    described = read_json(folder / "run.json")
    needed = ("format", "task", "model", "simulated", "arms", "settings")
    (folder / "run.json").write_text(
        json.dumps({name: described[name] for name in needed})
    )
    for format in ("html", "md", "csv", "json"):
        assert render([folder], format)


def test_latex_has_the_first_table_and_no_text_of_the_data_is_a_command(
    make_run: MakeRun,
) -> None:
    rates = {r"\input{x}": {"f & 50 %": (0.1, 0.5), "<25|>": (0.3, 0.8)}}
    table = render([make_run(rates=rates, repeats=1)], "tex")
    assert {r"\toprule", r"\midrule", r"\bottomrule"} <= set(table.split())
    assert r"f \& 50 \%" in table
    assert r"\textless{}25\textbar{}\textgreater{}" in table
    assert r"\textbackslash input\{x\}" in table
    assert r"\input" not in table
    assert r"\caption{gpt-4}" in table


def test_several_models_have_one_answer_a_grid_and_differences(
    make_run: MakeRun,
) -> None:
    """The same in terminal, page and Markdown; a difference is told where a verdict shows it."""
    wrong = {"Female": (0.5, 0.5), "Male": (0.5, 0.5)}
    apart = {"zero": RATES["zero"], "fwc": wrong}
    plain_rates = {"zero": RATES["zero"], "fwc": RATES["fwc"]}
    folders = [
        make_run("a", rates=plain_rates, model="first", unparsed=0.0),
        make_run("b", rates=apart, model="second", unparsed=0.0),
        make_run("c", rates={"zero": RATES["zero"]}, model="third", unparsed=0.0),
    ]
    document = make_document(folders)
    answer, second, third, step = document["findings"]
    outcomes = {run["label"]: run["outcomes"] for run in document["runs"]}
    assert outcomes["first"] == {"zero": "outside", "fwc": "cannot say"}
    assert "Outside the limits: first (zero-shot), second (zero-shot), third" in answer
    assert "Cannot say: first (fwc), second (fwc)" in answer
    assert "second against first: with fwc, accuracy" in second
    assert third == "third: the same answers as first."
    terminal = " ".join(as_text(runs_table([*map(read_run, folders)]), 200).split())
    page, text = unescape(render(folders)), render(folders, "md")
    for sentence in (answer, second, third, step.removesuffix(".")):
        assert sentence in terminal
        assert page.count(sentence) == text.count(sentence) == 1
    gap = document["runs"][0]["statistics"].of("label_gap", "zero")
    cell = f"{100 * gap.value:.1f} ✗"
    assert all(cell in shown for shown in (terminal, page, text))
    assert "✗ outside" in terminal
    table = render(folders, "tex")
    assert table.count(r"\toprule") == 1
    assert all(f"{name}: zero-shot &" in table for name in outcomes)
