"""Tables of answers as columns of codes: the numbers are those of counting one by one."""

import re
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evals.frames import from_frame
from fwc_llm import FwcError, audit
from fwc_llm.metrics.adverse_impact import impact_tables
from fwc_llm.metrics.audit_table import by_attribute
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.audit_answers import Audit
from fwc_llm.report.impact import selected, who_was_selected
from fwc_llm.report.table_model import markdown


def table(seed: int) -> pd.DataFrame:
    """Answers of up to three arms in up to four repeats, shuffled; with gaps, P(yes) and sets of
    examples.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    rows = pd.DataFrame(
        {"row": [f"r{n - place}" for place in range(n)], "sex": rng.choice(["f", "m"], n)}
    )
    rows["race"] = rng.choice(["B", "A", "unknown"], n)
    rows["label"] = np.where(rng.random(n) < 0.4, "yes", "no")
    parts = []
    arms = int(rng.integers(1, 4))
    repeats = int(rng.integers(1, 5))
    for arm, repeat in product(range(arms), range(repeats)):
        p = rng.random(n).round(2)
        said = np.where(p > 0.5, "yes", "no").astype(object)
        said[rng.random(n) < 0.1] = None
        asked = rows.assign(arm=f"arm {arm}", repeat=repeat, examples=f"e{repeat}")
        parts.append(asked.assign(p_yes=p, answer=said))
    whole = pd.concat(parts, ignore_index=True)
    whole["group"] = whole["sex"] + " & " + whole["race"]
    if seed % 2:
        return whole.sample(frac=1, random_state=seed)
    return whole


def close(one: Any, other: Any) -> bool:
    """The same numbers, but for the last digits of sums in another order."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float):
        return bool(one == pytest.approx(other, rel=1e-10, abs=1e-12))
    return one == other


@pytest.mark.parametrize("seed", range(3))
def test_categories_and_texts_give_the_same_statistics(seed: int) -> None:
    frame = table(seed)
    coded = frame.copy()
    for name in ("row", "group", "label", "answer", "arm", "examples"):
        # Categories that nobody has, and others in an order of their own, change nothing.
        own = [*sorted(set(frame[name].dropna()), reverse=True), "never"]
        coded[name] = pd.Categorical(frame[name], own)
    found = [statistics(from_frame(one, attributes=["sex", "race"])) for one in (frame, coded)]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(6))
def test_counts_and_rates_are_those_of_the_table(seed: int) -> None:
    frame = table(seed)
    found = statistics(from_frame(frame, attributes=["sex", "race"]))
    for arm in found["arms"]:
        own = frame[frame["arm"] == arm["arm"]]
        parsed = own.dropna(subset="answer")
        by_repeat = (parsed["answer"] == parsed["label"]).groupby(parsed["repeat"]).mean()
        assert arm["accuracy"]["value"] == pytest.approx(by_repeat.mean(), abs=1e-12)
        assert arm["unparsed"] == ({"": lost} if (lost := int(own["answer"].isna().sum())) else {})
        for name, group in arm["groups"].items():
            here = parsed[parsed["group"] == name]
            rates = (here["answer"] == "yes").groupby(here["repeat"]).mean()
            assert group["rate"] == (
                None if rates.empty else pytest.approx(rates.mean(), abs=1e-12)
            )
            assert group["n"] == (own["group"] == name).sum()


@pytest.mark.parametrize("seed", range(2))
def test_an_attribute_of_crossed_answers_is_the_attribute_alone(seed: int) -> None:
    frame = table(seed)
    crossed = from_frame(frame, attributes=["sex", "race"])
    views = by_attribute(crossed)
    arms = statistics(crossed)["arms"]
    assert list(views) == ["sex", "race", "sex & race"]
    for place, name in enumerate(("sex", "race")):
        alone = statistics(from_frame(frame.assign(group=frame[name]), attributes=[name]))
        assert close(statistics(views[name]), alone)
        for arm, own in zip(arms, alone["arms"], strict=True):
            short = arm["by_attribute"][place]
            gap = own["demographic_parity_difference"]
            shown = [short["demographic_parity_difference"], short["p_value"]]
            ends = short["intervals"]["demographic_parity_difference"]
            assert short["attribute"] == name
            assert close([*shown, *ends], [gap[end] for end in ("value", "p_value", "low", "high")])
    assert list(by_attribute(from_frame(frame, attributes=["both"]))) == ["both"]


