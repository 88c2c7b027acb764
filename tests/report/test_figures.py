"""Figures to keep: every chart as SVG and PNG, marked where simulated, the same bytes every
time.
"""

import io
import json
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.text import Text
from numpy.random import Generator

from fwc_llm import Result, audit
from fwc_llm.coreset import FairCoreset
from fwc_llm.gates.decide import checked
from fwc_llm.metrics.intervals import EQUAL
from fwc_llm.metrics.records import Records
from fwc_llm.metrics.statistics import statistics
from fwc_llm.number_format import (
    day,
    interval,
    mean_and_sd,
    number,
    p_value,
    percent,
    signed,
)
from fwc_llm.report.document import make_document
from fwc_llm.report.figures import write_figures
from fwc_llm.report.formats import render
from fwc_llm.report.narrative import best_arms, findings, keeping_to, limits, next_step
from fwc_llm.report.table_model import as_text
from fwc_llm.report.terminal import runs_table
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.recorded_run import read_run
from tests.refusals import refused
from tests.report.conftest import MakeRun, some_shots

EVIL = "</svg><script>alert(1)</script>\x1b[31m\u202e$x^2$"


def test_every_chart_is_a_file_of_both_kinds(make_run: MakeRun, tmp_path: Path) -> None:
    rates = {
        f"zero{EVIL}": {"A": (0.1, 0.5), f"B{EVIL}": (0.3, 0.8)},
        "fwc": {"A": (0.2, 0.6), f"B{EVIL}": (0.3, 0.7)},
    }
    run = make_run(rates=rates, repeats=3, model=EVIL, simulated=True)
    document = make_document([run])
    pdf, svg = write_figures(document, tmp_path / "figures")
    assert (pdf.name, svg.name) == ("rates.pdf", "rates.svg")
    assert pdf.read_bytes().startswith(b"%PDF")
    text = svg.read_text()
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(text).iter()}
    assert "script" not in tags
    assert not {"\x1b", "\u202e"} & set(text)
    # matplotlib writes every text as a comment beside its glyphs
    assert "SIMULATED" in text
    again = write_figures(document, tmp_path / "again")
    assert [path.read_bytes() for path in again] == [pdf.read_bytes(), svg.read_bytes()]


def test_a_picture_says_which_groups_it_leaves_out(
    make_run: MakeRun, tmp_path: Path
) -> None:
    groups = {f"group {place}": (0.2, 0.6) for place in range(120)}
    run = make_run(rates={"zero": groups}, repeats=1, per_cell=(2, 2))
    write_figures(make_document([run]), tmp_path)
    assert re.search(r"the \d+ largest of 120", (tmp_path / "rates.svg").read_text())


