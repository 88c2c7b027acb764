"""The paper's numbers as copied, and what is computed from them."""

import numpy as np
import pandas as pd
import pytest

from evals.paper.pareto import average_gain, average_reduction, on_front
from evals.paper.published import published
from evals.paper.tables import mean_sd


def test_every_printed_tradeoff_follows_from_its_disparity_and_auc() -> None:
    """The paper's equation "tradeoff" holds for every line, within rounding: nothing was miscopied."""
    for name, lines in (("tradeoff", 76), ("augmentation", 34)):
        table = published(name)
        assert len(table) == lines
        computed = np.hypot(table["dd"], 1 - table["auc"])
        assert np.abs(computed - table["tradeoff"]).max() <= 0.02


def test_fwc_has_no_reweighed_variant() -> None:
    table = published("tradeoff")
    ours = table[table["method"].str.startswith("fwc")].drop(columns="arm")
    assert (ours.groupby(["dataset", "method"]).nunique() == 1).all(axis=None)


def test_the_reading_of_the_headline() -> None:
    """The paper says 53 % and 18 %; its rounded tables give this."""
    table = published("tradeoff")
    plain, reweighed = (table[table["arm"] == arm] for arm in ("plain", "reweighed"))
    assert average_reduction(plain) == pytest.approx(0.523, abs=0.001)
    assert average_reduction(reweighed) == pytest.approx(0.157, abs=0.001)
    assert average_reduction(plain, "fwc-0.05") == pytest.approx(0.437, abs=0.001)
    assert average_reduction(reweighed, "fwc-0.1") == pytest.approx(-0.183, abs=0.001)


def test_the_other_reading_of_the_headline() -> None:
    table = published("tradeoff")
    plain, reweighed = (table[table["arm"] == arm] for arm in ("plain", "reweighed"))
    assert average_gain(plain) == pytest.approx(0.510, abs=0.001)
    assert average_gain(reweighed) == pytest.approx(0.182, abs=0.001)


def test_rivals_without_disparity_are_left_out() -> None:
    table = pd.DataFrame({"dataset": "x", "method": ["fwc-0.01", "uniform", "kmeans"], "dd": [0.1, 0.2, 0.0]})
    assert average_reduction(table) == pytest.approx(0.5)
    assert np.isnan(average_reduction(table[table["method"] != "uniform"]))


def test_the_front_is_what_no_other_beats() -> None:
    disparity, auc = np.array([0.1, 0.2, 0.1, 0.3, 0.1]), np.array([0.7, 0.9, 0.6, 0.9, 0.7])
    assert on_front(disparity, auc).tolist() == [True, True, False, False, True]


def test_means_keep_the_order_and_count_the_runs() -> None:
    frame = pd.DataFrame({"method": ["b", "a", "b"], "value": [1.0, 5.0, 3.0]})
    table = mean_sd(frame, ["method"], ["value"])
    assert table["method"].tolist() == ["b", "a"]
    assert table["value"].tolist() == [2, 5]
    assert table["value_sd"].iloc[0] == pytest.approx(np.sqrt(2))
    assert np.isnan(table["value_sd"].iloc[1])
    assert table["runs"].tolist() == [2, 1]