HIRED = pd.DataFrame(
    {"sex": ["f", "m"] * 60, "race": ["a", "a", "b", "b"] * 30, "was": [0, 1, 1] * 40}
)
HIRED["said"] = ["reject", "hire", "hire"] * 40
HIRED["wgt"] = [1.0, 2.0] * 60
HIRED["person"] = [f"p{place // 4}" for place in range(120)]


def test_anybodys_table_is_audited_with_two_columns_of_groups_and_no_label() -> None:
    found = audit(
        HIRED, answer="said", protected=["sex", "race"], label=None, positive="hire"
    ).to_dict()
    (arm,) = found["arms"]
    assert [group["group"] for group in found["groups"]] != []
    assert arm["demographic_parity_difference"]["verdict"] is not None
    assert arm["demographic_parity_ratio"]["value"] is not None
    for metric in ("accuracy", "equalized_odds_difference", "predictive_parity_difference"):
        assert arm[metric]["value"] is None
        assert arm["reasons"][metric] == "there are no labels"
    assert [one["attribute"] for one in arm["by_attribute"]] == ["sex", "race"]
    rates = [arm["groups"][group["group"]]["rate"] for group in found["groups"]]
    assert rates == sorted(rates), "without labels groups stand in the order of their rates"
    assert any("'wgt' looks like a weight" in note for note in found["notes"])
    assert any("'person' looks like a cluster" in note for note in found["notes"])


def test_without_labels_nothing_is_measured_against_labels() -> None:
    """Missing labels once counted as no: P(yes) had a Brier score, and pairs of arms accuracy."""
    two = [HIRED.assign(arm=arm, row=range(120), said=HIRED["said"] == "hire") for arm in "xy"]
    frame = pd.concat(two).assign(p_yes=np.linspace(0, 1, 240))
    answered = from_frame(frame, answer="said", protected=["sex"], label=None)
    found = statistics(answered)
    (test,), arm = found["comparisons"], found["arms"][0]
    assert test["accuracy"]["difference"] is test["accuracy"]["verdict"] is None
    assert test["demographic_parity_difference"]["verdict"] is not None
    assert arm["probabilities"] is None
    assert {one["accuracy"] for one in arm["treatments"].values() if "accuracy" in one} == {None}
    assert {one["false_positive_rate"] for one in arm["groups"].values()} == {None}
    (view,) = impact_tables(answered)["attributes"]
    groups = [one for shown in view["arms"] for one in shown["groups"].values()]
    assert {(one["true_negatives"], one["precision"]) for one in groups} == {(None, None)}
    for text in (
        str(Audit(answered)),
        "".join(markdown(who_was_selected(impact_tables(answered)))),
    ):
        assert not re.search("Accuracy|EO gap|True|Confusion|Brier", text)


def test_labels_weights_people_and_strata_of_anybodys_table() -> None:
    usual = {"answer": "said", "protected": ["sex"], "label": "was", "positive": None}
    frame = HIRED.assign(said=HIRED["said"] == "hire")
    plain, weighted, people = (
        audit(frame, **usual, **more).to_dict()["arms"][0]
        for more in ({}, {"weight": "wgt"}, {"cluster": "person", "given": "race"})
    )
    right = ((HIRED["said"] == "hire") == (HIRED["was"] == 1)).to_numpy()
    assert plain["accuracy"]["value"] == pytest.approx(right.mean())
    assert weighted["accuracy"]["value"] == pytest.approx(np.average(right, weights=HIRED["wgt"]))
    assert people["accuracy"]["value"] == plain["accuracy"]["value"]
    assert people["conditional_parity"]["strata"] == 2
    assert plain["conditional_parity"] is None


