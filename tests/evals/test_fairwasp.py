"""FairWASP against full n × n linear programs."""

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from evals.paper.fairwasp_weights import FairWASP
from tests.coreset.people import arrays
from tests.coreset.programs import by_cell, optimum, violation_of


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(
    ("cost", "metric"), [("l1", "cityblock"), ("sqeuclidean", "sqeuclidean")]
)
def test_equals_the_full_linear_program(
    cost: str, metric: str, epsilon: float, ties: bool
) -> None:
    x, y, sensitive = arrays(34)
    n = len(x)
    if ties:
        x = np.round(x)
    cell = 2 * sensitive + y
    full = cdist(x, x, metric) + (y[:, None] != y) + (sensitive[:, None] != sensitive)
    target = np.bincount(y) / n
    model = FairWASP(epsilon=epsilon, cost=cost).fit(x, y, sensitive)
    assert model.objective_ == pytest.approx(
        optimum(by_cell(full, cell, 4), target, epsilon), abs=1e-9
    )
    assert model.objective_ == pytest.approx(model.lower_bound_, abs=1e-9)
    assert model.weights_.shape == (n,)
    assert (model.weights_ >= 0).all()
    assert model.weights_.sum() == pytest.approx(n, abs=1e-9)
    assert violation_of(np.bincount(cell, model.weights_), target) <= epsilon + 1e-9
    # The weights themselves are as far from the rows as the objective says.
    apart = ot.emd2(np.full(n, 1 / n), model.weights_ / model.weights_.sum(), full)
    assert apart == pytest.approx(model.objective_, abs=1e-9)
