"""Calibration against known truths: limits hold, noise is what calibrated answers show, rows count once."""

import numpy as np
import pytest

from fwc_llm.metrics.intervals import clopper_pearson
from fwc_llm.metrics.probability import BINS, calibrate


def alone(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and strata where every answer is a row of its own and nothing was fixed."""
    return np.arange(n), np.zeros(n, dtype=np.intp)


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    p = rng.beta(1, 3, n)
    return p, (rng.random(n) < p).astype(float)


def test_bins_row_by_row() -> None:
    p, labels = drawn(np.random.default_rng(1), 300)
    p = np.append(np.round(p, 2), [0.0, 1.0])
    labels = np.append(labels, [0.0, 1.0])
    found = calibrate(p, labels, *alone(302)).bins
    place = [min(int(value * BINS), BINS - 1) for value in p]
    for k, start in enumerate(found.start):
        here = np.array([one == round(start * BINS) for one in place])
        assert found.questions[k] == found.rows[k] == here.sum()
        assert found.mean[k] == pytest.approx(p[here].mean())
        assert found.share[k] == pytest.approx(labels[here].mean())
        low, high = clopper_pearson(labels[here].mean(), here.sum())
        assert (found.low[k], found.high[k]) == pytest.approx((float(low), float(high)))
    assert found.questions.sum() == 302


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 40, 200])
def test_the_interval_in_the_large_holds_and_noise_is_noise(n: int) -> None:
    rng = np.random.default_rng(n)
    found = [calibrate(*drawn(rng, n), *alone(n)) for _ in range(400)]
    inside = np.mean([one.low <= 0.0 <= one.high for one in found])
    assert inside >= 0.95 - 2 * (0.05 * 0.95 / 400) ** 0.5
    above = np.mean([one.error > one.noise_95 for one in found])
    assert above <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert np.mean([one.error for one in found]) == pytest.approx(
        np.mean([one.expected for one in found]), rel=0.1
    )


def test_what_is_not_calibrated_is_found() -> None:
    p, labels = drawn(np.random.default_rng(3), 400)
    found = calibrate(np.clip(p + 0.3, 0, 1), labels, *alone(400))
    assert found.low > 0.15
    assert found.error > 2 * found.noise_95


def test_a_row_that_is_asked_again_counts_once() -> None:
    p, labels = drawn(np.random.default_rng(4), 60)
    rows, strata = alone(60)
    once = calibrate(p, labels, rows, strata)
    again = calibrate(*(np.tile(values, 3) for values in (p, labels, rows, strata)))
    assert (again.low, again.high) == pytest.approx((once.low, once.high))
    assert again.bins.low == pytest.approx(once.bins.low)
    assert again.bins.high == pytest.approx(once.bins.high)
    assert again.bins.questions.tolist() == (3 * once.bins.questions).tolist()
    assert again.noise_95 == pytest.approx(once.noise_95, rel=0.2)


def test_rows_that_are_alike_leave_no_false_certainty() -> None:
    found = calibrate(np.full(10, 0.1), np.zeros(10), *alone(10))
    assert found.difference == pytest.approx(0.1)
    assert found.low < 0.0 < 0.3 < found.high
    single = calibrate(np.array([0.4]), np.array([1.0]), *alone(1))
    assert single.low == -1.0
    assert single.high > 0.0


def test_fixed_labels_take_their_part_out_of_the_interval() -> None:
    p, labels = drawn(np.random.default_rng(5), 200)
    rows, strata = alone(200)
    free, fixed = calibrate(p, labels, rows, strata), calibrate(p, labels, rows, labels.astype(np.intp))
    assert fixed.difference == free.difference
    assert fixed.high - fixed.low < 0.8 * (free.high - free.low)


def test_noise_of_very_many_rows_is_that_of_labels_drawn_one_by_one() -> None:
    n, rng = 110_000, np.random.default_rng(5)
    p, labels = drawn(rng, n)
    p[:3] = [0.95, 0.96, 0.97]
    found = calibrate(p, labels, *alone(n))
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    errors = [np.abs(np.bincount(place, (rng.random(n) < p) - p, BINS)).sum() / n for _ in range(400)]
    assert found.expected == pytest.approx(np.mean(errors), rel=4 * np.std(errors) / np.mean(errors) / 20)
    assert found.noise_95 == pytest.approx(np.quantile(errors, 0.95), rel=0.08)
