"""What an earlier version wrote is read by this one, and gives the numbers that it gave then."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fwc_llm import Result
from fwc_llm.report.audit_file import AuditOptions, audit_of_file
from tests.command import Run
from tests.conftest import CHECKOUT

VERSIONS = sorted((CHECKOUT / "tests" / "recorded_runs").glob("v*"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def recorded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A copy of what a version wrote, which is the current folder, and the numbers that it gave."""
    folder = shutil.copytree(request.param, tmp_path / "recorded")
    monkeypatch.chdir(folder)
    return json.loads((folder / "expected.json").read_text())


def read_json(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_a_recorded_run_is_rescored_verified_and_reported(fwc: Run, recorded: Any) -> None:
    before = read_json("run/results.json")
    verified = json.loads(fwc("verify", "run", "--json", code=0).out)["folders"][0]
    assert verified["differs"] == 0
    fwc("rescore", "run", code=0)
    for arm, was in zip(read_json("run/results.json")["arms"], before["arms"], strict=True):
        assert {name: arm[name] for name in ("arm", "n", "rates", "sizes", "coverage")} == {
            name: was[name] for name in ("arm", "n", "rates", "sizes", "coverage")
        }
    fwc("report", "run", "--format", "json", "-o", "report.json", code=0)
    arms = {arm["arm"]: arm for arm in read_json("report.json")["runs"][0]["statistics"]["arms"]}
    assert list(arms) == list(recorded["statistics"])
    for name, values in recorded["statistics"].items():
        assert {metric: arms[name][metric]["value"] for metric in values} == pytest.approx(values)
    fwc("report", "run", "-o", "report.html", code=0)


def test_a_recorded_run_is_gated_and_compared(fwc: Run, recorded: Any) -> None:
    gap, accuracy = (
        {arm: values[name] for arm, values in recorded["statistics"].items()}
        for name in ("demographic_parity_difference", "accuracy")
    )
    gates = json.loads(fwc("gate", "run", "--fail-if", "dp_gap > 0.9", "--json", code=0).out)[
        "gates"
    ]
    assert [gate["value"] for gate in gates] == pytest.approx(list(gap.values()))
    shutil.copytree("run", "again")
    compared = json.loads(fwc("compare", "run", "again", "--json", code=0).out)["arms"]
    assert {arm["arm"]: arm["accuracy"]["second"] for arm in compared} == pytest.approx(accuracy)
    assert [arm["accuracy"]["difference"] for arm in compared] == [0.0, 0.0]


def test_readers_of_answers_take_the_columns_that_they_know(fwc: Run, recorded: Any) -> None:
    answers = pd.read_csv("run/answers.csv", dtype=str, keep_default_na=False)
    later = answers[sorted(answers.columns.drop("simulated"))].assign(tokens="3")
    later.to_csv("run/answers.csv", index=False)
    arms = json.loads(fwc("report", "run", "--format", "json", code=0).out)["runs"][0][
        "statistics"
    ]["arms"]
    accuracy = {arm: values["accuracy"] for arm, values in recorded["statistics"].items()}
    assert {arm["arm"]: arm["accuracy"]["value"] for arm in arms} == pytest.approx(accuracy)
    assert (
        Result(Path("run"), read_json("run/results.json"))
        .answers()["answer"]
        .eq(answers["answer"])
        .all()
    )


def test_a_recorded_audit_is_repeated(recorded: Any) -> None:
    asked = AuditOptions(**read_json("audit/audit.json")["asked"])
    made = audit_of_file(Path("audit/decisions.csv"), asked).document
    for arm in made["audit"]["attributes"][0]["arms"]:
        ratios = {group: values["impact_ratio"] for group, values in arm["groups"].items()}
        assert ratios == recorded["impact_ratio"][arm["arm"]]
