"""Outcomes follow the interval that a report shows for the same metric, and never the point alone."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import FwcError, audit
from fwc_llm.gates import all_of, decide, parse_condition
from fwc_llm.metrics.answers import Answered
from fwc_llm.metrics.audit_table import from_frame
from fwc_llm.report.audit import Audit

KEYS = {
    "accuracy": "accuracy",
    "dp": "demographic_parity_difference",
    "dp_ratio": "demographic_parity_ratio",
    "eo": "equalized_odds_difference",
}


def answers(arms: Mapping[str, tuple[float, float]], n: int = 300, seed: int = 0) -> pd.DataFrame:
    """Arms that say yes to the groups f and m at these rates; labels of no meaning."""
    rng = np.random.default_rng(seed)
    group = np.array(["f", "m"])[np.arange(n) % 2]
    label = np.array(["no", "yes"])[rng.integers(0, 2, n)]
    parts = []
    for arm, (f, m) in arms.items():
        said = np.where(rng.random(n) < np.where(group == "f", f, m), "yes", "no").astype(object)
        said[rng.random(n) < 0.02] = None
        parts.append(
            pd.DataFrame({"arm": arm, "row": range(n), "group": group, "label": label, "answer": said})
        )
    return pd.concat(parts)


APART = answers({"zero": (0.3, 0.7), "fwc": (0.5, 0.5)})


def outcome(condition: str, frame: pd.DataFrame = APART) -> str:
    return audit(frame).check(condition).outcome


@pytest.mark.parametrize("metric", [*KEYS, "coverage"])
def test_every_metric_is_decided_by_the_interval_of_the_report(metric: str) -> None:
    found = audit(APART)
    arm: dict[str, Any] = found.to_dict()["arms"][0]
    ends = arm[KEYS[metric]] if metric in KEYS else {"low": arm["coverage_low"], "high": arm["coverage_high"]}
    low, high = ends["low"], ends["high"]
    assert 0 < low < high < 1
    step = 1e-6
    expected = {
        (">", low - step): "failed", (">", low + step): "undecided", (">", high): "passed",
        (">", high - step): "undecided", (">=", high + step): "passed", (">=", low - step): "failed",
        ("<", high + step): "failed", ("<", high - step): "undecided", ("<", low - step): "passed",
        ("<=", high + step): "failed", ("<=", low - step): "passed", ("<=", low + step): "undecided",
    }  # fmt: skip
    for (operator, bound), said in expected.items():
        check = found.check(f"{metric}[zero] {operator} {bound!r}")
        assert check.outcome == said, (operator, bound)
        assert (check.low, check.high) == pytest.approx((low, high))
        assert f"95 % interval {low:.3f} to {high:.3f}" in check.reason


def test_a_bound_at_the_end_of_an_interval() -> None:
    """All of [0, high] is at least 0, and not all of it above; all of it is at most 1."""
    assert outcome("dp[fwc] >= 0") == "failed"
    assert outcome("dp[fwc] > 0") == "undecided"
    assert outcome("dp[fwc] > 1") == "passed"
    assert outcome("dp[fwc] <= 1") == "failed"


def test_every_arm_is_meant_where_none_is_named() -> None:
    checks = decide(parse_condition("dp > 0.2"), from_frame(APART))
    assert [(check.condition, check.outcome) for check in checks] == [
        ("dp[zero] > 0.2", "failed"),
        ("dp[fwc] > 0.2", "passed"),
    ]
    whole = all_of("dp > 0.2", checks)
    assert (whole.condition, whole.outcome) == ("dp > 0.2", "failed")
    assert whole.reason == checks[0].reason
    assert all_of("dp > 0.2", checks[1:]) is checks[1]


def test_between_two_arms_the_interval_is_the_paired_one() -> None:
    found = audit(APART)
    test = found.to_dict()["comparisons"][0]["demographic_parity_difference"]
    check = found.check("dp[fwc] - dp[zero] > 0")
    assert (check.value, check.low, check.high) == pytest.approx(
        (test["difference"], test["low"], test["high"])
    )
    assert check.outcome == "passed"
    assert "paired, of these rows" in check.reason
    other = found.check("dp[zero] - dp[fwc] > 0")
    assert other.outcome == "failed"
    assert (other.low, other.high) == pytest.approx((-check.high, -check.low))
    assert found.check("accuracy[zero] - accuracy[fwc] < 0").outcome == "undecided"
    with pytest.raises(FwcError, match="names the arm 'fw'"):
        found.check("dp[fw] > 0.1")


def test_what_is_undefined_is_undecided_with_the_reason() -> None:
    one = APART.assign(group="f")
    check = audit(one).check("dp[zero] > 0.1")
    assert check.outcome == "undecided"
    assert check.reason == "dp[zero] > 0.1: dp is undefined, it takes two groups to differ"
    assert audit(one).check("accuracy[zero] > 0.99").outcome == "passed"
    assert "it takes two groups" in audit(one).check("dp[fwc] - dp[zero] > 0").reason
    never = APART.assign(answer="no")
    assert audit(never).check("dp_ratio < 0.8").outcome == "undecided"
    assert "no group was answered yes" in audit(never).check("dp_ratio[zero] < 0.8").reason
    silent = APART.assign(answer=None)
    assert "no answer could be parsed" in audit(silent).check("accuracy[zero] < 0.8").reason
    assert audit(silent).check("coverage < 0.9").outcome == "failed"


def test_one_person_of_a_third_group_does_not_switch_a_gate_off() -> None:
    """It is not judged, and the check says so; the interval of the two others stands."""
    rows = {"a": ["yes"] * 60 + ["no"] * 140, "b": ["yes", "no"] * 100, "c": ["yes"]}
    frame = pd.DataFrame(
        [(g, said) for g, all_ in rows.items() for said in all_], columns=["group", "answer"]
    )
    found = audit(frame.assign(label="no"))
    gap = found.to_dict()["arms"][0]["demographic_parity_difference"]
    assert gap["verdict"] == "differs"
    assert gap["low"] > 0.01
    bound = gap["low"] - 0.005
    for operator, outcome in ((">", "failed"), ("<=", "passed")):
        check = found.check(f"dp {operator} {bound}")
        assert check.outcome == outcome
        assert "not judged: c" in check.reason


def test_people_whose_category_is_unknown_are_named_where_a_gap_counts_them() -> None:
    frame = APART.assign(group=["Unknown" if row % 3 == 0 else "ab"[row % 2] for row in APART["row"]])
    found = audit(frame)
    assert any("count Unknown" in note for note in found.to_dict()["notes"])


def test_strategies_of_few_draws_are_undecided() -> None:
    drawn = pd.concat(
        APART.assign(repeat=repeat, examples=np.where(APART["arm"] == "fwc", str(repeat), "none"))
        for repeat in range(2)
    )
    check = audit(drawn).check("dp[fwc] - dp[zero] > 0")
    assert check.outcome == "undecided"
    assert "cannot be told with 2 draws of examples" in check.reason
    assert check.value == pytest.approx(audit(APART).check("dp[fwc] - dp[zero] > 0").value)


@pytest.mark.slow
def test_a_gate_fails_wrongly_in_no_more_than_it_says() -> None:
    """A gap of just the bound, and none at all against `dp > 0`, drawn many times."""
    worlds = {"dp > 0.2": (0.4, 0.6), "dp > 0": (0.5, 0.5)}
    for condition, rates in worlds.items():
        asked = parse_condition(condition)
        found = [
            decide(asked, Answered(sample.answers, sample.groups))[0].outcome
            for seed in range(150)
            for sample in [from_frame(answers({"a": rates}, n=200, seed=seed))]
        ]
        assert found.count("failed") / len(found) <= 0.05 + 2 * (0.05 * 0.95 / 150) ** 0.5


def test_no_pair_of_opposite_conditions_fails_together() -> None:
    found: Audit = audit(APART)
    for metric, bound in itertools.product([*KEYS, "coverage"], (0.0, 0.2, 0.5, 0.95, 1.0)):
        pair = {found.check(f"{metric}[zero] {op} {bound}").outcome for op in (">", "<=")}
        assert pair in ({"failed", "passed"}, {"undecided"})
