"""The report on a real model: its scores against independent ones, its verdicts on answers that
are known.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score

from evals.real_model.report import scores, verdicts
from evals.real_model.scores import (
    bootstrap,
    estimate,
    holm,
    over_sets,
    read_experiment,
    strategy_of,
)

ARMS = [
    "zero",
    *(f"{name}-{seed}" for seed in range(1, 6) for name in ("fwc", "balanced")),
]
N = 200


def made(
    shift: dict[str, float], noise: float = 1.0, arms: list[str] = ARMS
) -> list[dict[str, str]]:
    """Recorded replies: log-odds follow the label, and men's are `shift` of the arm's strategy
    higher.
    """
    rng = np.random.default_rng(0)
    men = np.arange(N) % 2
    label = np.arange(N) // 2 % 4 < 1 + 2 * (np.arange(N) % 2)
    own = rng.normal(size=N)
    rows = []
    for arm in arms:
        log_odds = (
            -3
            + 2.0 * label
            + shift[strategy_of(arm)] * men
            + own
            + noise * rng.normal(size=N)
        )
        for row, value in enumerate(log_odds):
            rows.append(
                {
                    "arm": arm,
                    "row": f"r{row}",
                    "group": ("Female", "Male")[men[row]],
                    "label": "yes" if label[row] else "no",
                    "reply": "Yes." if value > 0 else "No",
                    "p_yes": str(1 / (1 + np.exp(-value))),
                }
            )
    return rows


def test_the_first_draw_is_the_data_and_intervals_hold_it() -> None:
    data = read_experiment(made({"zero": 1.0, "fwc": 1.0, "balanced": 1.0}), ARMS)
    draws = bootstrap(data, draws=200)
    chosen = data.sets()["fwc"]
    centred = data.log_odds[chosen] > data.log_odds[chosen].mean(1, keepdims=True)
    rates = [
        [centred[:, data.cell == cell].mean() for cell in cells]
        for cells in ((0, 1), (2, 3))
    ]
    of_groups = [centred[:, data.group == group].mean() for group in (0, 1)]
    accuracy, gap, dp = draws["centred"][0, chosen].mean(0)
    assert accuracy == pytest.approx((centred == data.label).mean())
    assert gap == pytest.approx(np.mean(rates[1]) - np.mean(rates[0]))
    assert dp == pytest.approx(of_groups[1] - of_groups[0])
    areas = [roc_auc_score(data.label, data.p_yes[arm]) for arm in chosen]
    assert draws["ranking"][0, chosen, 0] == pytest.approx(areas)
    found = estimate(draws["centred"][..., 1], chosen)
    assert found["examples"][0] < found["value"] < found["examples"][1]


def test_the_interval_over_sets_has_their_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    draws = np.tile(
        rng.normal(size=5), (2, 1)
    )  # rows without any error: one draw like the data
    found = estimate(draws, range(5))
    low, high = over_sets(found)["strategy"]
    expected = ttest_1samp(draws[0], 0.0)
    assert (low, high) == pytest.approx(expected.confidence_interval())
    assert over_sets(found)["p"] == pytest.approx(expected.pvalue)


def test_rows_drawn_by_group_count_as_the_table_has_them() -> None:
    shares = {"Female": 0.3, "Male": 0.7}
    data = read_experiment(
        made({"zero": 1.0, "fwc": 1.0, "balanced": 1.0}), ARMS, shares
    )
    accuracy, _, dp = bootstrap(data, draws=50)["as answered"][0, 0]
    right = [
        (data.said[0] == data.label)[data.group == group].mean() for group in (0, 1)
    ]
    rates = [data.said[0][data.group == group].mean() for group in (0, 1)]
    assert accuracy == pytest.approx(0.3 * right[0] + 0.7 * right[1])
    assert dp == pytest.approx(rates[1] - rates[0])


def judged(shift: dict[str, float], **options: Any) -> list[str]:
    data = read_experiment(made(shift, **options), ARMS)
    found = scores(data)["contrasts"]
    return [each["verdict"].partition(" (")[0] for each in verdicts(found)]


def test_verdicts_on_known_answers() -> None:
    assert judged({"zero": 3.0, "fwc": 0.0, "balanced": 3.0}, noise=0.3) == [
        "support",
        "support",
    ]
    assert judged({"zero": 1.0, "fwc": 1.0, "balanced": 1.0}, noise=0.0)[0] == "refuted"
    assert (
        judged({"zero": 1.0, "fwc": 0.9, "balanced": 1.0}, noise=3.0)[0]
        == "these rows do not settle it"
    )
    few = ["zero", "fwc-1", "balanced-1"]
    assert all(
        "three sets" in verdict
        for verdict in judged(dict.fromkeys(("zero", "fwc", "balanced"), 1.0), arms=few)
    )


def test_arms_that_were_not_asked_in_full_are_left_out() -> None:
    rows = made(dict.fromkeys(("zero", "fwc", "balanced"), 1.0))
    assert read_experiment(rows[:-1], ARMS).arms == tuple(ARMS[:-1])
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
