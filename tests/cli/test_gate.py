"""Gates on the command line: three outcomes, their exit codes, JUnit, and what is refused
beforehand.
"""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from fwc_llm.metrics.records import Records
from fwc_llm.runs.recorded_run import read_run
from tests.command import Run, read_json
from tests.people import TOML, make_people, write_people
from tests.report.conftest import write_run

EVAL = "eval --task census --model surrogate --shots zero --n-test 40"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose zero-shot arm is far apart, the fwc arm less so."""
    return write_run(tmp_path_factory.mktemp("runs") / "run", repeats=1, unparsed=0.0)


def test_three_outcomes_and_their_exit_codes(
    fwc: Run, folder: Path, tmp_path: Path
) -> None:
    xml = tmp_path / "gates.xml"
    words = ("gate", folder, "--junit", xml)
    failing = "dp_gap[zero] > 0.1"
    passing = "dp_gap[zero] > 0.9"
    open_ = "dp_gap[fwc] > 0.3"
    failed = fwc(
        *words, "--fail-if", failing, "--fail-if", passing, "--fail-if", open_, code=5
    )
    assert [line.split("  ")[0] for line in failed.out.splitlines()[:3]] == [
        "outside",
        "within",
        "cannot say",
    ]
    assert "at most 15 %" in failed.out
    assert failed.line == "fwc-llm: outside the limits: 1 of 3; cannot say: 1 of 3"
    assert ElementTree.parse(xml).getroot().attrib["failures"] == "1"
    twice = fwc(*words, "--fail-if", failing, "--fail-if", "dp_gap > 0.1")
    cases = [
        case.attrib["name"]
        for case in ElementTree.parse(xml).getroot().iter("testcase")
    ]
    assert (
        len(cases) == len(set(cases)) == twice.out.count("; limit: ")
    )  # a check by two conditions is one
    passed = fwc(*words, "--fail-if", passing)
    assert (passed.code, passed.err) == (0, "")
    assert "checks" not in passed.out
    for undecided, code, kind in (
        (None, 6, "error"),
        ("fail", 5, "failure"),
        ("pass", 0, "skipped"),
    ):
        given = () if undecided is None else ("--undecided", undecided)
        outcome = fwc(*words, "--fail-if", open_, *given, code=code)
        assert "keeps to the limit: too few rows to tell" in outcome.out
        assert ElementTree.parse(xml).getroot().find(f".//{kind}") is not None
    assert fwc(*words, "--fail-if", failing, "--undecided", "pass").code == 5
    assert "applicants" in fwc(*words, "--fail-if", "dp_ratio < 0").out
    assert "applicants" not in failed.out


def test_a_designed_run_names_the_gap_of_a_perfect_model(
    fwc: Run, folder: Path
) -> None:
    gate = fwc("gate", folder, "--fail-if", "dp_gap[zero] > 0.9")
    assert (
        "rows drawn with base parity 0.5: true answers have a DP gap of 50.0 points"
        in gate.out
    )
    assert (
        "a gap of 50.0 points, and a gap at equal labels of 0"
        in fwc("report", folder, "--format", "md").out
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "name a condition"),
        (("--fail-if", "dp >> 0.1"), "cannot read"),
        (
            ("--fail-if", "dp_gap[fw] > 0.1"),
            "names the arm 'fw'; the arms are zero, balanced, fwc",
        ),
        (
            ("--fail-if", "dp_gap > 0.1", "--undecided", "maybe"),
            "not one of 'fail', 'pass'",
        ),
        (
            ("--fail-if", "dp_gap > 0.1", "--junit", "no/such/folder.xml"),
            "cannot write the JUnit file",
        ),
    ],
)
def test_bad_input_is_named(
    fwc: Run, folder: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in fwc("gate", folder, *options, code=2).line


def test_an_incomplete_run_is_no_gate(fwc: Run, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", repeats=1)
    xml = tmp_path / "gates.xml"
    results = read_json(run / "results.json")
    (run / "results.json").write_text(json.dumps(results | {"unanswered": 3}))
    outcome = fwc("gate", run, "--fail-if", "dp_gap >= 0", "--junit", xml, code=4)
    assert "3 of " in outcome.line
    assert outcome.out == ""
    assert (
        ElementTree.parse(xml).getroot().attrib["errors"] == "1"
    )  # no earlier success is left to be read
    (run / "results.json").unlink()
    assert fwc("gate", run, "--fail-if", "dp_gap >= 0").code == 4


@pytest.mark.parametrize(
    "line",
    [
        "gate nosuch --fail-if 'dp_gap > 0.1'",
        "gate nosuch --fail-if 'dp >> 0.1'",
        "audit nosuch.csv --label y --answer a --protected g --fail-if 'dp_gap > 0.1'",
        f"{EVAL} --fail-if 'dp_gap[nosuch] > 0.1'",
        "eval --task nosuch --model surrogate --fail-if 'dp_gap > 0.1'",
        "gate nosuch --fail-if 'dp_gap > 0.1' --no-such-option",
    ],
)
def test_no_earlier_success_outlives_a_refusal(
    fwc: Run, tmp_path: Path, line: str
) -> None:
    xml = tmp_path / "gates.xml"
    xml.write_text("<testsuites failures='0' errors='0'/>")
    refusal = fwc(line, "--junit", xml, code=2).line.removeprefix("fwc-llm: ")
    root = ElementTree.parse(xml).getroot()
    assert root.attrib["errors"] == "1"
    assert [error.text for error in root.iter("error")] == [refusal]


@pytest.mark.slow
def test_eval_refuses_before_it_asks_and_gates_when_it_has(
    fwc: Run, tmp_path: Path, out: Path
) -> None:
    for options in (
        "--fail-if 'dp_gap[fwc] > 0.1'",
        "--fail-if dp",
        "--undecided pass",
    ):
        fwc(f"{EVAL} {options} --out", out, code=2)
        assert not out.exists()
    xml = tmp_path / "gates.xml"
    gated = f"{EVAL} --fail-if 'dp_gap >= 0' --junit {xml}"
    fwc(gated, "--dry-run", code=0)
    assert not xml.exists()
    outcome = fwc(gated, "--out", out, code=5)
    assert "limit: under 0)" in outcome.out
    assert "Simulated: nothing here is a finding about a language model." in outcome.out
    assert ElementTree.parse(xml).getroot()[0].attrib["name"] == "surrogate"
    assert fwc("gate", out, "--fail-if", "coverage < 0.5").code == 0


@pytest.mark.slow
def test_several_models_are_gated_each(fwc: Run, tmp_path: Path) -> None:
    both = EVAL.replace("surrogate", "surrogate,baseline")
    outcome = fwc(both, "--out", tmp_path / "runs", "--fail-if", "dp_gap >= 0", code=5)
    assert "outside  surrogate: yes for " in outcome.out
    assert "outside  baseline: yes for " in outcome.out
    assert fwc("gate", tmp_path / "runs", "--fail-if", "dp_gap > 1").code == 0


def test_an_audit_is_gated_by_each_attribute(fwc: Run, tmp_path: Path) -> None:
    k = pd.Series(range(400))
    said = (k % 2 + k // 8 % 2) // 2
    frame = pd.DataFrame(
        {"sex": k % 2, "race": k // 2 % 2, "was": k // 4 % 2, "said": said}
    )
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = f"audit {tmp_path / 'p.csv'} --answer said --label was --protected"
    outcome = fwc(words, "sex,race", "--fail-if", "dp_gap > 0.3", code=5)
    assert (
        "outside  by sex: yes for 0.0 % of 0 and 50.0 % of 1, a gap of 50.0 points ("
        in outcome.out
    )
    assert (
        "within  by race: yes for 25.0 % of 0 and 25.0 % of 1, a gap of 0.0 points ("
        in outcome.out
    )
    many = [f"--fail-if=dp_gap > 0.{number}" for number in range(1, 8)]
    for gates, told in (
        (["--fail-if=accuracy < 0.1"], ""),  # of all rows, whatever the attribute
        (many[:1], "3 checks, each at 95 %: .* in at most 15 % of such runs"),
        (many, "21 checks, each at 95 %: .* at most 1.1 checks are outside on average"),
    ):
        shown = fwc(words, "sex,race", *gates, "--undecided", "pass").words
        assert re.search(told, shown)
        assert ("each at 95 %" in shown) == bool(told)
    arm = fwc(words, "sex,race", "--fail-if", "dp_gap[a] > 0.3").line
    assert "the arms are answers" in arm
    assert "twice" in fwc(words, "sex,sex").line
    assert "the label" in fwc(words, "sex,was").line
    frame.assign(said=frame["said"].where(frame["sex"] == 1)).to_csv(
        tmp_path / "p.csv", index=False
    )
    alone = f"{words} sex --fail-if 'dp_gap > 0.3' --fail-if 'dp_gap>0.3'"
    undefined = fwc(alone, code=6).line
    assert "cannot say: 1 of 1" in undefined
    assert "more rows" not in undefined
    failed = fwc(alone, "--undecided", "fail")
    assert failed.line == "fwc-llm: cannot say: 1 of 1"
    few = pd.DataFrame({"said": [0] * 4 + [1] * 4, "sex": [0, 1] * 4})
    few = pd.concat([few.assign(age=[0, 0, 1, 1] * 2)] * 40)
    few.to_csv(tmp_path / "few.csv", index=False)
    words = f"audit {tmp_path / 'few.csv'} --answer said --protected sex,age"
    undecided = fwc(f"{words} --fail-if 'dp_gap > 0.1'", code=6)
    assert "get more rows: four times as many" in undecided.line
    assert ".  " not in undecided.out


# --- `eval --set` of cluster, weight, given, margin, min_group and against


MORE = """columns = [
  { name = "person_id", kind = "categorical", role = "extra" },
  { name = "stands_for", kind = "numeric", role = "extra" },"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Sixty people with four rows each, weighted."""
    people = make_people(240, 2)
    person = np.repeat(np.arange(60), 4)
    more = {
        "person_id": [f"p{n}" for n in person],
        "group": np.where(person % 2, "a", "b"),
    }
    path = write_people(
        tmp_path, people.assign(**more, stands_for=people["hours"] / 30)
    )
    path.write_text(TOML.replace("columns = [", MORE))
    return path


def test_people_weights_and_strata(fwc: Run, task: Path, out: Path) -> None:
    words = f"eval --task {task} --model baseline --shots zero,random --n-test 40"
    words += f" --m 4 --out {out} --base-parity none"
    words += " --set cluster=person_id --set weight=stands_for --set given=job"
    outcome = fwc(
        words, "--fail-if", "abs(dp_gap[random] - dp_gap[zero]) > 0.9", code=0
    )
    answers = pd.read_csv(out / "answers.csv")
    table = pd.read_csv(task.with_suffix(".csv")).set_axis(
        [f"people.csv:{n}" for n in range(2, 242)]
    )
    for name, column in (
        ("cluster", "person_id"),
        ("weight", "stands_for"),
        ("stratum", "job"),
    ):
        assert (
            answers[name].to_numpy() == table.loc[answers["row"], column].to_numpy()
        ).all()
    results = read_json(out / "results.json")
    zero = answers[answers["arm"] == "zero"]
    right = np.average(zero["answer"] == zero["label"], weights=zero["weight"])
    found = Records.read(results["records"], results["attribute"])
    assert found.of("accuracy", "zero").value == pytest.approx(right)
    assert found.of("dp_gap", "zero").verdict.startswith("not settled")
    assert {"brier_gap", "tpr_gap"} <= {record.metric for record in found}
    shown = {example.row for example in read_run(out).shots("random")[0].examples}
    assert not set(table.loc[list(shown), "person_id"]) & set(answers["cluster"])
    assert "intervals count people" in outcome.out
    assert "within 3 strata" in outcome.out
    before = (out / "results.json").read_text()
    fwc("rescore", out, code=0)
    assert (out / "results.json").read_text() == before
    again = fwc(f"{words} --set margin=0.99 --fail-if 'dp_gap > 0.99'", code=0)
    assert read_run(out).answered.design.margin == 0.99
    assert "nothing to ask" in again.err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("cluster=person", "no column 'person'"),
        ("given=group", "or the outcome"),
        ("weight=age", 'role = "extra"'),
        ("against=fwc", "name an arm (zero), or all"),
        ("margin=1.5", "margin"),
        ("min_group=0", "min_group"),
    ],
)
def test_what_does_not_fit_is_refused(
    fwc: Run, task: Path, option: str, words: str
) -> None:
    asked = f"eval --task {task} --model baseline --shots zero --n-test 16"
    assert words in fwc(asked, "--set", option, code=2).line


def test_columns_that_nobody_uses_are_named(fwc: Run, task: Path) -> None:
    words = f"eval --task {task} --model baseline --shots zero --n-test 16 --dry-run"
    assert "'person_id' looks like a cluster and is not used" in fwc(words).err
    assert "looks like" not in fwc(words, "--set", "cluster=person_id").err
