"""`monitor`: decisions that keep coming, with a drift on the fourth day that the mean of all hides."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.gates import parse_condition
from fwc_llm.gates.change import collected, total
from tests.command import Run

OPTIONS = ("--answer", "approved", "--protected", "sex", "--key", "id", "--time", "when", "--by", "version")


def day(number: int, rows: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    sex, gap = rng.choice(["f", "m"], rows), 0.04 if number < 4 else 0.3
    yes = rng.random(rows) < np.where(sex == "m", 0.5 + gap / 2, 0.5 - gap / 2)
    ids, version = [f"{number}-{row}" for row in range(rows)], "a" if number < 4 else "<b>"
    columns = {"id": ids, "sex": sex, "approved": np.where(yes, "yes", "no")}
    return pd.DataFrame(columns).assign(when=f"2026-11-{number:02}", version=version)


@pytest.fixture
def watch(fwc: Run, tmp_path: Path) -> Run:
    """Monitor a table, which goes on where the last one ended."""
    words = ("monitor", tmp_path / "decisions.parquet", *OPTIONS, "--state", tmp_path / "state.json")

    def watch(frame: pd.DataFrame, *more: object, code: int | None = None) -> Any:
        frame.to_parquet(tmp_path / "decisions.parquet")
        return fwc(*words, "--fail-if", "dp > 0.1", "--undecided", "pass", *more, code=code)

    return watch


def test_a_drift_is_found_that_the_mean_of_all_hides(watch: Run, tmp_path: Path) -> None:
    frame = pd.DataFrame()
    for number in range(1, 6):
        frame = pd.concat([frame, day(number)])
        mixed = frame.sample(frac=1, random_state=0)
        code = 0 if number < 4 else 5
        result = watch(mixed, "--json", "--report", tmp_path / "page.html", code=code)
        document = json.loads(result.out)
        if number == 4:
            assert [gate["outcome"] for gate in document["gates"]] == ["undecided", "failed"]
    assert [entry["new"] for entry in document["history"]] == [1000] * 5
    state = (tmp_path / "state.json").read_text()
    assert "1-17" not in state
    page = (tmp_path / "page.html").read_text()
    assert "By version" in page
    assert "<b>" not in page
    assert page.count("<circle") == 10
    again = json.loads(watch(day(5), "--json").out)  # nothing new, and only a part of the file
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
def test_bad_input_leaves_the_state_as_it_was(watch: Run, tmp_path: Path, change: Any, why: str) -> None:
    watch(day(1, 200), code=0)
    before = (tmp_path / "state.json").read_bytes()
    assert re.search(why, watch(change(day(1, 200)), code=2).line)
    assert "monitors conditions" in watch(day(2, 200), "--fail-if", "dp > 0.2", code=2).line
    assert (tmp_path / "state.json").read_bytes() == before


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("accuracy < 0.5", "eo > 0.1", "ppv > 0.1"), r"needs true outcomes.*--label"),
        (("dp < 0.1", "auc > 0.1", "dp[a] - dp[b] > 0", "coverage > 0.8"), "cannot be monitored"),
    ],
)
def test_what_cannot_be_monitored_is_refused(watch: Run, texts: tuple[str, ...], why: str) -> None:
    for text in texts:
        assert re.search(why, watch(day(1, 200), "--fail-if", text, code=2).line)


def test_spaces_in_a_condition_do_not_matter(fwc: Run, tmp_path: Path) -> None:
    page, table = tmp_path / "page.html", tmp_path / "decisions.csv"
    table.write_text(day(1, 200).to_csv())
    asked = ("monitor", table, *OPTIONS, "--state", tmp_path / "s.json", "--fail-if", "dp>0.9")
    fwc(*asked, "--undecided", "pass", "--report", page, code=0)
    assert "dp&gt;0.9" in page.read_text()
    assert "monitors run_length 100000, not 10" in fwc(*asked, "--run-length", "10", code=2).line


def test_days_with_one_group_or_without_decisions_are_counted(watch: Run) -> None:
    women = day(1, 300).query("sex == 'f'")
    watch(women, code=0)  # undecided: there is nothing to compare yet
    watch(day(2, 300), code=0)
    document = json.loads(watch(day(2, 0), "--json").out)
    assert [entry["new"] for entry in document["history"]] == [len(women), 300]
    assert document["gates"][0]["outcome"] == "undecided"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"format": "fwc-llm-monitor/9"}, "format"), ({"seen": "AAA"}, "seen"),
        ({"counts": {"": {"f": [[1, 2]]}}}, "counts"),
    ],
)  # fmt: skip
def test_a_damaged_state_is_named(watch: Run, tmp_path: Path, damage: Any, why: str) -> None:
    watch(day(1, 200))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert f"state.json: {why}" in watch(day(2, 200), code=2).line


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