def test_weights_order_the_groups_and_are_named() -> None:
    """Unweighted the women are hired more often; the weight of few men turns it."""
    usual = {"answer": "said", "protected": "sex", "positive": 1, "weight": "w", "min_group": 1}
    frame = pd.DataFrame({"sex": ["f"] * 4 + ["m"] * 4, "said": [1, 1, 0, 0, 1, 0, 0, 0]})
    frame["w"] = [1, 1, 1, 1, 9, 1, 1, 1]
    for label in (None, "was"):
        found = audit(frame.assign(was=frame["said"]), label=label, **usual)
        assert [group["group"] for group in found.to_dict()["groups"]] == ["f", "m"]
        assert any("weighted" in note for note in found.to_dict()["notes"])
        (view,) = impact_tables(found.answered)["attributes"]
        assert "Selection rate, weighted" in selected(view).headings
    plain = from_frame(frame, answer="said", protected="sex", label=None)
    (view,) = impact_tables(plain)["attributes"]
    assert "Selection rate" in selected(view).headings
    none = frame.assign(w=np.where(frame["sex"] == "f", 0, 1))
    found = audit(pd.concat([none, frame.assign(sex="x")]), label=None, **usual).to_dict()
    assert sum("All weights of f are 0" in note for note in found["notes"]) == 1
    assert [group["group"] for group in found["groups"]] == ["m", "x"]
    assert found["arms"][0]["demographic_parity_difference"]["verdict"] is not None


def test_the_order_of_the_lines_changes_nothing() -> None:
    """The second arm's rows come in another order than the first's; strata once stayed with the
    lines.
    """
    rng = np.random.default_rng(0)
    parts = []
    for place in range(4):
        answered = HIRED.assign(row=range(120), arm=f"arm {place % 2}", repeat=place // 2)
        parts.append(answered.assign(said=rng.random(120) < 0.5, p_yes=rng.random(120).round(2)))
    frame = pd.concat(parts)
    options = {
        "protected": "sex",
        "label": "was",
        "weight": "wgt",
        "cluster": "person",
        "given": "race",
    }
    found = [
        audit(one, answer="said", **options).to_dict()["arms"][1]
        for one in (frame, pd.concat([*parts[::2], *[part[::-1] for part in parts[1::2]]]))
    ]
    assert close(*found)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (HIRED, {"answer": "sad"}, "no column 'sad'"),
        (HIRED, {"positive": None}, "positive="),
        (HIRED, {"design": "label"}, "the design is 'label'"),
        (HIRED, {"margin": 5}, "margin"),
        (HIRED, {"against": "x"}, "no arm 'x'"),
        (HIRED, {"p_yes": "p"}, "no column 'p'"),
        (HIRED, {"positive": "hired"}, "'hired' is none of them"),
        (HIRED, {"protected": ["sex", "sex"]}, "named twice"),
        (HIRED.assign(said=[*"abc"] * 40), {"positive": "a"}, "3 values: 'a' .40.*negative="),
        (HIRED.assign(wgt=-1.0), {"weight": "wgt"}, "not a weight"),
        (HIRED.assign(repeat=1), {}, "needs 'row'"),
        (HIRED.assign(row=HIRED["person"], sex="f"), {}, "as cluster"),
        (HIRED.assign(race="a"), {"protected": ["sex", "race"]}, "no two groups"),
    ],
)
def test_what_does_not_fit_is_named(
    frame: pd.DataFrame, options: dict[str, Any], words: str
) -> None:
    usual = {"answer": "said", "protected": ["sex"], "label": None, "positive": "hire"}
    with pytest.raises(FwcError, match=words):
        audit(frame, **usual | options)


@pytest.mark.parametrize("positive", [1, 1.0, True])
def test_the_value_that_means_yes_may_be_written_as_another_number(positive: Any) -> None:
    """A positive value that matched nothing once made all answers no, and the gap "no difference
    shown".
    """
    frame = HIRED.assign(said=(HIRED["sex"] == "f").astype(float))
    (arm,) = audit(frame, answer="said", protected="sex", label="was", positive=positive).to_dict()[
        "arms"
    ]
    assert arm["demographic_parity_difference"]["verdict"] == "differs"
    assert arm["equalized_odds_difference"]["value"] == 1
