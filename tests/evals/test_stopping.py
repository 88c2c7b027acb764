"""The simulation of stopping: its paths have the limits of the package, and wrong stops are rare."""

import numpy as np
import pytest

from evals.stopping import MOST, ROWS, World, answers, assisted, even, ever, fitted, limits
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.confidence_sequences import ConfidenceSequence
from fwc_llm.metrics.prediction_powered import FOLDS, Predictions
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import ArmArrays


@pytest.mark.parametrize("rates", [(0.45, 0.55), (0.05, 0.5, 0.6)])
@pytest.mark.parametrize("assist", [False, True])
def test_a_path_has_the_limits_of_the_package(rates: tuple[float, ...], assist: bool) -> None:
    groups, rows = len(rates), 150
    left, rng = ROWS // groups - rows, np.random.default_rng(2)
    means, size = np.full((FOLDS, groups, 2), np.nan), np.array([[left, 0.0]] * groups)
    sums, columns = np.zeros((1, 1, groups, FOLDS, 5)), []
    for place, rate in enumerate(rates):
        f, y, fold, others = (part[0] for part in answers(rate, (1, MOST // groups), rng))
        means[:, place, 0] = (others + f[rows:].sum()) / left
        f, y, fold = (part[:rows] for part in (f, y, fold))
        columns.append((f, y, fold, np.full(rows, place)))
        np.add.at(sums[0, 0, place], fold, np.stack([np.ones(rows), y, f, y * f, f * f], -1))
    shares, counts = sums.sum(3)[..., 1] / rows, np.full((1, 1, groups), float(rows))
    if assist:
        shares, counts = assisted(sums, means[0, :, 0][None, None], np.array([[left]]))
        assert (counts > 1.2 * rows).all()
    f, y, fold, group = (np.concatenate(part) for part in zip(*columns, strict=True))
    n, none = len(y), np.zeros(len(y), dtype=np.int64)
    predictions = Predictions(f, fold, means, size) if assist else None
    looks = ConfidenceSequence(1, MOST)
    sample = ArmArrays(
        y,
        none,
        group,
        none,
        np.arange(n),
        groups,
        assist=predictions,
        design=SamplingDesign(sequential=looks),
    )
    gap = estimate(sample)["demographic_parity_difference"]
    low, high = limits(shares, counts, [n]).ravel()
    assert (gap.low, min(1.0, high)) == pytest.approx((low, gap.high), abs=1e-9)


def test_wrong_stops_at_the_bound_are_rare_with_predictions_too() -> None:
    failed, passed, when = ever(World("", even(0.45, 0.55)), 1_000, True)
    assert max(failed.mean(), passed.mean()) <= 0.054
    assert (when > MOST).mean() > 0.9
    far, _, when = ever(World("", even(0.4, 0.6)), 500, True)
    assert far.mean() > 0.95
    assert np.minimum(when, MOST).mean() < 0.3 * MOST


@pytest.mark.slow
def test_the_package_learns_enough_to_stop_early() -> None:
    assert fitted(0.3, 4) | {"asked": 0} == {"paths": 4, "failed": 1, "passed": 0, "asked": 0, "decided": 1}
