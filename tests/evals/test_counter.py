"""The second experiment on a real model: its verdicts on known answers, and its numbers computed
again.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score

from evals.real_model.counter import draw
from evals.real_model.counter.ask import (
    ANSWERS,
    SECOND,
    ask_missing,
    calls,
    collect,
    restore,
    units,
)
from evals.real_model.counter.replay import job_of, write_journal
from evals.real_model.counter.report import NAME, PLANNED, RESULTS
from evals.real_model.counter.scores import (
    CONTRASTS,
    complete_steps,
    contrasts,
    measure,
)
from fwc_llm.models.base import Messages, Reply
from fwc_llm.runs.folder import RunFolder
from fwc_llm.tasks import load_task
from tests.command import read_json


def made(shift: dict[str, float], noise: float = 0.3) -> pd.DataFrame:
    """Answers of all arms in the first round: men's log-odds are `shift` of the arm higher."""
    rng = np.random.default_rng(0)
    tables = []
    for arm in draw.ARMS:
        rows = draw.read_rows().query("round < 2").reset_index(drop=True)
        place = rows.groupby(["set", "round"]).cumcount()
        men = place % 2
        label = place // 2 % 2
        log_odds = (
            3 * label + shift.get(arm, 2.0) * men + noise * rng.normal(size=len(rows))
        )
        tables.append(
            rows.assign(
                arm=arm,
                group=np.where(men == 1, "Male", "Female"),
                label=np.where(label == 1, "yes", "no"),
                reply=np.where(log_odds > 0, "Yes", "no"),
                p_yes=1 / (1 + np.exp(-log_odds)),
            )
        )
    return pd.concat(tables)


def verdicts(answers: pd.DataFrame) -> dict[str, str]:
    return {each["first"]: each["verdict"] for each in contrasts(measure(answers))}


def test_verdicts_on_known_answers() -> None:
    found = verdicts(made({"counter-fwc": 0.0, "counter": 4.0}))
    assert found["counter-fwc"] == "fairer at equal accuracy"
    assert found["fwc-shown"] in {"no difference that matters", "not settled"}
    worse = verdicts(made({"counter-fwc": 4.0, "counter": 0.0}))
    assert worse["counter-fwc"] == "less fair"


def test_two_sets_are_no_interval() -> None:
    few = made({"counter-fwc": 0.0}).query("set <= 2")
    assert set(verdicts(few).values()) == {"no verdict: too few sets"}


def test_a_model_that_says_yes_to_all_differs_in_nothing() -> None:
    alike = made({}).assign(reply="Yes", p_yes=1.0)
    scores = measure(alike)
    assert (scores["yes as answered"] == 1.0).all()
    assert (scores["auc"] == 0.5).all()
    assert set(verdicts(alike).values()) == {"no difference that matters"}


def test_a_step_counts_where_every_arm_is_whole() -> None:
    answers = made({})
    assert complete_steps(answers) == {
        (number, 1) for number in range(1, draw.SETS + 1)
    }
    cut = answers.iloc[:-1]
    assert complete_steps(cut) == {(number, 1) for number in range(1, draw.SETS)}


def test_the_plan_asks_equal_rows_of_all_cells(data_dir: Path) -> None:
    task = load_task(draw.TASK)
    rows = draw.read_rows()
    table = task.test().loc[rows["row"]]
    cells = pd.Series(task.sensitive(table)) + pd.Series(task.labels(table).astype(str))
    counts = cells.groupby([rows["set"], rows["round"], cells]).size()
    assert set(counts) == {draw.EACH}
    assert rows["row"].is_unique
    draw.check_different(draw.read_sets(task))
    first = next(iter(units()))
    assert [call.arm for call in calls(task, [first])] == ["zero-1"] * 40
    assert PLANNED == 7600


class Answerer:
    """Answers with one P(yes), and is killed after so many questions."""

    name, parameters = "answerer", {"of": "a test"}

    def __init__(self, p_yes: float = 0.3, killed_after: int = 10_000) -> None:
        self.p_yes, self.left, self.asked = p_yes, killed_after, list[str]()

    async def ask(self, messages: Messages) -> Reply:
        if len(self.asked) == self.left:
            raise KeyboardInterrupt
        self.asked.append(messages[-1]["content"])
        return Reply("no", finish_reason="stop", p_yes=self.p_yes)

    async def aclose(self) -> None:
        pass


