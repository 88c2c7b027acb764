"""What an earlier version wrote is read by this one, and gives the numbers that it gave then."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fwc_llm import Result
from fwc_llm.metrics.records import Records
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from tests.command import Run, read_json
from tests.conftest import CHECKOUT

NAMES = {  # of metrics in version 0
    "demographic_parity_difference": "dp_gap",
    "demographic_parity_ratio": "dp_ratio",
    "equalized_odds_difference": "eo_gap",
}
VERSIONS = sorted((CHECKOUT / "tests" / "recorded_runs").glob("v*"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def recorded(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole_census: None,
) -> Any:
    """A copy of what a version wrote, which is the current folder, and the numbers that it gave."""
    folder = shutil.copytree(request.param, tmp_path / "recorded")
    monkeypatch.chdir(folder)
    return read_json(folder / "expected.json")


def test_a_recorded_run_is_rescored_verified_and_reported(
    fwc: Run, recorded: Any
) -> None:
    before = read_json("run/results.json")
    verified = fwc("verify run --json", code=0).json["folders"][0]
    assert verified["differs"] == 0
    fwc("rescore run", code=0)
    after = read_json("run/results.json")
    found = Records.read(after["records"], after["attribute"])
    for was in before["arms"]:
        coverage = found.of("coverage", was["arm"])
        assert (coverage.value, coverage.n) == (was["coverage"], was["n"])
        for group, rate in was["rates"].items():
            assert found.of("selection_rate", was["arm"], group).value == rate
    fwc("report run --format json -o report.json", code=0)
    run = read_json("report.json")["runs"][0]
    assert [arm["arm"] for arm in run["statistics"]["arms"]] == list(
        recorded["statistics"]
    )
    found = Records.read(run["records"], after["attribute"])
    for name, values in recorded["statistics"].items():
        told = {
            metric: found.of(NAMES.get(metric, metric), name).value for metric in values
        }
        assert told == pytest.approx(values)
    fwc("report run -o report.html", code=0)


def test_readers_of_answers_take_the_columns_that_they_know(
    fwc: Run, recorded: Any
) -> None:
    answers = pd.read_csv("run/answers.csv", dtype=str, keep_default_na=False)
    later = answers[sorted(answers.columns.drop("simulated"))].assign(tokens="3")
    later.to_csv("run/answers.csv", index=False)
    run = fwc("report run --format json", code=0).json["runs"][0]
    found = Records.read(run["records"], "")
    for arm, values in recorded["statistics"].items():
        assert found.of("accuracy", arm).value == pytest.approx(values["accuracy"])
    assert (
        Result(Path("run"), read_json("run/results.json"))
        .answers()["answer"]
        .eq(answers["answer"])
        .all()
    )


def test_a_recorded_audit_is_repeated(recorded: Any) -> None:
    asked = AuditOptions(**read_json("audit/audit.json")["asked"])
    made = audit_of_file(Path("audit/decisions.csv"), asked).document
    first = made["protected"][0]
    for arm, ratios in recorded["impact_ratio"].items():
        found = [
            r
            for r in made["records"]
            if (r["metric"], r.get("arm")) == ("impact_ratio", arm)
        ]
        told = {r["group"]: r.get("value") for r in found if r["attribute"] == first}
        assert told == ratios
