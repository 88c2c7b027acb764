"""Plans and coresets: one line each, and a fitted coreset's picture."""

from xml.etree import ElementTree

import numpy as np

from fwc_llm.coreset import FairCoreset, fair_transport
from fwc_llm.coreset.rivals.base import Coreset

RNG = np.random.default_rng(0)
X, Y, D = RNG.normal(size=(60, 3)), RNG.integers(0, 2, 60), RNG.integers(0, 2, 60)


def test_a_fitted_coreset_shows_its_cells_and_history() -> None:
    fitted = FairCoreset(8, random_state=0).fit(X, Y, np.where(D == 1, "<b>men", "women"))
    drawn = ElementTree.fromstring(fitted._repr_html_())
    words = "".join(drawn.itertext())
    assert f"objective {fitted.objective_:.6g}" in words
    assert "<b>men" in words
    assert len(drawn.findall(".//tbody/tr")) == 4
    assert sum(int(row[2].text or "") for row in drawn.findall(".//tbody/tr")) == 8
    (line,) = drawn.iter("polyline")
    assert len(line.attrib["points"].split()) == len(fitted.history_)


def test_crossed_levels_are_named_together() -> None:
    fitted = FairCoreset(16, random_state=0).fit(X, Y, np.column_stack([D, Y[::-1]]))
    assert "0 &amp; 1" in fitted._repr_html_()


def test_an_unfitted_coreset_shows_itself() -> None:
    assert "FairCoreset(m=8)" in FairCoreset(8)._repr_html_()


def test_plans_and_coresets_print_one_line() -> None:
    plan = fair_transport(RNG.random((5000, 4)), 2, 2, [0.5, 0.5], 0.01)
    assert "5,000 rows to 4 cells" in repr(plan)
    assert len(repr(plan)) < 200
    coreset = Coreset(X, None, D, Y, np.ones(60), "sixty")
    assert repr(coreset) == "<Coreset of 60 free points with weights that sum to 60; sixty>"
