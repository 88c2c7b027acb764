"""All of `python -m evals.paper all --quick`, as a user runs it."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from evals.paper.experiment import NAMES
from tests.command import python, read_json
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.slow


def test_every_experiment_finishes_reports_and_keeps_what_it_promises(
    data_dir: Path, tmp_path: Path
) -> None:
    """One test: its runs are made once, whatever else runs beside them."""
    words = ("all", "--quick", "--datasets", "german", "--out", tmp_path)
    python(
        "-m",
        "evals.paper",
        *words,
        cwd=CHECKOUT,
        env=os.environ | {"FWC_LLM_DATA": str(data_dir)},
    )
    for name in NAMES:
        record = read_json(tmp_path / f"{name}.json")
        assert record["cells_done"] == record["cells_planned"] > 0
        text = (tmp_path / f"{name}.md").read_text()
        assert "complete" in text
        assert "NOT COMPLETE" not in text
        assert "nan" not in text.lower().replace("covenan", "")
        assert str(tmp_path) not in text + json.dumps(record)
    for name in ("closeness", "tradeoff", "augmentation", "runtime"):
        figure = (tmp_path / f"{name}.svg").read_text()
        assert "<svg" in figure
        assert len(figure) < 300_000

    closeness = pd.read_csv(tmp_path / "closeness.csv")
    limits = {"fwc-0.01": 0.01, "fwc-0.05": 0.05, "fwc-0.1": 0.1}
    ours = closeness[closeness["method"].isin(limits)]
    assert len(ours) == 2 * 2 * 3  # runs, units, limits
    assert (ours["violation_train"] <= ours["method"].map(limits) + 1e-6).all()
    assert (ours["gap"].abs() <= 1e-9).all()
    assert (ours["objective_error"] <= 1e-8 * ours["w1_train"].clip(lower=1)).all()

    moves = pd.read_csv(tmp_path / "moves.csv")  # of the solver's own plan
    assert len(moves) == 2 * 2  # runs, units
    assert ((moves["distance"] - moves["solver"]).abs() <= 1e-4 * moves["solver"]).all()
    assert (moves["cell"] >= moves["least"] - 1e-6).all()
    assert (moves["cell"] <= moves["level"] + moves["outcome"] + 1e-6).all()
    assert (moves["least"] > 0).all()


def test_fresh_forgets_nothing_before_it_has_read_the_data(tmp_path: Path) -> None:
    data = tmp_path / "german" / "german.data"
    kept = tmp_path / "closeness.csv"
    data.parent.mkdir()
    data.write_text("no table\n")
    kept.write_text("earlier results\n")
    words = (
        "closeness",
        "--fresh",
        "--out",
        tmp_path,
        "--datasets",
        "german",
        "--data-dir",
        tmp_path,
    )
    done = python("-m", "evals.paper", *words, cwd=CHECKOUT, check=False)
    assert done.returncode == 2
    assert "german.data" in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert kept.read_text() == "earlier results\n"
