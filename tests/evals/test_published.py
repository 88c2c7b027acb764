"""The paper's numbers as copied, and what is computed from them."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator
from rich.console import Console

from evals.bench import selectors
from evals.bench.selectors_peers import peers
from evals.paper.distances import parity_violation
from evals.paper.downstream import Network
from evals.paper.experiment import Cell, Experiment, Options, Row
from evals.paper.ledger import Ledger
from evals.paper.pareto import average_gain, average_reduction, on_front
from evals.paper.published import published
from evals.paper.runner import run_cells


def test_every_printed_tradeoff_follows_from_its_disparity_and_auc() -> None:
    """The paper's equation "tradeoff" holds for every line, within rounding: nothing was
    miscopied.
    """
    for name, lines in (("tradeoff", 76), ("augmentation", 34)):
        table = published(name)
        assert len(table) == lines
        computed = np.hypot(table["dd"], 1 - table["auc"])
        assert np.abs(computed - table["tradeoff"]).max() <= 0.02


def test_two_readings_of_the_headline() -> None:
    """The paper says 53 % and 18 %; its rounded tables give this."""
    table = published("tradeoff")
    plain, reweighed = (table[table["arm"] == arm] for arm in ("plain", "reweighed"))
    assert average_reduction(plain) == pytest.approx(0.523, abs=0.001)
    assert average_reduction(reweighed) == pytest.approx(0.157, abs=0.001)
    assert average_reduction(plain, "fwc-0.05") == pytest.approx(0.437, abs=0.001)
    assert average_reduction(reweighed, "fwc-0.1") == pytest.approx(-0.183, abs=0.001)
    assert average_gain(plain) == pytest.approx(0.510, abs=0.001)
    assert average_gain(reweighed) == pytest.approx(0.182, abs=0.001)


def test_the_front_is_what_no_other_beats() -> None:
    disparity = np.array([0.1, 0.2, 0.1, 0.3, 0.1])
    auc = np.array([0.7, 0.9, 0.6, 0.9, 0.7])
    assert on_front(disparity, auc).tolist() == [True, True, False, False, True]


# --- The downstream classifier


def test_the_network_computes_what_scikit_learn_computes(rng: Generator) -> None:
    from sklearn.metrics import log_loss
    from sklearn.neural_network import MLPClassifier

    y = rng.integers(0, 2, 300)
    weights = rng.random(300)
    X = rng.normal(size=(300, 4)) + 2 * y[:, None]
    model = MLPClassifier((20,), random_state=0).partial_fit(X, y, classes=[0, 1])
    ours = Network(model.coefs_, model.intercepts_)
    theirs = model.predict_proba(X)
    assert ours.probabilities(X) == pytest.approx(theirs[:, 1], abs=1e-12)
    assert ours.loss(X, y, weights) == pytest.approx(
        log_loss(y, theirs, sample_weight=weights)
    )


# --- The selectors' benchmark


@pytest.mark.slow
def test_fwc_is_closest_on_a_small_reference_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, size in (("N", 800), ("P", 8), ("M", 60)):
        monkeypatch.setattr(selectors, name, size)
    runs = list(selectors.reference(range(1)))
    assert [run["method"] for run in runs] == list(selectors.KNOWN)
    assert min(runs, key=lambda run: run["W1"])["method"] == "FWC ε 0.1"
    table = selectors.summary(runs)
    assert table["k-medoids (swap) L1"]["W1"] < table["uniform"]["W1"]
    assert table["k-means"]["clustering"] == min(
        row["clustering"] for row in table.values()
    )
    against = list(peers(quick=True))
    for row in against:
        if "peer" in row:
            assert row["loss"] == pytest.approx(row["peer_loss"], rel=0.05)
    result = {
        "command": "c",
        "machine": "m",
        "seeds": 1,
        "fwc_is_closest": True,
        "reference": table,
        "scale": [{"strategy": "fwc", "m": 16, "error": "no"}],
        "peers": against,
    }
    text = selectors.report(result)
    assert "for every seed: yes" in text
    assert "| fwc | 16 | no |" in text


def test_parity_violation_is_the_worst_ratio() -> None:
    d = np.array(["a", "a", "b", "b"])
    y = np.array([0, 1, 0, 1])
    # a: p(1) = 3/4 against 1/2; b: p(1) = 1/2.
    assert parity_violation(d, y, np.array([1.0, 3, 1, 1]), 0.5) == pytest.approx(0.5)
    # A level without weight says nothing.
    assert parity_violation(d, y, np.array([1.0, 1, 0, 0]), 0.5) == 0


# --- Results that grow in a file


class Counting:
    """An experiment whose cells are numbers; it counts how often each is measured."""

    def __init__(self) -> None:
        self.measured: list[int] = []

    def plan(self, options: Options) -> list[Cell]:
        return [
            {"cell": number, "run": run}
            for number in range(5)
            for run in range(options.runs)
        ]

    def measure(self, cell: Cell, options: Options) -> list[Row]:
        self.measured.append(cell["cell"])
        return [
            {"value": cell["cell"] / 3, "note": 'a, "b"'},
            {"value": float("nan"), "note": ""},
        ]

    def experiment(self) -> Experiment:
        names = ("counting", "Counting", ("cell", "run"), ("value", "note"))
        return Experiment(*names, self.plan, self.measure, lambda f, p: "")


def run(
    counting: Counting, path: Path, seconds: float | None = None
) -> tuple[int, int]:
    experiment = counting.experiment()
    return run_cells(
        experiment,
        Options(runs=1),
        Ledger(path, experiment),
        1,
        seconds,
        Console(quiet=True),
    )


def test_a_second_run_measures_nothing(tmp_path: Path) -> None:
    counting = Counting()
    path = tmp_path / "counting.csv"
    assert run(counting, path) == run(counting, path) == (5, 5)
    assert counting.measured == [0, 1, 2, 3, 4]
    frame = Ledger(path, counting.experiment()).frame()
    assert frame["value"].dropna().tolist() == [0, 0.333333, 0.666667, 1, 1.33333]
    assert frame["note"].iloc[0] == 'a, "b"'


def test_a_torn_cell_is_measured_again(tmp_path: Path) -> None:
    counting = Counting()
    path = tmp_path / "counting.csv"
    run(counting, path)
    whole = path.read_text()
    for cut in range(1, 12):
        path.write_text(whole[:-cut])
        counting.measured.clear()
        run(counting, path)
        assert counting.measured == [4]
        assert path.read_text() == whole
