"""A result: one line, a table, a picture, a report, a comparison."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fwc_llm import FwcError, Result, evaluate
from fwc_llm.metrics.statistics import statistics
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.report.read import read_run
from fwc_llm.runs.folder import FORMAT
from fwc_llm.tasks import census_task
from tests.report.conftest import write_folder

EVIL = "</td><script>alert(1)</script>"


def make(folder: Path, arm: str, answers: list[dict[str, str | int]], **described: str) -> Result:
    """A result read from a folder that is written as a run writes it."""
    settings = {"n_test": len(answers), "base_parity": None, "repeats": 1, "seed": 0}
    whole = {"format": FORMAT, "simulated": False, "settings": settings, "arms": [arm], **described}
    write_folder(folder, whole, answers)
    return read(folder)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("runs")
    task = census_task(n_pool=500, n_test=500)
    return evaluate(task, Surrogate(), ("zero", "random"), n_test=80, repeats=2, m=4, out=folder / "run")


def read(folder: Path) -> Result:
    return Result(folder, json.loads((folder / "results.json").read_text()))


def answer(row: int, **changes: str) -> dict[str, str | int]:
    given = {
        "arm": "zero", "repeat": 0, "row": f"r:{row}", "variant": "", "group": "ab"[row % 2],
        "label": ("yes", "no")[row // 2 % 2], "answer": "yes", "reason": "", "p_yes": "", "reply": "Yes",
    }  # fmt: skip
    return given | changes


def test_a_result_is_one_line_and_one_table(result: Result) -> None:
    assert repr(result) == f"<Result census · surrogate, SIMULATED: zero, random; {result.folder}>"
    assert "SIMULATED" in str(result)
    frame = result.to_frame()
    assert frame.index.tolist() == ["zero", "random"]
    assert frame["accuracy"].tolist() == [arm["accuracy"] for arm in result.arms]
    assert len(result.answers()) == 2 * 2 * 80


def test_a_notebook_shows_the_intervals_of_the_report(result: Result) -> None:
    drawn = ElementTree.fromstring(result._repr_html_())
    words = "".join(drawn.itertext())
    assert "SIMULATED" in words
    for arm in statistics(read_run(result.folder).answered)["arms"]:
        gap = arm["demographic_parity_difference"]
        assert f"{gap['value']:.3f} ({gap['low']:.3f} to {gap['high']:.3f})" in words
    assert drawn.find(".//script") is None


def test_a_result_whose_folder_is_gone_still_shows_itself(result: Result, tmp_path: Path) -> None:
    lost = Result(tmp_path / "gone", result.data)
    words = "".join(ElementTree.fromstring(lost._repr_html_()).itertext())
    assert "random" in words
    assert " to " not in words


def test_names_from_the_data_are_escaped(tmp_path: Path) -> None:
    rows = [answer(row, arm=EVIL, group=f"{EVIL}{row % 2}") for row in range(8)]
    drawn = ElementTree.fromstring(make(tmp_path / "evil", EVIL, rows, task=EVIL, model=EVIL)._repr_html_())
    assert drawn.find(".//script") is None
    assert "".join(drawn.itertext()).count("script") > 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "begins"), [("r.html", "<!"), ("r.md", "# "), ("r.json", "{"), ("r.csv", "run,")]
)
def test_the_report_is_written_by_its_ending(result: Result, tmp_path: Path, name: str, begins: str) -> None:
    assert result.report(tmp_path / name) == tmp_path / name
    assert (tmp_path / name).read_text().lower().startswith(begins)


def test_two_runs_are_compared(result: Result, tmp_path: Path) -> None:
    shutil.copytree(result.folder, tmp_path / "twin")
    for other in (tmp_path / "twin", str(tmp_path / "twin"), read(tmp_path / "twin")):
        compared = result.compare(other)
        assert [arm["accuracy"]["difference"] for arm in compared["arms"]] == [0.0, 0.0]
    assert "no difference shown" in repr(compared)
    drawn = "".join(ElementTree.fromstring(compared._repr_html_()).itertext())
    assert "random: DP gap" in drawn
    json.dumps(compared)
    with pytest.raises(FwcError, match="not a folder"):
        result.compare(tmp_path / "nowhere")
