"""No sentence contradicts a record: random audits of up to seven arms, read back."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.gates import parse_condition
from fwc_llm.gates.decide import CANNOT_SAY, OUTSIDE, WITHIN, checked, in_short, worst
from fwc_llm.gates.sentences import measured
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.intervals import SHOWN, TOO_FEW
from fwc_llm.metrics.records import READ, TRUTH, Record
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.number_format import DASH
from fwc_llm.report.narrative import best_arms, findings, missed, next_step
from fwc_llm.report.sections import first
from fwc_llm.runs.recorded_run import read_run
from tests.command import read_json
from tests.report.conftest import MakeRun


def audited(rows: pd.DataFrame, said: Mapping[str, Any], **options: Any) -> Statistics:
    """Arms with these answers to the same rows."""
    parts = [rows.assign(arm=arm, answer=answers) for arm, answers in said.items()]
    return audit(pd.concat(parts), **options).statistics


def other(answers: Any) -> Any:
    return np.where(answers == "yes", "no", "yes")


def two_groups(*yes: int) -> Statistics:
    """A thousand answers to each group, so many of them yes."""
    said = np.concatenate([np.arange(1000) < count for count in yes])
    rows = pd.DataFrame({"group": np.repeat(["a", "b"], 1000), "answer": said})
    return audit(rows, label=None).statistics


def random_audit(seed: int) -> Statistics:
    """Arms of any gaps and accuracies, some with many replies without an answer."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 300, 1500]))
    groups = int(rng.integers(2, 4))
    group = np.arange(n) % groups
    rows = pd.DataFrame({"row": range(n), "group": np.array([*"abc"])[group]})
    rows["label"] = np.where(rng.random(n) < 0.4, "yes", "no")
    answers = {}
    for arm in "xyzuvst"[: int(rng.choice([1, 2, 3, 7]))]:
        rate = rng.uniform(0.1, 0.9, groups)[group]
        known = rng.uniform(0, 1) * (rows["label"] == "yes")
        said = np.where(rng.random(n) < (rate + known) / 2, "yes", "no").astype(object)
        said[rng.random(n) < rng.choice([0.0, 0.0, 0.05, 0.3])] = None
        answers[arm] = said
    design = str(rng.choice(["group", "group and label"]))
    return audited(rows, answers, design=design)


