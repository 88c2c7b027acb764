"""What a data scientist tries who never opens the command line: notebooks, services, tests."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from openai.types.chat import ChatCompletion
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fwc_llm import (
    FwcError,
    Reply,
    aevaluate,
    audit,
    build_prompt,
    evaluate,
    load_task,
    parse_answer,
    select_shots,
)


def people(no: object = 0, yes: object = 1) -> pd.DataFrame:
    columns = {"age": range(20, 80), "sex": list("FM") * 30, "approved": [no, yes, yes, no] * 15}
    return pd.DataFrame(columns)


def completion(content: str | None, finish: str = "stop", **message: Any) -> ChatCompletion:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return ChatCompletion.model_validate(body | {"choices": [choice]})


def test_nothing_is_true_by_accident(tmp_path: Path) -> None:
    said = pd.DataFrame({"said": [1] * 200 + [0] * 200, "sex": ["M"] * 200 + ["F"] * 200})
    check = audit(said, answer="said", protected="sex").check("dp_gap > 0.1")
    assert (check.outcome, check.passed) == ("outside", False)
    result = evaluate("census", "surrogate", ("zero",), n_test=40, out=tmp_path / "run")
    for nothing, words in (
        (check, "check.passed"),
        (parse_answer("no"), "answer.value"),
        (result, r"result.check\(condition\).passed"),
    ):
        with pytest.raises(TypeError, match=f"neither true nor false.*{words}"):
            bool(nothing)


def test_a_completion_is_parsed_in_the_words_of_its_task() -> None:
    task = load_task(
        people("refused", "granted"), protected="sex", outcome="approved", words="values"
    )
    for reply in (
        "granted",
        Reply("granted"),
        completion("granted"),
        completion("granted").model_dump(),
    ):
        assert parse_answer(reply, task).value == "yes"
    assert parse_answer(completion("refused"), task).value == "no"
    assert parse_answer(completion(None, refusal="I cannot help."), task).reason == "refused"
    assert parse_answer(completion("grant", "length"), task).reason == "truncated"
    assert parse_answer(completion("granted", "content_filter"), task).reason == "filtered"
    assert parse_answer({"error": {"message": "overloaded"}}, task).reason == "error"


@pytest.mark.parametrize("reply", [None, ("yes",), 3])
def test_what_is_no_reply_is_named(reply: Any) -> None:
    with pytest.raises(FwcError, match="give a text, a Reply, or the completion"):
        parse_answer(reply)


@pytest.mark.parametrize("words", ["granted", None, {"ja": "ja", "nein": "nein"}])
def test_what_are_no_words_is_named(words: Any) -> None:
    with pytest.raises(FwcError, match=r"give a Task, or \{'yes'"):
        parse_answer("granted", words)


# --- In a running loop


def test_awaited_it_runs_in_the_callers_loop_and_blocks_nothing(tmp_path: Path) -> None:
    loops = set[int]()
    beats = 0

    async def answers(messages: Any) -> str:
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        return "yes"

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def service() -> tuple[Any, int]:
        beating = asyncio.create_task(beat())
        result = await aevaluate("census", answers, ("zero",), n_test=20, out=tmp_path / "run")
        beating.cancel()
        return result, id(asyncio.get_running_loop())

    result, loop = asyncio.run(service())
    assert result.unanswered == 0
    assert loops == {loop}
    assert beats > 20


def test_a_cancelled_run_stops_and_continues_later(tmp_path: Path) -> None:
    asked = 0

    async def answers(messages: Any) -> str:
        nonlocal asked
        asked += 1
        if asked == 5:
            running.cancel()
        await asyncio.sleep(0)
        return "yes"

    running: Any = None

    async def service() -> None:
        nonlocal running
        running = asyncio.ensure_future(
            aevaluate("census", answers, ("zero",), n_test=40, out=tmp_path / "run", concurrency=1)
        )
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(service())
    assert asked < 10
    result = evaluate("census", answers, ("zero",), n_test=40, out=tmp_path / "run", concurrency=1)
    assert result.unanswered == 0
    assert asked <= 42


# --- A classifier


@pytest.mark.parametrize("no_yes", [(0, 1), ("refused", "granted"), (False, True)])
def test_a_classifier_answers_from_columns_of_the_table(
    no_yes: tuple[Any, Any], tmp_path: Path
) -> None:
    task = load_task("census")
    pool = task.pool()
    columns = ["age", "hours-per-week", "education-num"]
    labels = np.array(no_yes, dtype=object if isinstance(no_yes[0], str) else None)[
        task.labels(pool)
    ]
    clf = make_pipeline(StandardScaler(), LogisticRegression()).fit(pool[columns], labels)
    result = evaluate(task, clf, ("zero",), n_test=60, out=tmp_path / "run")
    answers = result.answers()
    rows = task.test().loc[answers["row"]]
    expected = clf.predict_proba(rows[columns])[:, list(clf.classes_).index(no_yes[1])]
    assert answers["p_yes"].to_numpy() == pytest.approx(expected, abs=1e-6)
    assert result.data["reference"]


def test_a_classifier_that_cannot_answer_is_named(tmp_path: Path) -> None:
    task = load_task("census")
    pool = task.pool()
    labels = task.labels(pool)
    out = tmp_path / "run"
    with pytest.raises(FwcError, match=r"a LogisticRegression is not fitted.*call fit first"):
        evaluate(task, LogisticRegression(), ("zero",), n_test=20, out=out)
    codes = LogisticRegression().fit(pool[["age"]], labels + 1)
    with pytest.raises(FwcError, match=r"classes '1', '2'.*fit it on task.labels\(rows\)"):
        evaluate(task, codes, ("zero",), n_test=20, out=out)
    other = LogisticRegression().fit(pool[["age"]].rename(columns={"age": "Alter"}), labels)
    with pytest.raises(FwcError, match=r"needs the column 'Alter'; the task has .*age"):
        evaluate(task, other, ("zero",), n_test=20, out=out)


# --- Names as in fairlearn, and other expectations


def test_audit_takes_fairlearns_names_for_columns_and_values() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "said": rng.integers(0, 2, 400),
            "truth": rng.integers(0, 2, 400),
            "sex": rng.choice(["F", "M"], 400),
            "race": rng.choice(["a", "b"], 400),
        }
    )
    ours = audit(frame, answer="said", label="truth", protected=["sex", "race"]).to_dict()
    names = {"y_pred": "said", "y_true": "truth", "sensitive_features": ["sex", "race"]}
    assert audit(frame, **names).to_dict() == ours
    values = audit(
        y_pred=frame["said"].to_numpy(),
        y_true=frame["truth"].tolist(),
        sensitive_features=frame[["sex", "race"]],
    )
    assert values.to_dict()["records"] == ours["records"]
    one = audit(y_pred=frame["said"], sensitive_features=frame["sex"]).statistics
    assert {group.group for group in one.groups} == {"F", "M"}
    with pytest.raises(FwcError, match="not of one length: sex 399, answer 400"):
        audit(y_pred=frame["said"], sensitive_features=frame["sex"][1:])
    with pytest.raises(FwcError, match="give y_pred and sensitive_features"):
        audit(y_true=frame["truth"])


def test_shots_are_selected_for_a_tasks_name() -> None:
    assert select_shots("census", "balanced", 4) == select_shots(load_task("census"), "balanced", 4)


def test_a_row_among_its_own_examples_is_refused() -> None:
    task = load_task("census")
    shots = select_shots(task, "balanced", 4)
    with pytest.raises(FwcError, match="is among its own examples"):
        build_prompt(task, task.pool().loc[shots.examples[0].row], shots)
    assert build_prompt(task, task.test().iloc[0], shots)
    raw = people()
    own = load_task(raw, protected="sex", outcome="approved")
    chosen = select_shots(own, "random", 4, pool=raw)
    number = int(chosen.examples[0].row.removeprefix("row:"))
    with pytest.raises(FwcError, match="is among its own examples"):
        build_prompt(own, raw.loc[number], chosen)
