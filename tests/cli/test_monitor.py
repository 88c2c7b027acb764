"""`monitor`: decisions that keep coming, with a drift on the fourth day that the mean of all hides."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fwc_llm.cli import app
from fwc_llm.errors import FwcError
from fwc_llm.gates import parse_condition
from fwc_llm.gates.change import check_watched, collected, total

OPTIONS = ["--answer", "approved", "--protected", "sex", "--key", "id", "--time", "when", "--by", "version"]


def day(number: int, rows: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    sex, gap = rng.choice(["f", "m"], rows), 0.04 if number < 4 else 0.3
    yes = rng.random(rows) < np.where(sex == "m", 0.5 + gap / 2, 0.5 - gap / 2)
    ids, version = [f"{number}-{row}" for row in range(rows)], "a" if number < 4 else "<b>"
    columns = {"id": ids, "sex": sex, "approved": np.where(yes, "yes", "no")}
    return pd.DataFrame(columns).assign(when=f"2026-11-{number:02}", version=version)


def watch(folder: Path, frame: pd.DataFrame, *more: str) -> Any:
    frame.to_parquet(folder / "decisions.parquet")
    asked = ["monitor", str(folder / "decisions.parquet"), *OPTIONS, "--state", str(folder / "state.json")]
    return CliRunner().invoke(app, [*asked, "--fail-if", "dp > 0.1", "--undecided", "pass", *more])


def test_a_drift_is_found_that_the_mean_of_all_hides(tmp_path: Path) -> None:
    codes, frame = [], pd.DataFrame()
    for number in range(1, 6):
        frame = pd.concat([frame, day(number)])
        mixed = frame.sample(frac=1, random_state=0)
        result = watch(tmp_path, mixed, "--json", "--report", str(tmp_path / "page.html"))
        codes.append(result.exit_code)
        document = json.loads(result.stdout)
        if number == 4:
            assert [gate["outcome"] for gate in document["gates"]] == ["undecided", "failed"]
    assert [code != 0 for code in codes] == [False, False, False, True, True]
    assert [entry["new"] for entry in document["history"]] == [1000] * 5
    state = (tmp_path / "state.json").read_text()
    assert "1-17" not in state
    page = (tmp_path / "page.html").read_text()
    assert "By version" in page
    assert "<b>" not in page
    assert page.count("<circle") == 10
    again = json.loads(watch(tmp_path, day(5), "--json").stdout)  # nothing new, and only a part of the file
    assert len(again["history"]) == 5
    assert again["counts"] == document["counts"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda frame: frame.assign(approved="no"), "the row '1-.*' was seen before and has changed"),
        (lambda frame: pd.concat([frame, frame.tail(1)]), "two answers to the row '1-199'"),
        (lambda frame: frame.rename(columns={"sex": "gender"}), "no column 'sex'"),
        (lambda frame: frame.assign(when="soon"), "ISO 8601"),
    ],
)
def test_bad_input_leaves_the_state_as_it_was(tmp_path: Path, change: Any, why: str) -> None:
    watch(tmp_path, day(1, 200))
    before = (tmp_path / "state.json").read_bytes()
    with pytest.raises(FwcError, match=why):
        raise watch(tmp_path, change(day(1, 200))).exception
    assert (tmp_path / "state.json").read_bytes() == before
    with pytest.raises(FwcError, match="monitors conditions"):
        raise watch(tmp_path, day(2, 200), "--fail-if", "dp > 0.2").exception


def test_what_needs_labels_is_refused_without_them_and_spaces_do_not_matter(tmp_path: Path) -> None:
    for text in ("accuracy < 0.5", "eo > 0.1", "ppv > 0.1"):
        with pytest.raises(FwcError, match=r"needs true outcomes.*--label"):
            raise watch(tmp_path, day(1, 200), "--fail-if", text).exception
    page = tmp_path / "page.html"
    (tmp_path / "decisions.csv").write_text(day(1, 200).to_csv())
    asked = ["monitor", str(tmp_path / "decisions.csv"), *OPTIONS, "--state", str(tmp_path / "s.json")]
    more = ["--fail-if", "dp>0.9", "--undecided", "pass", "--report", str(page)]
    assert CliRunner().invoke(app, [*asked, *more]).exit_code == 0
    assert "dp&gt;0.9" in page.read_text()
    with pytest.raises(FwcError, match="monitors run_length 100000, not 10"):
        raise CliRunner().invoke(app, [*asked, *more, "--run-length", "10"]).exception


def test_days_with_one_group_or_without_decisions_are_counted(tmp_path: Path) -> None:
    women = day(1, 300).query("sex == 'f'")
    assert watch(tmp_path, women).exit_code == 0  # undecided: there is nothing to compare yet
    assert watch(tmp_path, day(2, 300)).exit_code == 0
    document = json.loads(watch(tmp_path, day(2, 0), "--json").stdout)
    assert [entry["new"] for entry in document["history"]] == [len(women), 300]
    assert document["gates"][0]["outcome"] == "undecided"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"format": "fwc-llm-monitor/9"}, "format"),
        ({"seen": "AAA"}, "seen"),
        ({"counts": {"": {"f": [[1, 2]]}}}, "counts"),
    ],
)
def test_a_damaged_state_is_named(tmp_path: Path, damage: Any, why: str) -> None:
    watch(tmp_path, day(1, 200))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(FwcError, match=f"state.json: {why}"):
        raise watch(tmp_path, day(2, 200)).exception


@pytest.mark.parametrize("text", ["dp < 0.1", "auc > 0.1", "dp[a] - dp[b] > 0", "accuracy > 0.8"])
def test_what_has_no_detector_is_refused(text: str) -> None:
    with pytest.raises(FwcError, match="cannot be monitored"):
        check_watched(parse_condition(text))


@pytest.mark.parametrize("text", ["dp > 0.1", "eo > 0.1", "dp_ratio < 0.8", "accuracy < 0.5"])
def test_false_alarms_are_as_rare_as_is_said(text: str) -> None:
    """At the bound itself: of 400 streams of 1,000 decisions at most 1,000 / 5,000 may reach 5,000."""
    rng, condition, alarms = np.random.default_rng(0), parse_condition(text), 0
    rates = {"dp": (0.5, 0.6), "eo": (0.5, 0.6), "dp_ratio": (0.4, 0.5), "accuracy": (0.5, 0.5)}
    for _ in range(400):
        group, label = rng.integers(0, 2, 1000), rng.integers(0, 2, 1000)
        answer = (rng.random(1000) < np.array(rates[condition.metric])[group]).astype(float)
        evidence: dict[str, list[float]] = {}
        for part in np.array_split(np.arange(1000), 10):
            evidence = collected(evidence, condition, answer[part], label[part], group[part], ["f", "m"])
            if total(evidence) >= 5000:
                alarms += 1
                break
    assert alarms <= 0.2 * 400