def test_several_models_are_in_one_figure_of_a_column(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = [
        make_run("one", repeats=1, model="a/b"),
        make_run("two", repeats=1, model="c", seed=1),
    ]
    written = write_figures(make_document(runs), tmp_path / "figures")
    assert [path.name for path in written] == ["rates.pdf", "rates.svg"]
    first, second = (Result(run, RunFolder(run).results) for run in runs)
    figure = first.plot(second)
    assert figure.get_figwidth() == 3.5
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["a/b", "c"]
    names = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert names[-1].startswith("true answers")
    other = make_run("other", rates={"x": {"X": (0.2, 0.5), "Y": (0.3, 0.5)}})
    written = write_figures(make_document([*runs, other]), tmp_path / "apart")
    assert len(written) == 4, "other groups have a figure of their own"
    (tmp_path / "file").write_text("")
    with refused("cannot write"):
        write_figures(make_document(runs), tmp_path / "file")


def test_a_value_draws_itself(rng: Generator, make_run: MakeRun) -> None:
    folder = make_run(repeats=1, simulated=True)
    answers = pd.DataFrame(
        {"answer": ["yes", "no"] * 50, "sex": ["f", "m", "m", "f"] * 25}
    )
    x = rng.normal(size=(200, 2))
    levels = rng.integers(0, 2, (200, 2))
    y = rng.integers(0, 2, 200)
    coreset = FairCoreset(16, epsilon=0.1, random_state=0).fit(x, y, levels)
    title = "SIMULATED"
    for value, panels, words in (
        (Result(folder, RunFolder(folder).results), 1, {title, "zero-shot"}),
        (audit(answers, protected=["sex"]), 1, {"f", "m"}),
        (some_shots("fwc", "adult", 0), 1, {"weight", "yes", "no"}),
        (coreset, 2, {"0 & 1", "Descent", "lower bound"}),
    ):
        drawn = value.plot()
        drawn.canvas.draw()
        assert words <= {
            line for one in drawn.findobj(Text) for line in one.get_text().splitlines()
        }
        assert len(drawn.axes) == panels


def test_rates_stand_at_their_values(make_run: MakeRun) -> None:
    folder = make_run(repeats=1)
    result = Result(folder, RunFolder(folder).results)
    points = {
        float(x) for line in result.plot().axes[0].lines for x in line.get_xdata()
    }
    stats = result.audit().statistics
    for arm in stats.arms:
        for rate in stats.rates(arm.arm).values():
            assert any(abs(100 * rate.value - x) < 1e-9 for x in points)


# --- What the terminal says of a run


def shown(folder: Path, width: int = 200, verbose: bool = False) -> str:
    return as_text(runs_table([read_run(folder)], verbose), width)


def test_simulated_results_say_so(make_run: MakeRun) -> None:
    text = shown(make_run(model="surrogate", simulated=True), verbose=True)
    assert "SIMULATED ANSWERS" in text
    real = shown(make_run("real", simulated=True, simulated_answers=False))
    assert "SIMULATED TABLE" in real
    assert "surrogate" not in real
    assert "SIMULATED" not in shown(make_run("model"))


def test_an_undefined_value_is_a_dash_with_its_reason(make_run: MakeRun) -> None:
    text = shown(
        make_run(
            rates={"fwc": {"Female": (0.2, 0.5), "Male": (0.2, 0.5)}}, unparsed=1.0
        )
    )
    assert "– Gap at equal labels of fwc: no parsed answer" in text
    assert " unknown, no parsed answer" in text
    assert "nan" not in text


def test_the_table_says_which_are_within_the_limits(make_run: MakeRun) -> None:
    """The second arm's gap is far above 0; the rows are too few to exclude one of the first
    arm's.
    """
    rates = {"even": {"A": (0.5, 0.5), "B": (0.5, 0.5)}, "biased": BIASED}
    text = shown(make_run(rates=rates, **PLAIN))
    assert re.search("^even .*cannot say", text, re.M)
    assert re.search("^biased .*outside", text, re.M)
    assert "Outside the limits: biased. Cannot say: even." in text
    assert "too few rows to tell" in " ".join(text.split())


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_a_narrow_terminal_cuts_no_line(make_run: MakeRun, width: int) -> None:
    """Every table names all arms, or has all values of those that it names."""
    text = shown(make_run(**PLAIN), width)
    lines = [line for line in text.splitlines() if not line.startswith("    fwc-llm ")]
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for table in re.split(r"\n─+", text)[1:]:
        assert all(f"\n{arm} " in table for arm in ("zero-shot", "balanced", "fwc"))


def test_groups_are_rows_and_long_names_are_cut(make_run: MakeRun) -> None:
    rates = {arm: {"A" * 5000: (0.2, 0.5), "B": (0.5, 0.9)} for arm in ("zero", "fwc")}
    text = shown(make_run(rates=rates, repeats=1), 120, verbose=True)
    table = text.partition("Rate of yes per group")[2].partition("In per cent")[0]
    assert "A" * 41 not in table
    assert [line.split()[0][:3] for line in table.splitlines()[3:5]] == ["AAA", "B"]


def test_flips_and_probabilities_are_shown_where_there_are_any(
    make_run: MakeRun,
) -> None:
    folder = make_run(repeats=2, probabilities=True, counterfactual=True)
    without = make_run("b", repeats=1)
    page = render([folder], "md")
    bare = shown(without, 160) + render([without], "md")
    parts = "If only the protected attribute changed", "Probabilities"
    flips, ranking = (page.split(f"### {part}")[1].split("###")[0] for part in parts)
    terminal = shown(folder, 200, verbose=True)
    stats = read_run(folder).statistics
    for arm in ("zero", "balanced", "fwc"):
        for text in (terminal, ranking):
            assert f"{stats.of('auc', arm).value:.3f}" in text
        for flip in stats.records.where(arm=arm, metric="changed"):
            rate = f"{100 * flip.value:.1f} ("
            assert rate in terminal
            assert f"| {arm} | {flip.against} shown as {flip.group} | {rate}" in flips
    assert not [part for part in (*parts, "--logprobs") if part in bare]
    assert "--logprobs" in shown(
        make_run("c", repeats=1, parameters={"logprobs": True})
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (number(0.12345, 3), "0.123"),
        (number(-0.0001, 3), "0.000"),
        (number(-0.25, 2), "−0.25"),
        (number(None), "–"),
        (number(float("nan")), "–"),
        (signed(0.25, 2), "+0.25"),
        (signed(-0.25, 2), "−0.25"),
        (signed(0.0, 2), "0.00"),
        (percent(1.0), "100 %"),
        (percent(0.99999), ">99.9 %"),
        (percent(0.995), "99.5 %"),
        (percent(0.0), "0 %"),
        (mean_and_sd([0.75, 0.77, 0.79], 100, 2), "77.00 ± 2.00"),
        (mean_and_sd([0.7654], 100, 2), "–"),
        (mean_and_sd([0.5, float("nan")]), "–"),
        (interval((0.1, 0.2), 2), "0.10 to 0.20"),
        (interval((0.1, float("nan"))), "–"),
        (p_value(0.0004), "<0.001"),
        (p_value(0.0416), "0.042"),
        (day("2026-11-06T01:00:00+0000"), "6 Nov 2026"),
        (day("2026-13-06"), ""),
        (day("\x1b[2J"), ""),
    ],
)
def test_numbers_are_written_alike_everywhere(text: str, wanted: str) -> None:
    assert text == wanted