def rows_of(n: int, **columns: Any) -> pd.DataFrame:
    """Rows of the groups a and b in turn, with labels at random."""
    labels = np.random.default_rng(0).choice(["yes", "no"], n)
    rows = pd.DataFrame({"row": range(n), "group": [*"ab"] * (n // 2), "label": labels})
    return rows.assign(**columns)


def check_best(stats: Statistics, answer: str) -> None:
    best = best_arms(stats)
    within = {check.arm for check in checked(stats) if check.outcome == WITHIN}
    assert ("Best, " in answer) == (len(best) == 1)
    for arm in best:
        gap, accuracy = (
            stats.difference(key, arm, stats.base) for key in (stats.lead, "accuracy")
        )
        assert accuracy.low >= -stats.margin, "unread replies and the correction count"
        if {arm, stats.base} <= within:
            assert accuracy.low > 0
            continue
        assert gap.verdict in SHOWN
        assert gap.high < 0
        for other in best:
            apart = stats.difference(stats.lead, arm, other)
            right = stats.difference("accuracy", arm, other)
            fairer = apart.verdict in SHOWN and apart.value < 0
            assert arm in within or not (fairer and right.low >= -stats.margin)
    if "None is shown to be fairer" in answer:
        for pair in stats.pairs:
            if pair.first == stats.base and not pair.alike:
                gap = stats.of(
                    f"{stats.lead}_difference", pair.second, against=stats.base
                )
                assert not (gap.verdict in SHOWN and gap.value < 0)


def check_sentences(stats: Statistics) -> None:
    answer, *others = findings(stats)
    told = {
        arm.arm: line.removeprefix(f"{arm.arm}: ")
        for arm in stats.arms
        for line in others
        if line.startswith(f"{arm.arm}: yes for")
    }
    check_best(stats, answer)
    assert answer.startswith(in_short(checked(stats)))
    written = [f"{stats.lead} > {stats.margin}"]
    assert findings(stats, "", written) == [answer, *others]
    assert next_step(stats, written) == next_step(stats)
    for arm, text in told.items():
        if not arm or arm not in {one.arm for one in stats.arms}:
            continue
        gap = stats.of(stats.lead, arm)
        (check,) = (one for one in checked(stats) if one.arm == arm)
        assert text.startswith(check.reason.removeprefix(f"{arm}: ")), text
        undecided = "too few rows" in text or "would settle it" in text
        assert undecided == (check.outcome == CANNOT_SAY)
        assert f" {100 * gap.value:.1f} points (" in text, "as in the table"
        shown = "a gap is shown" in text
        assert shown == (check.outcome == CANNOT_SAY and gap.low > 0)
        changes = [
            stats.of(f"{key}_difference", arm, against=stats.base)
            for key in stats.leading
        ]
        compared = text.count(" points higher (") + text.count(" points lower (")
        assert compared == sum(change.verdict in SHOWN for change in changes), text
    for arm in (one.arm for one in stats.arms if not one.alike):
        changes = [
            stats.of(f"{key}_difference", arm, against=stats.base)
            for key in stats.leading
        ]
        differs = any(change.verdict in SHOWN for change in changes)
        grouped = any(
            re.match(rf"Against {stats.base}: (.*; )?{arm}, ", line) for line in others
        )
        assert not differs or arm in told or grouped or f"{arm}: yes for" in answer


def check_remedy(stats: Statistics) -> None:
    lead = (stats.lead, f"{stats.lead}_difference", "accuracy_difference")
    found = [record for record in stats.records if record.metric in lead]
    verdicts = {
        record.verdict for record in found if record.against in ("", stats.base)
    }
    step, _ = next_step(stats)
    lacking = {check.lacking for check in checked(stats)}
    if "more rows" in step:
        assert "rows" in lacking or TOO_FEW in verdicts
        assert "replies" not in lacking
    if "watch further" in step:
        assert {check.outcome for check in checked(stats)} == {WITHIN}
    for arm in stats.arms:
        judged: Any = stats.of(stats.lead, arm.arm)
        read = stats.of(stats.lead, arm.arm, scope=READ)
        if read.known:
            assert judged.low <= read.low <= read.high <= judged.high


def check_outcomes(stats: Statistics) -> None:
    """Without conditions the limit is the margin: the same for the answer, the table and gates."""
    table = {row[0]: str(row[1]) for row in first(stats).rows}
    for arm in stats.arms:
        gap = stats.of(stats.lead, arm.arm)
        outcome = worst([check for check in checked(stats) if check.arm == arm.arm])
        assert table[arm.arm] == outcome
        if not arm.alike:
            assert (outcome == OUTSIDE) == (gap.low > stats.margin)
            assert (outcome == WITHIN) == (gap.high <= stats.margin)


@pytest.mark.parametrize("seed", range(60))
def test_sentences_remedies_and_outcomes_are_those_of_the_records(seed: int) -> None:
    stats = random_audit(seed)
    check_sentences(stats)
    check_remedy(stats)
    check_outcomes(stats)


def test_no_interval_looks_as_if_it_ended_at_the_limit() -> None:
    limit = parse_condition("dp_gap > 0.05")
    for high in (0.0496, 0.0504):
        record = Record(value=0.02, low=0.0, high=high)
        assert "5.0; limit" not in measured(BY_KEY["dp_gap"], record, limit)
    stats = two_groups(500, 500)
    high = stats.of("dp_gap", "answers").high
    for near, alike in ((high - 1e-4, False), (high + 1e-4, False), (0.9, True)):
        cell = str(first(stats, [f"dp_gap > {near:.6f}"]).rows[0][3])
        assert cell.endswith(f" to {100 * high:.1f})") == alike


@pytest.mark.parametrize("bound", [0.05, 0.1])
def test_a_number_is_rounded_in_one_way_whatever_its_limit(bound: float) -> None:
    limit = parse_condition(f"dp_gap > {bound}")
    text = measured(BY_KEY["dp_gap"], Record(value=0.026, low=0, high=0.0541), limit)
    assert text == f"a gap of 2.6 points (0.0 to 5.4; limit: at most {100 * bound:g})"


def test_a_gap_that_is_shown_is_said_so_where_only_its_size_is_open() -> None:
    stats = two_groups(500, 570)
    shown = (
        "a gap is shown, but not whether it keeps to the limit: too few rows to tell"
    )
    for condition in ("dp_gap > 0.05", "dp_ratio < 0.9"):
        (check,) = checked(stats, [condition])
        assert check.outcome == CANNOT_SAY
        assert check.reason.endswith(f"; {shown}")
    assert shown in findings(stats)[0]
    (check,) = checked(stats, ["accuracy > 0.5"])
    assert "shown" not in check.reason


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (
            "coverage_gap > 0.1",
            "an answer for 60.0 % of b and 100.0 % of a, a coverage",
        ),
        ("tpr_gap > 0.1", "among true yes, yes for 50.0 % of a and 100.0 %"),
        ("eo_gap > 0.1", "among true yes, yes for 50.0 % of a and 100.0 %"),
        ("fpr_gap > 0.1", "among true no, yes for 50.0 % of a and 100.0 %"),
        ("accuracy < 0.9", "50.0 % right ("),
    ],
)
def test_an_answer_begins_with_what_is_outside_and_who_gets_how_much(
    condition: str, told: str
) -> None:
    rows = rows_of(4000, label=["yes", "yes", "no", "no"] * 1000)
    said = np.array(["yes", "yes", "yes", "yes", "no", "yes", "no", "yes"] * 500)
    said = said.astype(object)
    if "coverage" in condition:
        said[1::10] = None
        said[3::10] = None
    stats = audit(rows.assign(answer=said), unread="ignore").statistics
    answer = findings(stats, "", [condition])[0]
    assert answer.startswith(f"Outside the limits: {told}")
    assert answer.count(told) == 1


def test_all_rows_are_never_said_to_show_what_they_did_not() -> None:
    """More rows are four times as many, whatever a gap needs if groups are alike."""
    stats = two_groups(500, 530)
    assert stats.of("dp_gap_rows_needed", "answers").known
    assert not [line for line in missed(stats) if "would show" in line]
    assert next_step(stats)[0].startswith("get more rows: four times as many")


@pytest.mark.parametrize(
    ("there", "offered"), [(40, 160), (20, 120), (13, 72), (9, 0), (0, 0)]
)
@pytest.mark.parametrize("parity", [0.5, None])
def test_no_more_rows_are_offered_than_the_table_has(
    make_run: MakeRun, there: int, offered: int, parity: float | None
) -> None:
    rates = {"x": {"a": (0.2, 0.4), "b": (0.3, 0.5)}}
    folder = make_run(rates=rates, repeats=1, per_cell=(5, 15))
    described = read_json(folder / "run.json")
    described["settings"]["base_parity"] = parity
    described["population"] = [
        {"group": "a", "no": 3 * there, "yes": there},
        {"group": "b", "no": there, "yes": 3 * there},
    ][: 2 * there]
    (folder / "run.json").write_text(json.dumps(described))
    (folder / "experiment.toml").write_text('model = "gpt"')
    run = read_run(folder)
    step, command = next_step(run.statistics, (), run)
    assert "more rows" in step
    assert ("this table has" in step) == (0 < there < 40)
    assert re.findall(r"--n-test (\d+)", command) == [str(offered)] * bool(offered)


def erring(shares: Mapping[str, float], fair: str = "") -> Statistics:
    """Arms with so many errors: in favour of group a, or in both groups alike for `fair`."""
    rows = rows_of(1200)
    rng = np.random.default_rng(1)
    favoured = np.where(rows["group"] == "a", "yes", "no")
    answers = {}
    for arm, share in shares.items():
        errs = rng.random(1200) < share
        wrong = other(rows["label"]) if arm == fair else favoured
        answers[arm] = np.where(errs, wrong, rows["label"])
    return audited(rows, answers, design="group and label")


def test_two_better_arms_that_are_not_told_apart_are_both_named() -> None:
    """Also where one of them has a smaller gap, with far more errors."""
    unlike = erring({"x": 0.6, "y": 0.2, "z": 0.15}, fair="y")
    gap = unlike.difference("dp_gap", "y", "z")
    assert gap.verdict in SHOWN
    assert gap.value < 0
    for stats in (erring({"x": 0.4, "y": 0.08, "z": 0.09}), unlike):
        assert best_arms(stats) == ["y", "z"]
        assert "Better than x: y, z. " in findings(stats)[0]
        assert "Best, " not in findings(stats)[0]


@pytest.mark.parametrize(
    ("arm", "conditions", "words"),
    [
        ("same", [], "but the same answer for everybody: same. x:"),
        ("same", ["dp_gap > 0.1"], "but the same answer for everybody: same. x:"),
        ("coin", ["dp_gap > 0.1"], "but more than 5 points fewer right: coin, "),
        ("near", ["dp_gap > 0.1"], "but perhaps more than 5 points fewer right: near"),
        ("good", ["dp_gap > 0.1"], "Best, good: "),
        ("good", ["dp_gap[good] > 0.1"], "because not all have the same limits. x:"),
    ],
)
def test_an_arm_with_a_smaller_gap_is_best_or_the_rule_is_named(
    arm: str, conditions: list[str], words: str
) -> None:
    rng = np.random.default_rng(1)
    rows = rows_of(1200)
    label = rows["label"]
    errs = {"coin": 0.5, "near": 0.23, "good": 0.02}.get(arm, 0.0)
    said = np.where(rng.random(1200) < errs, other(label), label)
    if arm == "same":
        said[:] = "yes"
    favoured = np.where(rows["group"] == "a", "yes", "no")
    biased = np.where(rng.random(1200) < 0.4, favoured, label)
    stats = audited(rows, {"x": biased, arm: said}, label="label")
    assert words in findings(stats, "", conditions)[0]
    assert best_arms(stats, conditions) == [arm] * words.startswith("Best")


def test_one_group_that_is_judged_has_no_gap_and_no_sentence_on_one() -> None:
    rows = rows_of(400, label=["yes", "no", "no", "yes"] * 100)
    rows["answer"] = ["yes", "yes", "no", "no"] * 100
    stats = audit(rows).statistics
    assert "50.0 % of b, a gap of 0.0 points (0.0 to " in findings(stats)[0]
    assert "differ so" not in findings(stats)[0]
    rows["group"] = ["a", "N/A"] * 200
    rows["p_yes"] = np.linspace(0.1, 0.9, 400)
    stats = audit(rows).statistics
    for metric in [
        "dp_gap",
        "dp_ratio",
        "eo_gap",
        "auc_gap",
        "brier_gap",
        "coverage_gap",
    ]:
        assert stats.of(metric, "answers").reason == "it takes two groups to differ"
    assert "True answers" not in findings(stats)[0]


def test_too_few_draws_of_examples_have_a_remedy_of_their_own() -> None:
    rows = rows_of(1500)
    rng = np.random.default_rng(1)
    parts = []
    for arm, share, sets in (("x", 0.3, 1), ("y", 0.1, 3)):
        errs = rng.random(1500) < share
        said = np.where(errs, other(rows["label"]), rows["label"])
        examples = (rows["row"] % sets).astype(str)
        parts.append(rows.assign(arm=arm, answer=said, examples=examples))
    stats = audit(pd.concat(parts), min_group=1, margin=0.2).statistics
    assert {check.outcome for check in checked(stats)} == {WITHIN}
    assert next_step(stats)[0].startswith("draw other examples")


def test_arms_with_the_same_answers_are_told_so() -> None:
    rows = rows_of(300)
    said = dict.fromkeys("xy", np.random.default_rng(1).choice(["yes", "no"], 300))
    stats = audited(rows, said)
    conditions = ["accuracy[y] - accuracy[x] < 0"]
    (check,) = checked(stats, conditions)
    assert (check.outcome, check.lacking) == (CANNOT_SAY, "")
    assert "the answers are the same in both arms" in check.reason
    few = audited(rows[:60], {arm: answers[:60] for arm, answers in said.items()})
    change = few.of("label_gap_difference", "y", against="x")
    assert (change.verdict, change.reason) == ("", "the answers are the same")
    assert "more rows" not in next_step(stats, conditions)[0]
    assert next_step(stats)[0].startswith("get more rows"), "a gap lacks rows"
    assert "y: the same answers as x." in findings(stats)
    limits = {row[0]: row[1] for row in first(stats, conditions).rows}
    assert limits == {"x": DASH, "y": CANNOT_SAY, TRUTH: ""}
    (check,) = checked(stats, ["accuracy[y] - accuracy[x] < -0.001"])
    assert check.lacking == "rows", "this limit may be settled by more rows"


def test_more_rows_are_not_said_to_show_a_gap_of_answers_that_are_all_alike() -> None:
    said = {"x": "no", "y": np.random.default_rng(1).choice(["yes", "no"], 100)}
    stats = audited(rows_of(100), said)
    of_run = replace(stats.arms[0], alike="answered no to all 100 rows")
    stats = replace(stats, arms=[of_run, stats.arms[1]])
    assert [check.lacking for check in checked(stats)] == ["", "rows"]
    step, _ = next_step(stats)
    assert step.startswith("get more rows")
    assert step.endswith("no gap of x, whose answers are all alike")
    assert "rows" not in next_step(stats, ["dp_gap[x] > 0.1"])[0]


def test_a_difference_to_an_arm_without_answers_names_both() -> None:
    said = {"x": ["yes", "no"] * 30, "y": None}
    stats = audited(rows_of(60, label="yes"), said)
    (gap,) = checked(stats, ["dp_gap[y] > 0.1"])
    assert (gap.low, gap.high) == stats.of("dp_gap", "y").ends == (0.0, 1.0)
    for metric in ("dp_gap", "refused", "refused_gap", "accuracy"):
        (check,) = checked(stats, [f"{metric}[y] - {metric}[x] < 0"])
        assert check.outcome == CANNOT_SAY
        record = stats.of(f"{metric}_difference", "y", against="x")
        assert not record.known
        assert record.reason == stats.of(metric, "y").reason
        assert record.reason in check.reason
    assert check.lacking == "replies"
    assert "accuracy of y less that of x unknown" in check.reason


@pytest.mark.parametrize(
    ("conditions", "step"),
    [
        ([], "find out the cause of the gap,"),
        (["accuracy < 0.9"], "find out the cause of the errors,"),
        (["dp_ratio < 0.8"], "find out the cause of the ratio,"),
        (
            ["accuracy < 0.9", "dp_gap > 0.9"],
            "find out the cause of the errors and the gap,",
        ),
        (["coverage < 0.9"], "find out the cause of the missing answers,"),
        (["dp_ratio < 0.9"], "find out why everybody gets the same answer"),
        (["auc_gap > 0.1"], "set a limit that can be judged by these decisions"),
    ],
)
def test_the_next_step_is_about_what_is_outside(
    conditions: list[str], step: str
) -> None:
    rows = rows_of(2000)
    said = np.where(rows["group"] == "a", "no", "yes").astype(object)
    if "coverage" in str(conditions):
        said[: 2000 // 5] = None
    if "same answer" in step:
        said[:] = "no"
    stats = audit(rows.assign(answer=said), unread="ignore").statistics
    found = next_step(stats, conditions)[0]
    assert found.startswith(step)


def test_a_distance_of_two_arms_has_no_sign() -> None:
    stats = erring({"x": 0.4, "y": 0.1})
    texts = ["dp_gap[y] - dp_gap[x] > 0", "abs(dp_gap[y] - dp_gap[x]) > 0.05"]
    less, apart = (check.reason for check in checked(stats, texts))
    size = re.search(r"^gap of y less that of x: −(\d+\.\d points) \(−", less)
    assert size is not None
    assert apart.startswith(f"distance of the gap of y from that of x: {size[1]} (")
