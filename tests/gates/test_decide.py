"""Outcomes follow the interval that a report shows for the same metric, and never the point
alone.
"""

import contextlib
from collections.abc import Mapping
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm import FwcError, audit
from fwc_llm.gates import Check, GateCondition, all_of, decide, parse_condition
from fwc_llm.gates.decide import Outcome, junit_xml, outcome_of
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.number_format import number
from tests.command import corpus
from tests.refusals import refused


def answers(
    arms: Mapping[str, tuple[float, float]], n: int = 300, seed: int = 0
) -> pd.DataFrame:
    """Arms that say yes to the groups f and m at these rates; labels of no meaning."""
    rng = np.random.default_rng(seed)
    group = np.array(["f", "m"])[np.arange(n) % 2]
    label = np.array(["no", "yes"])[rng.integers(0, 2, n)]
    asked = pd.DataFrame({"row": range(n), "group": group, "label": label})
    parts = []
    for arm, (f, m) in arms.items():
        said = np.where(
            rng.random(n) < np.where(group == "f", f, m), "yes", "no"
        ).astype(object)
        said[rng.random(n) < 0.02] = None
        parts.append(asked.assign(arm=arm, answer=said))
    return pd.concat(parts)


APART = answers({"zero": (0.3, 0.7), "fwc": (0.5, 0.5)})


@pytest.mark.parametrize(
    "metric", ["accuracy", "dp_gap", "label_gap", "dp_ratio", "eo_gap", "coverage"]
)
def test_every_metric_is_decided_by_the_interval_of_the_report(metric: str) -> None:
    found = audit(APART)
    low, high = found.records.of(metric, "zero").ends
    assert 0 < low < high < 1
    step = 1e-6
    expected = {
        (">", low - step): "outside",
        (">", low + step): "cannot say",
        (">", high): "within",
        (">", high - step): "cannot say",
        (">=", high + step): "within",
        (">=", low - step): "outside",
        ("<", high + step): "outside",
        ("<", high - step): "cannot say",
        ("<", low - step): "within",
        ("<=", high + step): "outside",
        ("<=", low - step): "within",
        ("<=", low + step): "cannot say",
    }
    for (operator, bound), said in expected.items():
        check = found.check(f"{metric}[zero] {operator} {bound!r}")
        assert check.outcome == said, (operator, bound)
        assert (check.low, check.high) == pytest.approx((low, high))
        of = BY_KEY[metric]
        at_limit = low if abs(low - bound) < abs(high - bound) else high
        (free,) = {low, high} - {at_limit}
        assert number(free, of.digits, of.scale) in check.reason


def test_every_arm_is_meant_where_none_is_named() -> None:
    checks = decide(parse_condition("dp_gap > 0.2"), audit(APART).statistics)
    assert [check.condition for check in checks] == [
        "dp_gap[zero] > 0.2",
        "dp_gap[fwc] > 0.2",
    ]
    assert [check.outcome for check in checks] == ["outside", "within"]
    whole = all_of("dp_gap > 0.2", checks)
    assert (whole.condition, whole.outcome) == ("dp_gap > 0.2", "outside")
    assert whole.reason == checks[0].reason
    assert all_of("dp_gap > 0.2", checks[1:]) is checks[1]


def test_between_two_arms_the_interval_is_the_paired_one() -> None:
    found = audit(APART)
    test = found.records.of("dp_gap_difference", "fwc", against="zero")
    check = found.check("dp_gap[fwc] - dp_gap[zero] > 0")
    assert (check.value, check.low, check.high) == pytest.approx(
        (test.value, *test.ends)
    )
    assert check.outcome == "within"
    assert check.reason.startswith(
        "gap of fwc less that of zero-shot: −38.4 points (−58.8 to −16.3; limit"
    )
    other = found.check("dp_gap[zero] - dp_gap[fwc] > 0")
    assert other.outcome == "outside"
    assert (other.low, other.high) == pytest.approx((-check.high, -check.low))
    assert found.check("accuracy[zero] - accuracy[fwc] < 0").outcome == "cannot say"
    with refused("names the arm 'fw'; the arms are zero, fwc"):
        found.check("dp_gap[zero] - dp_gap[fw] > 0.1")


def test_arms_are_equivalent_where_all_of_the_interval_lies_within_the_bound() -> None:
    found = audit(APART)
    gap = found.check("dp_gap[fwc] - dp_gap[zero] > 0")
    pairs = (("fwc", "zero"), ("zero", "fwc"))
    bound = -gap.low + 0.01
    both = [found.check(f"abs(dp_gap[{a}] - dp_gap[{b}]) > {bound}") for a, b in pairs]
    for check in both:
        assert check.outcome == "within"
        assert (check.low, check.high) == pytest.approx((-gap.high, -gap.low))
    assert (
        found.check(f"abs(dp_gap[fwc] - dp_gap[zero]) > {-gap.high - 0.01}").outcome
        == "outside"
    )
    near = found.check("abs(accuracy[fwc] - accuracy[zero]) > 0.001")
    assert (near.outcome, near.low) == ("cannot say", 0.0)
    odds = found.check("eo_gap[fwc] - eo_gap[zero] > 0")
    assert odds.outcome in {"within", "cannot say"}


@pytest.mark.parametrize(
    "metric", ["tpr_gap", "fpr_gap", "precision_gap", "auc_gap", "brier_gap"]
)
def test_further_metrics_are_gates(metric: str) -> None:
    with_p = APART.assign(p_yes=np.where(APART["answer"] == "yes", 0.8, 0.3))
    found = audit(with_p)
    check = found.check(f"{metric}[zero] > 0.99")
    assert check.outcome == "within"
    record = found.records.of(metric, "zero")
    assert (check.value, check.low, check.high) == (record.value, *record.ends)
    unlabelled = audit(with_p, protected=["group"], label=None)
    assert "there are no labels" in unlabelled.check(f"{metric}[zero] > 0.1").reason