# --- The answer


PLAIN: dict[str, Any] = {"repeats": 1, "unparsed": 0.0}


@pytest.fixture
def improved(make_run: MakeRun) -> Path:
    """A run whose second arm is nearly fair, and the first is not."""
    rates = {"zero": BIASED, "fwc": EVEN}
    return make_run(rates=rates, per_cell=(100, 100), **PLAIN)


BIASED = {"A": (0.1, 0.2), "B": (0.8, 0.9)}
EVEN = {"A": (0.3, 0.9), "B": (0.3, 0.9)}
ABOUT_EVEN = {"A": (0.3, 0.9), "B": (0.35, 0.95)}


@pytest.mark.parametrize(
    ("rates", "simulated", "words"),
    [
        ({"zero": BIASED, "fwc": EVEN}, False, "as fwc does, and watch"),
        ({"zero": BIASED, "fwc": EVEN}, True, "ask a language model"),
        ({"zero": BIASED, "fwc": BIASED}, True, "ask a language model"),
        ({"zero": BIASED, "fwc": BIASED}, False, "other ways of asking"),
        ({"zero": ABOUT_EVEN, "fwc": ABOUT_EVEN}, True, "more rows"),
        ({"zero": {"A": (0.0, 0.0), "B": (0.0, 0.0)}}, False, "the same answer"),
        ({"zero": BIASED}, False, "other ways of asking"),
        ({"zero": BIASED}, None, "who know these decisions"),
        ({"zero": ABOUT_EVEN}, None, "more rows"),
        ({"zero": EVEN}, None, "watch further"),
    ],
)
def test_what_is_next_follows_from_what_is_shown(
    make_run: MakeRun, rates: dict[str, Any], simulated: bool | None, words: str
) -> None:
    rows = 1500 if words == "watch further" else 100
    more: dict[str, Any] = {"per_cell": (rows, rows), "simulated": bool(simulated)}
    more["probabilities"] = words == "the same answer"
    run = read_run(make_run(rates=rates, **PLAIN, **more))
    stats = statistics(run.answered)
    (run.folder / "experiment.toml").write_text('model = "gpt"')
    step, command = next_step(stats, (), None if simulated is None else run)
    assert words in step
    assert not command.endswith(run.folder.name), "it holds another run"
    if words == "the same answer":
        known = [r if r.metric != "auc" else replace(r, low=0.6) for r in stats.records]
        told = replace(stats, records=Records(known, stats.records.attribute))
        assert "line between yes and no" in next_step(told, (), run)[0], (
            "P(yes) ranks rows"
        )


