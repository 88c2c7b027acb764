"""Answers of a model that are all alike: what is said of them, and what centring P(yes) shows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from fwc_llm import Result, audit, evaluate
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.intervals import ALIKE
from fwc_llm.metrics.predicted_probabilities import Probabilities
from fwc_llm.metrics.records import Records
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import ArmArrays
from fwc_llm.models import Messages, Reply
from fwc_llm.report.formats import render
from fwc_llm.tasks import census_task
from tests.metrics.worlds import once

GAP = "dp_gap"


def sample_of(
    yes: int, labels: int, n: int = 200, times: int = 1, **more: Any
) -> ArmArrays:
    """Rows of a model of which so many are answered yes, and so many have the label yes."""
    row = np.tile(np.arange(n), times)
    answer = (row < yes).astype(float)
    label = (row >= n - labels).astype(int)
    parts = answer, label, row % 2, np.repeat(np.arange(times), n), row
    return ArmArrays(*parts, groups=2, **{"design": SamplingDesign(model=True), **more})


@pytest.mark.parametrize(
    ("yes", "labels", "words"),
    [
        (0, 0, "answered no to all 200 rows"),
        (200, 50, "answered yes to all 200 rows"),
        (4, 100, "answered no to all but 4 of 200 rows"),
        (197, 100, "answered yes to all but 3 of 200 rows"),
        (4, 6, ""),  # as rare as the labels are
        (5, 100, ""),
    ],
)
def test_alike_are_answers_of_one_kind_but_for_few(
    yes: int, labels: int, words: str
) -> None:
    sample = sample_of(yes, labels)
    assert sample.alike == words
    assert replace(sample, design=SamplingDesign()).alike == "", (
        "decisions that are audited are what they are"
    )
    again = sample_of(yes, labels, times=3)
    assert bool(again.alike) == bool(words), "rows count, not questions"
    gap = ArmEstimates(sample)[GAP]
    assert (gap.verdict == ALIKE) == bool(words)


def test_replies_without_an_answer_are_neither_kind() -> None:
    sample = sample_of(0, 50)
    sample = replace(sample, answer=np.where(sample.row < 40, np.nan, sample.answer))
    assert sample.alike == "answered no to all 160 rows"
    assert replace(sample, answer=np.full(200, np.nan)).alike == ""


def draw(
    rng: np.random.Generator, n: int, base: tuple[float, float]
) -> tuple[np.ndarray, ...]:
    """Groups, labels and log-odds of a model that always says no."""
    group = (rng.random(n) < 0.6).astype(int)
    label = (rng.random(n) < np.array(base)[group]).astype(int)
    return group, label, rng.normal(label + 0.4 * group - 5, 1.5)


def centre(
    group: np.ndarray, label: np.ndarray, odds: np.ndarray, **more: Any
) -> Records:
    """The records of answers at the median of P(yes)."""
    sample = once(np.zeros(len(odds)), group, label, p_yes=expit(odds), **more)
    found = Probabilities.of(sample)
    assert found is not None
    return Records(found.at_median(["f", "m"], "group"), "group")


def rates_of(found: Records) -> list[float]:
    rates = (found.of("selection_rate_at_median", group=name) for name in "fm")
    return [rate.value for rate in rates]


def test_centred_answers_are_yes_above_the_median() -> None:
    group, label, odds = draw(np.random.default_rng(0), 300, (0.3, 0.6))
    found = centre(group, label, odds)
    yes = odds > np.median(odds)
    rates = [yes[group == place].mean() for place in (0, 1)]
    assert rates_of(found) == pytest.approx(rates)
    right = found.of("accuracy_at_median").value
    assert right == pytest.approx((yes == label).mean())
    gap = found.of("dp_gap_at_median").value
    assert gap == pytest.approx(abs(rates[1] - rates[0]))
    moved = centre(group, label, odds + 3)
    assert rates_of(moved) == pytest.approx(rates), "a shift changes nothing"
    odds[np.arange(300) % 20 == 0] = -100
    assert np.mean(rates_of(centre(group, label, odds))) > 0.4, "nor do some zeros"
    odds = draw(np.random.default_rng(0), 300, (0.3, 0.6))[2]
    assert len(centre(group, label, np.full(300, -4.0))) == 0
    weighted = centre(group, label, odds, weight=np.where(group == 0, 3.0, 1.0))
    again = np.concatenate([np.arange(300), *[np.flatnonzero(group == 0)] * 2])
    repeated = centre(group[again], label[again], odds[again])
    assert rates_of(weighted) == pytest.approx(rates_of(repeated))


# --- A run


@dataclass(frozen=True)
class Denier:
    """Says one word whatever the row, with a P(yes) that ranks rows."""

    says: str = "no"
    name: str = "denier"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"says": self.says}

    async def ask(self, messages: Messages) -> Reply:
        text = messages[-1]["content"]
        odds = -5 + sum(text.encode()) % 7 / 4 + 0.5 * ("Male" in text)
        return Reply(self.says, finish_reason="stop", p_yes=float(expit(odds)))

    async def aclose(self) -> None: ...


def asked(model: Denier, out: Path, *arms: str) -> Result:
    task = census_task(n_pool=400, n_test=400)
    return evaluate(task, model, arms, n_test=200, out=out)


def test_a_run_says_so_first_and_no_gate_is_decided(out: Path) -> None:
    result = asked(Denier(), out, "zero")
    found = result.audit()
    stats = found.statistics
    assert stats.arms[0].alike == "answered no to all 200 rows"
    for records in (result.records, stats.records):
        assert records.of(GAP, "zero").verdict == ALIKE
    assert not stats.of(f"{GAP}_rows_needed", "zero").known, "more rows would not tell"
    answers = result.answers()
    p = answers["p_yes"].astype(float)
    rates = (p > p.median()).groupby(answers["group"]).mean().to_dict()
    told = stats.rates("zero", "selection_rate_at_median")
    assert {name: record.value for name, record in told.items()} == pytest.approx(rates)
    first = " ".join(str(found).split())
    cause = "answered no to all 200 rows: the gap says nothing"
    assert first.startswith(f"Cannot say: {cause}")
    right = (answers["label"] == "no").mean()
    assert f"{100 * right:.1f} % right" in first, "though answers are alike"
    for text in (first, render([result.folder], "md")):
        assert f"{100 * max(rates.values()):.1f} %" in text
        # P(yes) does not tell rows apart, either
        assert "other prompts or another model may tell" in " ".join(text.split())
        assert "cannot say" in text
    for condition, outcome in (
        ("dp_gap > 0.9", "cannot say"),
        ("dp_ratio < 0.1", "cannot say"),
        ("eo_gap > 0.9", "cannot say"),
        ("accuracy < 0.1", "within"),
        ("coverage < 0.5", "within"),
        ("auc_gap > 0.9", "within"),  # P(yes) differs
    ):
        assert result.check(condition).outcome == outcome
    decisions = answers.rename(columns={"answer": "said"})
    of_people = audit(decisions, answer="said", protected=["group"])
    assert of_people.statistics.arms[0].alike == ""
    assert of_people.check("dp_gap > 0.9").outcome == "within"


def test_ratios_and_differences_of_alike_answers_tell_nothing(out: Path) -> None:
    result = asked(Denier("yes"), out, "zero", "balanced")
    for metric in ("dp_gap", "dp_ratio", "eo_gap", "precision_gap"):
        check = result.check(f"{metric}[balanced] - {metric}[zero] > 0.9")
        assert check.outcome == "cannot say"
        assert "answered yes to all 200 rows" in check.reason
    check = result.check("dp_ratio[zero] < 0.8")
    assert check.outcome == "cannot say"
    assert "so the ratio tells nothing" in check.reason
    assert result.check("accuracy[balanced] - accuracy[zero] > 0.9").passed
