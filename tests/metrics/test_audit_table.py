"""Tables of answers as columns of codes: the numbers are those of counting one by one."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from evals.frames import from_frame
from fwc_llm import audit
from fwc_llm.metrics.adverse_impact import impact_tables
from fwc_llm.metrics.records import Record, Records
from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.audit_answers import Audit
from fwc_llm.report.impact import selected, who_was_selected
from fwc_llm.report.narrative import next_step
from fwc_llm.report.table_model import Section, markdown
from tests.metrics.worlds import people
from tests.refusals import refused


def table(seed: int) -> pd.DataFrame:
    """Answers of up to three arms in up to four repeats, shuffled; with gaps, P(yes) and sets of
    examples.
    """
    n, arms, repeats = np.random.default_rng(seed).integers([20, 1, 1], [90, 4, 5])
    drawn = people(n, seed, arms, repeats).rename(columns={"group": "sex"})
    race = np.array(["B", "A", "unknown"])[drawn["person"] % 3]
    frame = drawn.assign(race=race, group=drawn["sex"] + " & " + race)
    return frame.drop(columns=["person", "score", "weight", "job", "reason"])


def close(one: Iterable[Record], other: Iterable[Record]) -> bool:
    """The same records, but for the last digits of sums in another order."""
    first = {record.key: record for record in one}
    second = {record.key: record for record in other}
    if first.keys() != second.keys():
        return False
    for key, record in first.items():
        expected = second[key]
        numbers = [(r.value, *r.ends, r.p) for r in (record, expected)]
        if numbers[0] != pytest.approx(numbers[1], rel=1e-9, abs=1e-12, nan_ok=True):
            return False
        if (record.verdict, record.n) != (expected.verdict, expected.n):
            return False
    return True


@pytest.mark.parametrize("seed", range(3))
def test_categories_and_texts_give_the_same_statistics(seed: int) -> None:
    frame = table(seed)
    coded = frame.copy()
    for name in ("row", "group", "label", "answer", "arm", "examples"):
        # Categories that nobody has, and others in an order of their own, change nothing.
        own = [*sorted(set(frame[name].dropna()), reverse=True), "never"]
        coded[name] = pd.Categorical(frame[name], own)
    found = [
        statistics(from_frame(one, attributes=["sex", "race"]))
        for one in (frame, coded)
    ]
    assert close(found[0].records, found[1].records)
    assert found[0].notes == found[1].notes


@pytest.mark.parametrize("seed", range(6))
def test_counts_and_rates_are_those_of_the_table(seed: int) -> None:
    frame = table(seed)
    found = statistics(from_frame(frame, attributes=["sex", "race"]))
    for arm in found.arms:
        lines = frame[frame["arm"] == arm.arm]
        parsed = lines.dropna(subset="answer")
        by_repeat = (
            (parsed["answer"] == parsed["label"]).groupby(parsed["repeat"]).mean()
        )
        accuracy = found.of("accuracy", arm.arm).value
        assert accuracy == pytest.approx(by_repeat.mean(), abs=1e-12)
        lost = int(lines["answer"].isna().sum())
        assert arm.unparsed == ({"empty": lost} if lost else {})
        for group in found.groups:
            here = parsed[parsed["group"] == group.group]
            rates = (here["answer"] == "yes").groupby(here["repeat"]).mean()
            record = found.of("selection_rate", arm.arm, group.group)
            assert record.value == pytest.approx(rates.mean(), abs=1e-12, nan_ok=True)
            assert record.n == (lines["group"] == group.group).sum()


@pytest.mark.parametrize("seed", range(4))
def test_what_a_number_is_of_is_there_once(seed: int) -> None:
    """Of statistics and of impact tables; where both have a number, it is the same number."""
    answered = from_frame(table(seed), attributes=["sex", "race"])
    impact = impact_tables(answered)
    found = statistics(
        answered
    ).records  # `Records` raises an error for a key that is there twice
    Records(impact.records)
    keys = {record.key for record in found}
    again = {record.key: record for record in impact.records if record.key in keys}
    assert close(again.values(), [record for record in found if record.key in again])
    assert len(found.and_also(impact.records)) == len(found) + len(
        impact.records
    ) - len(again)
    with pytest.raises(ValueError, match="two records have one key"):
        Records([found[0], found[0]])


@pytest.mark.parametrize("seed", range(2))
def test_an_attribute_of_crossed_answers_is_the_attribute_alone(seed: int) -> None:
    frame = table(seed)
    crossed = audit(frame, protected=["sex", "race"], label="label")
    for name, view in zip(("sex", "race"), crossed.alone, strict=True):
        alone = audit(frame, protected=name, label="label")
        assert close(view.statistics.records, alone.statistics.records)
        for arm in crossed.arms:
            of_view = crossed.statistics.of("dp_gap", arm, attribute=name)
            assert close([of_view], [alone.statistics.of("dp_gap", arm)])


HIRED = pd.DataFrame(
    {"sex": ["f", "m"] * 60, "race": ["a", "a", "b", "b"] * 30, "was": [0, 1, 1] * 40}
)
HIRED["said"] = ["reject", "hire", "hire"] * 40
HIRED["wgt"] = [1.0, 2.0] * 60
HIRED["person"] = [f"p{place // 4}" for place in range(120)]


def test_anybodys_table_is_audited_with_two_columns_of_groups_and_no_label() -> None:
    found = audit(
        HIRED, answer="said", protected=["sex", "race"], label=None, positive="hire"
    ).statistics
    assert found.of("dp_gap", "answers").verdict
    assert found.of("dp_ratio", "answers").known
    for metric in ("accuracy", "eo_gap", "precision_gap", "label_gap"):
        assert not found.of(metric, "answers").known
    assert [view.name for view in found.views] == ["sex", "race", "sex & race"]
    rates = [record.value for record in found.rates("answers").values()]
    assert rates == sorted(rates), (
        "without labels groups stand in the order of their rates"
    )
    assert any("'wgt' looks like a weight" in note for note in found.notes)
    assert any("'person' looks like a cluster" in note for note in found.notes)
    person = range(120)
    of_arms = [HIRED.assign(person=person, row=person, arm=arm) for arm in "xy"]
    of = {"answer": "said", "protected": "sex", "label": None, "positive": "hire"}
    single = audit(pd.concat(of_arms), **of).statistics
    assert not [note for note in single.notes if "'person' looks" in note]


def test_without_labels_nothing_is_measured_against_labels() -> None:
    """Missing labels once counted as no: P(yes) had a Brier score, and pairs of arms accuracy."""
    two = [
        HIRED.assign(arm=arm, row=range(120), said=HIRED["said"] == "hire")
        for arm in "xy"
    ]
    frame = pd.concat(two).assign(p_yes=np.linspace(0, 1, 240))
    answered = from_frame(frame, answer="said", protected=["sex"], label=None)
    found = statistics(answered)
    assert found.of("dp_gap_difference", "y", against="x").known
    impact = impact_tables(answered)
    metrics = {record.metric for record in (*found.records, *impact.records)}
    assert not {
        name
        for name in metrics
        if re.search("accuracy|positive|negative|prec|brier", name)
    }
    tables = who_was_selected(impact, Records(impact.records))
    for text in (str(Audit(answered)), "".join(markdown(tables))):
        assert not re.search("Accuracy|EO gap|True|Confusion|Brier", text)


def test_labels_weights_people_and_strata_of_anybodys_table() -> None:
    usual = {"answer": "said", "protected": ["sex"], "label": "was", "positive": None}
    frame = HIRED.assign(said=HIRED["said"] == "hire")
    plain, weighted, people = (
        audit(frame, **usual, **more).statistics
        for more in ({}, {"weight": "wgt"}, {"cluster": "person", "given": "race"})
    )
    right = ((HIRED["said"] == "hire") == (HIRED["was"] == 1)).to_numpy()
    accuracy, of_weights, of_people = (
        found.of("accuracy", "answers").value for found in (plain, weighted, people)
    )
    assert accuracy == of_people == pytest.approx(right.mean())
    assert of_weights == pytest.approx(np.average(right, weights=HIRED["wgt"]))
    assert people.arms[0].within_strata is not None
    assert people.arms[0].within_strata.strata == 2
    assert people.of("dp_gap", "answers", scope="within strata").verdict
    assert plain.arms[0].within_strata is None


def test_weights_order_the_groups_and_are_named() -> None:
    """Unweighted the women are hired more often; the weight of few men turns it."""
    usual = {
        "answer": "said",
        "protected": "sex",
        "positive": 1,
        "weight": "w",
        "min_group": 1,
    }
    frame = pd.DataFrame(
        {"sex": ["f"] * 4 + ["m"] * 4, "said": [1, 1, 0, 0, 1, 0, 0, 0]}
    )
    frame["w"] = [1, 1, 1, 1, 9, 1, 1, 1]
    for label in (None, "was"):
        found = audit(frame.assign(was=frame["said"]), label=label, **usual)
        assert [group.group for group in found.statistics.groups] == ["f", "m"]
        assert any("weighted" in note for note in found.statistics.notes)
        assert "Impact ratio, weighted" in table_of(found).headings
    plain = audit(frame, answer="said", protected="sex", label=None)
    assert "Impact ratio" in table_of(plain).headings
    none = frame.assign(w=np.where(frame["sex"] == "f", 0, 1))
    found = audit(pd.concat([none, frame.assign(sex="x")]), label=None, **usual)
    assert sum("All weights of f are 0" in note for note in found.statistics.notes) == 1
    assert [group.group for group in found.statistics.groups] == ["m", "x"]
    assert found.records.of("dp_gap", "answers").verdict


def table_of(found: Audit) -> Section:
    return selected(found.impact, found.records)


def test_a_person_who_holds_a_quarter_of_a_group_is_named() -> None:
    frame = HIRED.assign(
        who=np.where(np.arange(120) % 2 * np.arange(120) < 40, "x", HIRED["person"])
    )
    frame = frame.assign(
        said=frame["said"] == "hire", who=frame["who"].where(frame["sex"] == "m")
    )
    frame["who"] = frame["who"].fillna(HIRED["person"])
    found = audit(frame, answer="said", protected="sex", label=None, cluster="who")
    held = int(((frame["who"] == "x") & (frame["sex"] == "m")).sum())
    words = f"x alone holds {held} of the 60 rows of m"
    assert [note for note in found.statistics.notes if note.startswith(words)]
    assert next_step(found.statistics)[0].startswith(
        "get rows of more people: one alone"
    )
    check = found.check("dp_gap > 0.1")
    assert (check.outcome, check.lacking) == ("cannot say", "people")
    assert check.reason.endswith("too few rows to tell"), "as the verdict"
    several = audit(frame, answer="said", protected="sex", label=None, cluster="person")
    step, _ = next_step(several.statistics)
    assert step.startswith("get rows of more people: four times as many")


def test_the_order_of_the_lines_changes_nothing(rng: Generator) -> None:
    """The second arm's rows come in another order than the first's; strata once stayed with the
    lines.
    """
    parts = []
    for place in range(4):
        answered = HIRED.assign(
            row=range(120), arm=f"arm {place % 2}", repeat=place // 2
        )
        parts.append(
            answered.assign(said=rng.random(120) < 0.5, p_yes=rng.random(120).round(2))
        )
    frame = pd.concat(parts)
    options = {
        "protected": "sex",
        "label": "was",
        "weight": "wgt",
        "cluster": "person",
        "given": "race",
    }
    found = [
        audit(one, answer="said", **options).records.where(arm="arm 1")
        for one in (
            frame,
            pd.concat([*parts[::2], *[part[::-1] for part in parts[1::2]]]),
        )
    ]
    assert close(*found)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (HIRED, {"answer": "sad"}, "no column 'sad'"),
        (HIRED, {"positive": None}, "positive="),
        (HIRED, {"design": "label"}, "design is 'label'"),
        (HIRED, {"margin": 5}, "margin"),
        (HIRED, {"against": "x"}, "no arm 'x'"),
        (HIRED, {"p_yes": "p"}, "no column 'p'"),
        (HIRED, {"positive": "hired"}, "'hired' is none of them"),
        (HIRED, {"protected": ["sex", "sex"]}, "named twice"),
        (
            HIRED.assign(said=[*"abc"] * 40),
            {"positive": "a"},
            "3 values: 'a' .40.*negative=",
        ),
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
    with refused(words):
        audit(frame, **usual | options)


def test_p_yes_alone_decides_and_weights_are_read_as_tasks_read_numbers() -> None:
    k = np.arange(90)
    frame = pd.DataFrame({"sex": np.where(k % 2, "f", "m"), "p": k * 37 % 100 / 100})
    found = audit(frame, protected="sex", p_yes="p")
    yes = (frame["p"] >= 0.5).groupby(frame["sex"]).mean()
    assert found.records.of("selection_rate", "answers", "f").value == yes["f"]
    frame["said"] = np.where(k % 3, "yes", "no")
    frame["w"] = np.array(["1.2k", "900", "-"])[k // 2 % 3]
    numbers = frame["w"].map({"1.2k": 1200, "900": 900, "-": None})
    options = {"answer": "said", "protected": "sex", "weight": "w", "missing": "drop"}
    written, typed = (
        audit(one, **options).records
        for one in (frame, frame.assign(w=numbers))  # type: ignore[arg-type]
    )
    assert close(written, typed)
    assert written.of("selection_rate", "answers", "f").n < 45


def test_whose_group_is_unknown_stands_in_the_tables_and_is_judged_nowhere() -> None:
    """F 30 %, M 40 %, and 60 % of forty people who did not say."""
    parts = [
        ("F", 1000, 300),
        ("M", 1000, 400),
        ("prefer not to say", 40, 24),
        ("", 10, 9),
    ]
    rows = [(sex, k < yes) for sex, n, yes in parts for k in range(n)]
    found = audit(
        pd.DataFrame(rows, columns=["sex", "yes"]), answer="yes", protected="sex"
    )
    assert found.records.of("dp_gap", "answers").value == pytest.approx(0.1)
    rate = found.records.of("selection_rate", "answers", "unknown")
    assert (rate.value, rate.n, rate.verdict) == (pytest.approx(33 / 50), 50, "")
    assert found.check("dp_gap > 0.16").passed
    told = found.to_frame().query("metric == 'selection_rate' and group == 'unknown'")
    assert told["n"].tolist() == [50]
    assert "unknown 66.0 (of 50, not judged)" in str(found)
    short = selected(found.impact, found.records, brief=True)
    assert [row[0] for row in short.rows] == ["F", "M", "unknown"]
    assert short.rows[-1][-1] == "not judged: 50 rows"


@pytest.mark.parametrize("options", [{}, {"weight": "weight"}, {"cluster": "person"}])
def test_people_of_an_unknown_group_change_no_gap(options: dict[str, str]) -> None:
    """By weights and people, degrees of freedom are those of the groups that are judged."""
    frame = people(400, 0, arms=1).dropna().reset_index(drop=True)
    frame.loc[:1, ["group", "person"]] = "", -1

    def gaps(rows: pd.DataFrame) -> pd.DataFrame:
        found = audit(rows, protected="group", **options).to_frame()
        of_gaps = found.query("attribute == 'group' and group == ''")
        of_gaps = of_gaps[~of_gaps["metric"].str.endswith("_rows_needed")]
        of_gaps = of_gaps.drop_duplicates(["arm", "metric", "against"])
        columns = ["arm", "metric", "against", "value", "low", "high"]
        return of_gaps[columns].round(9).reset_index(drop=True)

    without = gaps(frame[2:])
    metrics = {"label_gap", "mean_p_yes_gap", "dp_gap_detectable"}
    assert metrics <= {*without["metric"]}
    pd.testing.assert_frame_equal(gaps(frame), without)