def test_what_makes_numbers_doubtful_comes_before_what_they_show(
    improved: Path,
) -> None:
    """Lacking replies and failed limits send nobody to more rows, to an arm, or on watch."""
    run = read_run(improved)

    def said(conditions: Collection[str] = (), run: Any = run, **changes: Any) -> str:
        """The next step where records of the last arm are changed: by metric."""
        stats = statistics(run.answered if run else equal)
        last = stats.arms[-1]
        lost = replace(last, unanswered=changes.pop("unanswered", 0))
        found = [
            replace(record, **changes.get(record.metric, {}))
            if record.arm == last.arm
            else record
            for record in stats.records
        ]
        records = Records(found, stats.records.attribute)
        told = replace(stats, records=records, arms=[*stats.arms[:-1], lost])
        return next_step(told, list(conditions), run)[0]

    equal = replace(run.answered, answers={"answers": run.answered.answers["fwc"]})
    assert "as fwc does" in said()
    assert "replies that are missing" in said(unanswered=3)
    assert "why answers are missing" in said(coverage={"value": 0.7})
    assert "watch further" in said(["accuracy < 0"], None)
    assert "who know" in said(["accuracy < 1"], None, label_gap={"verdict": EQUAL})
    within: Any = {"verdict": EQUAL, "low": 0.0, "high": 0.04}
    assert "watch further" in said((), None, label_gap=within)


@pytest.mark.parametrize(
    ("condition", "best", "lead"),
    [
        ("dp_gap > 0.2", "fwc", "Within the limits: fwc. Outside the limits: zero"),
        # all keep to it, or none does, as with the margin: this one is more accurate
        ("dp_gap > 0.9", "fwc", ""),
        ("dp_gap > 0.01", "fwc", "Outside the limits: zero"),
        ("accuracy < 0.6", "fwc", ""),  # the first one does not keep to it
        ("dp_gap[fwc] > 0.01", None, ""),
        # a limit that is set for another arm is not kept
        ("dp_gap[zero] > 0.9", None, ""),
        ("accuracy < 0.1", "fwc", ""),  # no limit on a gap: the smaller one is better
    ],
)
def test_the_best_arm_keeps_to_the_gates(
    improved: Path, condition: str, best: str | None, lead: str
) -> None:
    """A smaller gap is not enough, and is needed only where the first arm fails the gates."""
    RunFolder(improved).change(fail_if=[condition])
    run = read_run(improved)
    assert best_arms(run.statistics, limits(run)) == [best] * bool(best)
    if not lead:
        return
    (first, *_) = make_document([improved])["runs"][0]["findings"]
    assert first.startswith(lead)
    assert "Best, fwc" in first
    checks = {check.arm: check for check in checked(run.statistics, [condition])}
    (told,) = json.loads(render([improved], "json"))["runs"]
    conditions = [check.condition for check in checks.values()]
    assert [gate["condition"] for gate in told["gates"]] == conditions
    table = pd.read_csv(io.StringIO(render([improved], "csv")))
    lines = table[table["metric"].str.contains(">")].set_index("arm")
    for arm, check in checks.items():
        line = lines.loc[arm, ["metric", "verdict", "reason", "low"]].tolist()
        low = pytest.approx(check.low)
        assert line == [check.condition, check.outcome, check.reason, low]


def test_the_best_arm_reaches_the_target_of_a_tuned_run(improved: Path) -> None:
    for target, kept in ((0.2, {"fwc"}), (0.01, set())):
        goal = {"goal": {"metric": "dp_gap", "target": target}}
        (improved / "tuning.json").write_text(json.dumps(goal))
        run = read_run(improved)
        assert keeping_to(limits(run), run.statistics) == kept


def test_the_answer_of_many_arms_stays_short(make_run: MakeRun) -> None:
    rates = {"zero": BIASED} | {f"arm{place}": EVEN for place in range(9)}
    answer = findings(read_run(make_run(rates=rates, repeats=1)).statistics)
    assert len(answer) <= 8
    assert not [one for one in answer if "less often" in one]


def test_the_terminal_has_one_screen(make_run: MakeRun) -> None:
    more: dict[str, Any] = {"probabilities": True, "counterfactual": True}
    folder = make_run(repeats=3, simulated=True, **more)
    assert shown(folder, 110).count("\n") < 30
    assert shown(folder, 110, verbose=True).count("\n") > 80
    groups = {f"group {place}": (0.1, 0.5 + place / 200) for place in range(50)}
    many = make_run("many", rates={"zero": groups}, repeats=1, per_cell=(20, 20))
    assert shown(many, 110).count("\n") < 25
