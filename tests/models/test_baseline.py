"""The baseline: the regression that scikit-learn fits, on the row alone; and models of rows of
one's own.
"""

import asyncio
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fwc_llm import Messages, Reply, RowContext, evaluate, open_model
from fwc_llm.models import Training, traits
from fwc_llm.models.baseline import TableModel
from fwc_llm.notices import RunWarning
from fwc_llm.report.formats import render
from fwc_llm.runs.plan import make_plan, rows_of
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import Task
from tests.command import read_json
from tests.models.four_members import FourMembers
from tests.refusals import refused


def test_rows_and_whole_tables_get_the_same_regression(three: Task) -> None:
    pool = three.pool()
    training = Training(features_frame(three, pool, protected=True), three.labels(pool))
    model = TableModel(training.rows, training.labels)
    rows = [values for _, values in rows_of(three.pool())]
    whole = model.probabilities(training.rows)
    np.testing.assert_allclose(
        [model.probabilities([values])[0] for values in rows], whole, atol=1e-12
    )
    assert ((whole > 0.5) == training.labels).mean() > max(
        training.labels.mean(), 1 - training.labels.mean()
    )
    assert (
        0.0
        < model.probabilities(
            [{**rows[0], "job": "a job that nobody in the pool has"}]
        )[0]
        < 1.0
    )


def test_it_reads_no_prompt(two: Task) -> None:
    baseline = open_model("baseline")
    assert (traits(baseline).reference, traits(baseline).simulated) == (True, False)
    assert not traits(open_model("gpt-4")).reference
    with refused("from a table, not from a prompt"):
        asyncio.run(baseline.ask([{"role": "user", "content": "age: 20"}]))
    call = next(make_plan(two, ["zero"], Settings(n_test=8)).calls())
    ask_row: Any = traits(baseline).ask_row
    reply, without = (
        asyncio.run(ask_row(messages, call.context)) for messages in (call.messages, [])
    )
    assert reply == without
    assert reply.text == ("yes" if reply.p_yes >= 0.5 else "no")


class Counting(FourMembers):
    """A model of rows as a user may write one; keeps what it was given."""

    reference = True

    def __init__(self) -> None:
        self.asked: list[RowContext] = []

    async def ask(self, messages: Messages) -> Reply:
        raise AssertionError("the row was there")

    async def ask_row(self, messages: Messages, asked: RowContext) -> Reply:
        self.asked.append(asked)
        return Reply("yes" if asked.values["age"] > 40 else "no")


def test_a_model_of_ones_own_is_given_the_row_and_what_it_may_learn_from(
    two: Task, out: Path
) -> None:
    model = Counting()
    result = evaluate(
        two, model, ["zero"], n_test=8, repeats=2, counterfactual=True, out=out
    )
    assert result.data["reference"]
    assert {type(one) for one in model.asked} == {RowContext}
    pool = two.pool()
    for repeat in (0, 1):
        asked = [one for one in model.asked if one.repeat == repeat]
        assert len({id(one.training()) for one in asked}) == 1  # once a repeat
        rows = asked[0].training().rows
        assert set(rows.index) == set(pool.index) - {
            one.row for one in asked
        }  # no test row is learnt from
        assert two.outcome not in rows.columns
        for one in asked:
            same = {
                name: value
                for name, value in one.values.items()
                if name not in {"group", "y"}
            }
            assert same == pool.loc[one.row, list(same)].to_dict()
        assert {one.values["group"] for one in asked if one.row == asked[0].row} == {
            "a",
            "b",
        }


def test_every_output_says_that_it_is_no_language_model(three: Task, out: Path) -> None:
    result = evaluate(three, "baseline", ["zero", "balanced"], n_test=12, out=out)
    described = read_json(out / "run.json")
    marks = [
        described[name] for name in ("reference", "simulated", "simulated_answers")
    ]
    assert [*marks, result.data["reference"]] == [True, False, False, True]
    answers = result.answers()
    assert answers["p_yes"].between(0, 1).all()
    by_arm = [
        answers[answers["arm"] == arm]["p_yes"].tolist() for arm in ("zero", "balanced")
    ]
    assert by_arm[0] == by_arm[1]  # never sees the prompt
    mark = "no language model"
    pages = [render([out], kind) for kind in ("html", "md")]
    for text in (str(result), repr(result), result._repr_html_(), *pages):
        assert mark in text.casefold()
    assert "simulated" not in str(result).casefold()


@pytest.mark.parametrize("name", ["baseline", "surrogate:rates"])
def test_options_that_only_services_take_are_named(name: str) -> None:
    said = f"{name} does not take params, max_tokens, rpm: it answers without a service"
    with pytest.warns(RunWarning, match=said):
        open_model(name, params={"top_p": 0.3}, max_tokens=5, rpm=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunWarning)
        open_model(name, logprobs=True)  # it gives P(yes) anyway
