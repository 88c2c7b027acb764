"""The demonstration: what the pages and the picture show is what one run of it says."""

import re
from pathlib import Path

import pytest

from evals.demonstration import PAGES, PICTURE, parts_of, picture_says, run, written
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.read import read_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demonstration")


@pytest.fixture(scope="module")
def parts(folder: Path) -> dict[str, str]:
    return parts_of(run(folder))


def test_the_pages_and_the_picture_show_the_run(parts: dict[str, str]) -> None:
    assert all(parts.values())
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- demonstration: " in text
        assert text == written(text, parts), f"{page.name}: run python -m evals.demonstration"
    assert picture_says(PICTURE) == parts["results"]


def test_numbers_in_the_words_are_the_runs(parts: dict[str, str]) -> None:
    shown = " ".join(parts.values())
    for page in PAGES:
        for number in re.findall(r"\b0\.\d{3}\b", page.read_text(encoding="utf-8")):
            assert number in shown, (page.name, number)


def test_the_effect_of_the_examples_is_known_to_five_points(parts: dict[str, str], folder: Path) -> None:
    assert parts
    read = read_run(folder / "demo")
    assert read.simulated
    for test in statistics(read.answered)["comparisons"]:
        gap = test["demographic_parity_difference"]
        assert (gap["high"] - gap["low"]) / 2 <= 0.05
        assert gap["difference"] == 0 or gap["verdict"] == "differs"