def test_what_is_undefined_is_undecided_with_the_reason() -> None:
    with refused("no two groups"):
        audit(APART.assign(group="f"))
    unsaid = audit(APART.assign(answer=APART["answer"].where(APART["group"] == "f")))
    check = unsaid.check("dp_gap[zero] > 0.1")
    assert check.outcome == "cannot say"
    assert check.reason == "zero-shot: gap unknown, no parsed answer in group m"
    assert unsaid.check("accuracy[zero] > 0.99").outcome == "within"
    assert (
        "no parsed answer in group m"
        in unsaid.check("dp_gap[fwc] - dp_gap[zero] > 0").reason
    )
    never = APART.assign(answer="no")
    assert audit(never).check("dp_ratio < 0.8").outcome == "cannot say"
    assert (
        "no group was answered yes" in audit(never).check("dp_ratio[zero] < 0.8").reason
    )
    silent = APART.assign(answer=None)
    assert (
        "no answer could be parsed"
        in audit(silent).check("accuracy[zero] < 0.8").reason
    )
    assert audit(silent).check("coverage < 0.9").outcome == "outside"


def test_one_person_of_a_third_group_does_not_switch_a_gate_off() -> None:
    """It is not judged, and the check says so; the interval of the two others stands."""
    rows = {"a": ["yes"] * 60 + ["no"] * 140, "b": ["yes", "no"] * 100, "c": ["yes"]}
    frame = pd.Series(rows, name="answer").explode().rename_axis("group").reset_index()
    found = audit(frame.assign(label="no"))
    gap = found.records.of("dp_gap", "answers")
    assert gap.verdict == "differs"
    assert found.records.of("dp_gap", "answers", scope="all groups").value > gap.value
    assert gap.low > 0.01
    bound = gap.low - 0.005
    for operator, outcome in ((">", "outside"), ("<=", "within")):
        check = found.check(f"dp_gap {operator} {bound}")
        assert check.outcome == outcome
        assert "not judged: c" in check.reason


def test_strategies_of_few_draws_are_undecided() -> None:
    drawn = pd.concat(
        APART.assign(
            repeat=repeat, examples=np.where(APART["arm"] == "fwc", str(repeat), "none")
        )
        for repeat in range(2)
    )
    check = audit(drawn).check("dp_gap[fwc] - dp_gap[zero] > 0")
    assert check.outcome == "cannot say"
    assert "cannot be told with 2 draws of examples" in check.reason
    assert check.value == pytest.approx(
        audit(APART).check("dp_gap[fwc] - dp_gap[zero] > 0").value
    )


# --- Conditions


@pytest.mark.parametrize(("text", "parts"), corpus("conditions/read"))
def test_what_is_read(text: str, parts: list[object]) -> None:
    read = parse_condition(text)
    assert read.size == text.startswith("abs")
    assert [read.metric, read.operator, read.bound, read.arm, read.minus] == parts
    assert read.text == text.strip()


@pytest.mark.parametrize(
    ("text", "word"),
    [*corpus("conditions/refused"), ("\x00\x1b[31m" + "x" * 9999, "METRIC")],
)
def test_what_cannot_be_read_is_refused(text: str, word: str) -> None:
    with refused(word) as raised:
        parse_condition(text)
    assert len(str(raised.value)) < 500


@settings(max_examples=200, deadline=None)
@given(st.text("absdp()[]-'\"> <=0.1e\n\x00−accuracy", max_size=30))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(FwcError):
        assert isinstance(parse_condition(text), GateCondition)


# --- JUnit XML that any parser reads


EVIL = "]]><x a=\"'&amp;\x00\x08\x1b[31m\ud800\ufffe‮\n</testcase>"
CHECKS = [
    Check("dp_gap > 0", "outside", EVIL),
    Check(EVIL, "within", "well"),
    Check("eo_gap > 1", "cannot say", "?"),
]


@pytest.mark.parametrize(
    ("undecided", "kind"),
    [("cannot say", "error"), ("outside", "failure"), ("within", "skipped")],
)
def test_hostile_names_stay_text_and_counts_agree(
    undecided: Outcome, kind: str
) -> None:
    text = junit_xml({EVIL: CHECKS, "other": CHECKS[1:2]}, undecided)
    root = ElementTree.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites"
    for suite in [root, *root]:
        cases = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(cases)
        for name, element in (
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert int(suite.attrib[name]) == len(list(suite.iter(element)))
    first, second, _ = root[0]
    assert [[child.tag for child in case] for case in root[0]] == [
        ["failure"],
        ["system-out"],
        [kind],
    ]
    assert (
        first[0]
        .attrib["message"]
        .startswith("]]><x a=\"'&amp;\N{REPLACEMENT CHARACTER}")
    )
    assert second.attrib["name"].endswith("</testcase>")
    assert root[1].attrib["name"] == "other"


@pytest.mark.parametrize(
    ("operator", "above", "below"),
    [
        (">", "cannot say", "within"),
        (">=", "outside", "cannot say"),
        ("<", "within", "cannot say"),
        ("<=", "cannot say", "outside"),
    ],
)
def test_an_end_at_the_bound_itself_counts_as_the_operator_says(
    operator: str, above: str, below: str
) -> None:
    condition = parse_condition(f"dp_gap {operator} 0.1")
    assert (outcome_of(condition, 0.1, 0.3), outcome_of(condition, 0.0, 0.1)) == (
        above,
        below,
    )
