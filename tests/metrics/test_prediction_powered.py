"""Assisted estimates: unbiased whatever the predictor is, tighter where it is good, else as they
were.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evals.cost import RESULTS, as_markdown
from evals.frames import from_frame
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.prediction_powered import (
    FOLDS,
    FeatureTable,
    assisted_answers,
    effective_sample_size,
)
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.statistics import statistics
from tests.command import read_json
from tests.refusals import refused

GAP = "dp_gap"


def world(
    rng: np.random.Generator, strength: float = 3.0, n: int = 4000
) -> tuple[FeatureTable, np.ndarray]:
    """A table, and each row's P(yes): a number, a category, group and label say it, or nothing
    does.
    """
    group = rng.choice(["f", "m"], n)
    label = rng.integers(0, 2, n)
    features = pd.DataFrame({"x": rng.standard_normal(n), "c": rng.choice([*"abc"], n)})
    odds = strength * (
        features["x"] + 0.5 * (features["c"] == "a") + 0.4 * (group == "m") - 0.4
    )
    return FeatureTable(pd.RangeIndex(n).astype(str), group, label, features), (
        1 / (1 + np.exp(-odds))
    ).to_numpy()


def ask(
    rng: np.random.Generator,
    table: FeatureTable,
    chance: np.ndarray,
    n: int = 200,
    repeats: int = 1,
) -> RunAnswers:
    row = np.concatenate(
        [rng.choice(len(chance), n, replace=False) for _ in range(repeats)]
    )
    frame = {
        "row": table.rows[row],
        "repeat": np.repeat(np.arange(repeats), n),
        "group": table.group[row],
    }
    answer = np.where(rng.random(len(row)) < chance[row], "yes", "no")
    return from_frame(
        pd.DataFrame({**frame, "label": table.label[row], "answer": answer})
    )


def asked(
    seed: int, n: int = 200, rows: int = 4000, repeats: int = 1
) -> tuple[RunAnswers, FeatureTable]:
    """Answers about some rows of a table, and the table."""
    rng = np.random.default_rng(seed)
    table, chance = world(rng, n=rows)
    return ask(rng, table, chance, n, repeats), table


def both(run: RunAnswers, table: FeatureTable) -> tuple[ArmEstimates, ArmEstimates]:
    assisted = assisted_answers(run, table)
    return ArmEstimates(run.samples["answers"]), ArmEstimates(
        assisted.samples["answers"]
    )


def test_gaps_verdicts_and_rows_worth_follow_from_the_assisted_rates() -> None:
    plain, assisted = both(*asked(1))
    rates = assisted.counted("selection_rate").values
    assert assisted[GAP].value == pytest.approx(np.ptp(rates))
    for narrow, wide in zip(assisted.rates(), plain.rates(), strict=True):
        assert narrow.high - narrow.low < wide.high - wide.low
    assert (effective_sample_size(plain, assisted, GAP) or 0) > 1.3 * 200
    ratio = assisted["dp_ratio"].value
    assert ratio == pytest.approx(rates.min() / rates.max())
    assert assisted.counted("precision").values == pytest.approx(
        plain.counted("precision").values
    )


def test_a_table_without_a_row_that_was_asked_about_is_refused() -> None:
    run, table = asked(8)
    with refused("lacks the row"):
        assisted_answers(run, replace(table, rows=table.rows + "x"))


def test_too_few_rows_change_nothing_and_a_note_says_so() -> None:
    run, table = asked(9, n=39)
    plain, few = both(run, table)
    assert few["accuracy"].low == plain["accuracy"].low
    notes = statistics(assisted_answers(run, table)).notes
    assert any("it takes at least 40 rows" in note for note in notes)


def test_where_answers_are_all_alike_nothing_changes() -> None:
    rng = np.random.default_rng(3)
    table, chance = world(rng)
    run = ask(rng, table, 0 * chance)
    assert assisted_answers(run, table).samples["answers"].assist is None


def test_a_group_of_few_rows_falls_back_by_itself() -> None:
    rng = np.random.default_rng(4)
    table, chance = world(rng)
    few = np.flatnonzero(table.group == "f")[15:]
    table.group[few] = "m"
    run = ask(rng, table, chance, 1000)
    plain, assisted = both(run, table)
    changed = (
        plain.counted("selection_rate").values
        != assisted.counted("selection_rate").values
    )
    assert changed.tolist() == [name == "m" for name in run.groups]


def test_all_answers_about_a_row_are_in_one_fold() -> None:
    run, table = asked(5, rows=300, repeats=3)
    sample = assisted_answers(run, table).samples["answers"]
    pairs = set(zip(sample.row.tolist(), sample.assist.fold.tolist(), strict=True))
    assert len(pairs) == len(set(sample.row.tolist()))
    assert set(sample.assist.fold.tolist()) == set(range(FOLDS))


def test_weights_are_refused_and_odd_columns_are_read() -> None:
    run, table = asked(12)
    answers = run.answers["answers"]
    weighted = replace(answers, weight=np.ones(len(answers)))
    with refused("takes neither weights nor people"):
        assisted_answers(replace(run, answers={"answers": weighted}), table)
    x = table.features["x"]
    odd = {
        "a": np.where(x > 2, np.inf, x),
        "t": pd.to_timedelta(x, "D"),
        "h": 1e300 * x,
    }
    odd["i"] = pd.array([None if n > 1 else round(10 * n) for n in x], dtype="Int64")
    more = replace(table, features=table.features.assign(**odd))
    assert assisted_answers(run, more).samples["answers"].assist


def test_the_recorded_page_is_that_of_the_recorded_numbers() -> None:
    numbers = read_json(RESULTS / "cost.json")
    assert as_markdown(numbers) == (RESULTS / "cost.md").read_text(encoding="utf-8")


def test_a_single_yes_is_enough_to_predict_from() -> None:
    table, chance = world(np.random.default_rng(2))
    asked = np.random.default_rng(0).choice(len(chance), 200, replace=False)
    run = ask(
        np.random.default_rng(0),
        table,
        np.isin(np.arange(len(chance)), asked[:2]).astype(float),
    )
    assert (
        run.plain_samples["answers"].yes.sum() == 2
    )  # in two folds: one is left where a fold is left out
    assert assisted_answers(run, table).samples["answers"].assist