def test_a_killed_process_goes_on_and_another_model_is_refused(
    data_dir: Path, tmp_path: Path
) -> None:
    planned = list(calls(load_task(draw.TASK), list(units())[:2]))
    killed = Answerer(killed_after=45)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ask_missing(killed, planned, tmp_path))
    second = Answerer()
    asyncio.run(ask_missing(second, planned, tmp_path))
    again = [killed.asked[0], killed.asked[40]]  # the first questions of both arms
    assert second.asked[:2] == again
    assert killed.asked + second.asked[2:] == [
        call.messages[-1]["content"] for call in planned
    ]
    with pytest.raises(SystemExit, match="another answer now"):
        asyncio.run(ask_missing(Answerer(p_yes=0.4), planned, tmp_path))


def recorded() -> tuple[pd.DataFrame, dict[str, Any]]:
    return pd.read_csv(ANSWERS["1.5b"]), read_json(RESULTS / f"{NAME}.json")


def test_a_journal_that_is_lost_begins_with_the_recorded_answers(
    data_dir: Path, tmp_path: Path
) -> None:
    planned = list(calls(load_task(draw.TASK), list(units())[:9]))
    restore(planned, "a model and its parameters", ANSWERS["1.5b"], tmp_path)
    collect(tmp_path, tmp_path / "answers.csv")
    collected = (tmp_path / "answers.csv").read_text()
    assert collected.count("\n") == 1 + len(planned)
    assert ANSWERS["1.5b"].read_text().startswith(collected)


def by_pandas(answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Answers at the median of the first round, and the gap of each set (rows) and arm."""
    median = answers[answers["round"] == 0].groupby(["arm", "set"])["p_yes"].median()
    scored = answers.join(median.rename("median"), on=["arm", "set"])
    scored["said"] = scored["p_yes"] > scored["median"]
    scored = scored[scored["round"] > 0]
    rates = scored.pivot_table("said", ["arm", "set"], ["group", "label"])
    return scored, (rates["Male"] - rates["Female"]).mean(axis=1).unstack("arm")


def test_the_main_numbers_computed_again_by_plain_pandas() -> None:
    answers, reported = recorded()
    assert reported["questions"] == len(answers), "run the report again"
    steps = pd.DataFrame(reported["steps"], columns=["set", "round"])
    first = steps[["set"]].drop_duplicates().assign(round=0)
    scored, gap = by_pandas(answers.merge(pd.concat([steps, first])))
    scored["right"] = scored["said"] == (scored["label"] == "yes")
    right = scored.pivot_table("right", "set", "arm")
    for (one, other), each in zip(CONTRASTS, reported["contrasts"], strict=True):
        for metric, table in (("gap", gap), ("accuracy", right)):
            differences = (table[one] - table[other]).dropna()
            assert each[metric]["value"] == pytest.approx(differences.mean())
            if len(differences) >= 3:
                test = ttest_1samp(differences, 0.0)
                ends = each[metric]["low"], each[metric]["high"], each[metric]["p"]
                assert ends == pytest.approx((*test.confidence_interval(), test.pvalue))
    areas = [
        roc_auc_score(rows["label"] == "yes", rows["p_yes"])
        for _, rows in scored[scored["arm"] == "counter-fwc"].groupby("set")
    ]
    auc = reported["arms"]["counter-fwc"]["auc"]["value"]
    assert auc == pytest.approx(np.mean(areas))


def test_the_second_model_by_plain_pandas() -> None:
    answers = pd.read_csv(ANSWERS[SECOND])
    reported = read_json(RESULTS / f"{NAME}.json")["second"]
    assert reported["questions"] == len(answers), "run the report again"
    whole = answers.groupby(["arm", "set"])["row"].transform("size") == 120
    scored, gap = by_pandas(answers[whole])
    found = ttest_1samp((gap["counter-fwc"] - gap["counter"]).dropna(), 0.0)
    assert reported["contrast"]["gap"]["p"] == pytest.approx(found.pvalue)
    assert reported["rows"] == len(scored) / 2


def test_a_replay_gives_the_same_answers(data_dir: Path, tmp_path: Path) -> None:
    answers, _ = recorded()
    of_set = answers[(answers["set"] == 1) & (answers["round"] <= 1)]
    write_journal(of_set, tmp_path)
    rows = list(draw.read_rows().query("set == 1 and round <= 1")["row"])
    result = job_of(f"replay:{tmp_path}", 1, rows).run(tmp_path / "run")
    replayed = pd.DataFrame(RunFolder(result.folder).read_answers()).astype(
        {"p_yes": float}
    )
    assert len(replayed) == len(of_set) == 7 * 40
    replayed["arm"] = replayed["arm"].str.removesuffix("-1")
    first = of_set.set_index(["arm", "row"]).sort_index()
    second = replayed.set_index(["arm", "row"]).sort_index()
    assert (first["p_yes"] == second["p_yes"]).all()
    assert (first["reply"] == second["reply"]).all()
    assert (first["label"] == second["label"]).all()
