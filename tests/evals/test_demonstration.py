"""The demonstration: what the pages and the picture show is what one run of it says."""

import re
from pathlib import Path

import pytest

from evals.demonstration import PAGES, PICTURES, parts_of, picture_says, run, written
from fwc_llm.runs.recorded_run import read_run

pytestmark = pytest.mark.slow


def test_pages_pictures_and_words_show_the_runs_which_tell_arms_apart_to_five_points(
    tmp_path: Path,
) -> None:
    """One test: its runs are made once, whatever else runs beside it."""
    simulated = run("simulated", tmp_path)
    recorded = run("recorded", tmp_path)
    assert "SIMULATED" in simulated
    assert "experiment.toml --model gpt-6-luna --dry-run" in simulated
    assert "SIMULATED" not in recorded
    assert "replayed" in recorded.splitlines()[0]
    parts = {"simulated": parts_of(simulated), "recorded": parts_of(recorded)}
    shown = " ".join(text for each in parts.values() for text in each.values())
    for page in PAGES:
        text = page.read_text()
        assert "<!-- simulated: " in text
        assert text == written(text, parts), (
            f"{page.name}: run python -m evals.demonstration"
        )
        for number in re.findall(r"\b0\.\d{3}\b", text):
            assert number in shown, (page.name, number)
    for name, picture in PICTURES.items():
        assert picture_says(picture) == parts[name]["results"] > ""
    demonstrated = read_run(tmp_path / "demo")
    assert demonstrated.simulated
    assert list(demonstrated.arms) == ["zero", "balanced", "fwc"]
    for record in demonstrated.statistics.records:
        if record.metric == "dp_gap_difference" and record.against == "zero":
            assert (record.high - record.low) / 2 < 0.055
            assert record.value == 0 or record.verdict == "differs"
