"""What a report says of P(yes): in every format, for constant, rounded and missing probabilities."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.report import probability as tables
from fwc_llm.report.charts import calibration_by_group, shown_groups
from fwc_llm.report.tables import texts
from fwc_llm.report.write import render

MakeRun = Callable[..., Path]


def decided(n: int = 400, groups: str = "ab", **changes: Any) -> pd.DataFrame:
    """Answers at one half of a P(yes) with two decimals."""
    rng = np.random.default_rng(0)
    group = np.array(list(groups))[np.arange(n) % len(groups)]
    label = rng.random(n) < np.where(group == "a", 0.6, 0.3)
    p = np.round(np.clip(0.35 + 0.2 * label + 0.1 * (group == "a") + rng.normal(0, 0.1, n), 0, 1), 2)
    table = {"group": group, "label": np.where(label, "yes", "no"), "p_yes": p}
    frame = pd.DataFrame(table).assign(**changes)
    return frame.assign(answer=np.where(frame["p_yes"] >= 0.5, "yes", "no"))


def found_in(frame: pd.DataFrame) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(audit(frame).to_dict(), allow_nan=False))
    return read


def test_thresholds_agree_with_the_answers() -> None:
    frame = decided()
    found = found_in(frame)
    arm = found["arms"][0]
    thresholds = arm["probabilities"]["thresholds"]
    half = thresholds["chosen"]["one_half"]
    assert half["accuracy"] == pytest.approx(arm["accuracy"]["value"])
    gap = arm["demographic_parity_difference"]
    assert half["demographic_parity_difference"] == pytest.approx(gap["value"])
    assert thresholds["one_half_limits"]["demographic_parity_difference"] == pytest.approx(
        [gap["low"], gap["high"]]
    )
    assert half["ties"] == (frame["p_yes"] == 0.5).sum() > 0
    assert half["threshold"] == 0.5
    chosen = thresholds["chosen"]
    assert chosen["most_accurate"]["accuracy"] >= half["accuracy"]
    kept = chosen["least_gap_keeping_half"]
    constant = thresholds["constant_accuracy"]
    assert kept["accuracy"] >= (constant + chosen["most_accurate"]["accuracy"]) / 2 - 1e-9
    assert chosen["least_gap"]["demographic_parity_difference"] <= kept["demographic_parity_difference"]
    section = tables.thresholds(found)
    rows = texts(section.rows)
    assert rows[0][1:3] == ["one half", "0.5"]
    assert all(len(row) == len(section.headings) for row in rows)
    assert "(" in rows[0][3]
    assert "(" not in rows[1][3]  # chosen on these rows: no interval
    assert any("lie just at one half" in note for note in tables.notes(found))


def test_a_constant_probability_and_one_group_leave_dashes() -> None:
    found = found_in(decided(p_yes=0.5))
    rows = {row[1]: row for row in tables.thresholds(found).rows}
    assert rows["least gap of all"][2:] == ["–"] * 6
    assert rows["the same, held out"][3] == "–"
    assert any("the same for all rows" in note for note in tables.notes(found))
    one = found_in(decided(groups="a"))
    assert tables.thresholds(one).rows[0][4] == "–"
    assert len(shown_groups(found_in(decided(groups="abcdef")))) == 4


def test_rows_without_a_probability_are_said() -> None:
    frame = decided()
    frame.loc[frame["group"].eq("b") & (frame.index < 200), "p_yes"] = np.nan
    found = found_in(frame)
    assert found["arms"][0]["probabilities"]["calibration_by_group"]["b"]["n"] == 100
    assert "answers: not every row has P(yes) (a 100%, b 50.0%)" in " ".join(tables.notes(found))
    lost = frame.assign(p_yes=frame["p_yes"].where(frame["group"] == "a"))
    found = found_in(lost)
    assert list(found["arms"][0]["probabilities"]["calibration_by_group"]) == ["a"]
    assert calibration_by_group(found["arms"][0], ["a", "b"])["marks"]
    assert not tables.probabilities(found_in(frame.drop(columns="p_yes")))


def test_every_format_has_it(make_run: MakeRun) -> None:
    evil = "</td><script>alert(1)</script>|"
    rates = {arm: {f"a{evil}": (0.2, 0.6), "b": (0.3, 0.8)} for arm in ("zero", evil)}
    folder = make_run(probabilities=True, repeats=2, rates={"zero": rates["zero"]})
    page = render([folder], "html")
    assert "Is P(yes) right, in each group?" in page
    assert "What one threshold for all would answer" in page
    assert "the design chose" in page
    assert "<script>alert" not in page
    text = render([folder], "md")
    assert "#### What one threshold for all would answer" in text
    assert "| zero | the same, held out |" in text
    lines = list(csv.DictReader(io.StringIO(render([folder], "csv"))))
    differences = [line for line in lines if line["metric"] == "calibration_difference"]
    assert len(differences) == 2
    assert all(float(line["low"]) <= float(line["value"]) <= float(line["high"]) for line in differences)
    document = json.loads(render([folder], "json"))
    assert document["runs"][0]["statistics"]["arms"][0]["probabilities"]["labels_fixed"] is True
