"""Plans and coresets print one line each."""

import numpy as np

from fwc_llm.coreset import fair_transport
from fwc_llm.coreset.rivals.base import Coreset


def test_plans_and_coresets_print_one_line() -> None:
    rng = np.random.default_rng(0)
    plan = fair_transport(rng.random((5000, 4)), 2, 2, [0.5, 0.5], 0.01)
    assert "5,000 rows to 4 cells" in repr(plan)
    assert len(repr(plan)) < 200
    coreset = Coreset(np.zeros((60, 3)), None, np.zeros(60), np.zeros(60), np.ones(60), "sixty")
    assert repr(coreset) == "<Coreset of 60 free points with weights that sum to 60; sixty>"
