"""All of `python -m evals.paper all --quick`, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evals.paper.experiment import NAMES

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def results(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    command = [sys.executable, "-m", "evals.paper", "all", "--quick", "--out", str(folder)]
    environment = {**os.environ, "FWC_LLM_DATA": str(data_dir)}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_finishes_and_reports(results: Path, name: str) -> None:
    record = json.loads((results / f"{name}.json").read_text())
    assert record["cells_done"] == record["cells_planned"] > 0
    text = (results / f"{name}.md").read_text()
    assert "complete" in text
    assert "NOT COMPLETE" not in text
    assert "nan" not in text.lower().replace("covenan", "")
    assert str(results) not in text + json.dumps(record)


def test_figures_are_small_svg_files(results: Path) -> None:
    for name in ("closeness", "tradeoff", "augmentation", "runtime"):
        figure = (results / f"{name}.svg").read_text()
        assert "<svg" in figure
        assert len(figure) < 300_000


def test_fwc_keeps_its_limit_and_its_certificate(results: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(results / "closeness.csv")
    limits = {"fwc-0.01": 0.01, "fwc-0.05": 0.05, "fwc-0.1": 0.1}
    ours = frame[frame["method"].isin(limits)]
    assert len(ours) == 2 * 4 * 2 * 3  # runs, data sets, units, limits
    assert (ours["violation_train"] <= ours["method"].map(limits) + 1e-6).all()
    assert (ours["gap"].abs() <= 1e-9).all()
    assert (ours["objective_error"] <= 1e-8 * ours["w1_train"].clip(lower=1)).all()


def test_moved_rows_are_those_of_the_solvers_own_plan(results: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(results / "moves.csv")
    assert len(frame) == 2 * 4 * 2  # runs, data sets, units
    assert ((frame["distance"] - frame["solver"]).abs() <= 1e-4 * frame["solver"]).all()
    assert (frame["cell"] >= frame["least"] - 1e-6).all()
    assert (frame["cell"] <= frame["level"] + frame["outcome"] + 1e-6).all()
    assert (frame["least"] > 0).all()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evals.paper", "closness", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "unknown experiment" in done.stderr


def test_fresh_forgets_nothing_before_it_has_read_the_data(tmp_path: Path) -> None:
    data, kept = tmp_path / "german" / "german.data", tmp_path / "closeness.csv"
    data.parent.mkdir()
    data.write_text("no table\n")
    kept.write_text("earlier results\n")
    command = [sys.executable, "-m", "evals.paper", "closeness", "--fresh", "--out", str(tmp_path)]
    command += ["--datasets", "german", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "german.data" in done.stderr
    assert kept.read_text() == "earlier results\n"
