"""What a data scientist tries who never opens the command line: notebooks, services, tests."""

import asyncio
import gc
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import Generator
from openai.types.chat import ChatCompletion
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fwc_llm import (
    Reply,
    RunWarning,
    Tuned,
    aevaluate,
    audit,
    build_prompt,
    evaluate,
    load_task,
    parse_answer,
    save_shots,
    select_shots,
)
from fwc_llm.models.identity import digest_of_fitted
from tests.data.tables import small_task
from tests.people import SMALL_CENSUS, applicants, approvals
from tests.refusals import refused

zero_shot = partial(evaluate, arms=("zero",), n_test=20)


def completion(
    content: str | None, finish: str = "stop", **message: Any
) -> ChatCompletion:
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": finish, "message": said}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return ChatCompletion.model_validate(body | {"choices": [choice]})


def test_nothing_is_true_by_accident(tmp_path: Path) -> None:
    said = pd.DataFrame(
        {"said": [1] * 200 + [0] * 200, "sex": ["M"] * 200 + ["F"] * 200}
    )
    check = audit(said, answer="said", protected="sex").check("dp_gap > 0.1")
    assert (check.outcome, check.passed) == ("outside", False)
    result = zero_shot(SMALL_CENSUS, "surrogate", n_test=40, out=tmp_path / "run")
    for nothing, words in (
        (check, "check.passed"),
        (parse_answer("no"), "answer.value"),
        (result, r"result.check\(condition\).passed"),
        (result.audit(), r"audit.check\(condition\).passed"),
        (select_shots(SMALL_CENSUS, "zero"), "shots.m with 0"),
        (Tuned(tmp_path, "nothing is better", False, None, "default"), "tuned.reached"),
    ):
        with pytest.raises(TypeError, match=f"neither true nor false.*{words}"):
            bool(nothing)


def test_a_completion_is_parsed_in_the_words_of_its_task() -> None:
    task = approvals(applicants("refused", "granted"), words="values")
    for reply in (
        "granted",
        Reply("granted"),
        completion("granted"),
        completion("granted").model_dump(),
        {"answer": "granted"},
    ):
        assert parse_answer(reply, task).value == "yes"
    assert [parse_answer(said, task).reason for said in ({}, {"a": 1})] == ["other"] * 2
    (choice,) = completion("granted").choices
    for part in (choice, choice.message, choice.message.model_dump()):
        assert parse_answer(part, task).value == "yes"
    cut = completion("grant", "length").choices[0]
    assert parse_answer(cut, task).reason == "truncated"
    assert parse_answer(completion("refused"), task).value == "no"
    assert (
        parse_answer(completion(None, refusal="I cannot help."), task).reason
        == "refused"
    )
    assert parse_answer(completion("grant", "length"), task).reason == "truncated"
    assert (
        parse_answer(completion("granted", "content_filter"), task).reason == "filtered"
    )
    for failed in (
        {"error": {"message": "overloaded"}},
        {"message": "overloaded", "code": 503},
    ):
        assert parse_answer(failed, task).reason == "error"


# --- In a running loop


def test_awaited_it_runs_in_the_callers_loop_and_blocks_nothing(out: Path) -> None:
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
        result = await aevaluate(SMALL_CENSUS, answers, ("zero",), n_test=20, out=out)
        beating.cancel()
        return result, id(asyncio.get_running_loop())

    result, loop = asyncio.run(service())
    assert result.unanswered == 0
    assert loops == {loop}
    assert beats > 20


def test_a_cancelled_run_stops_and_continues_later(out: Path) -> None:
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
            aevaluate(
                SMALL_CENSUS, answers, ("zero",), n_test=40, out=out, concurrency=1
            )
        )
        with pytest.raises(asyncio.CancelledError):
            await running

    with warnings.catch_warnings(record=True) as caught:
        asyncio.run(service())
        gc.collect()
    assert "never awaited" not in " ".join(str(found.message) for found in caught)
    assert asked < 10
    result = zero_shot(SMALL_CENSUS, answers, n_test=40, out=out, concurrency=1)
    assert result.unanswered == 0
    assert asked <= 42


# --- A classifier


@pytest.mark.parametrize("no_yes", [(0, 1), ("refused", "granted"), (False, True)])
def test_a_classifier_answers_from_columns_of_the_table(
    no_yes: tuple[Any, Any], out: Path
) -> None:
    task = SMALL_CENSUS
    pool = task.pool()
    columns = ["age", "hours-per-week", "education-num"]
    labels = np.array(no_yes, dtype=object if isinstance(no_yes[0], str) else None)[
        task.labels(pool)
    ]
    clf = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        pool[columns], labels
    )
    result = zero_shot(task, clf, n_test=60, out=out)
    answers = result.answers()
    rows = task.test().loc[answers["row"]]
    expected = clf.predict_proba(rows[columns])[:, list(clf.classes_).index(no_yes[1])]
    assert answers["p_yes"].to_numpy() == pytest.approx(expected, abs=1e-6)
    assert result.data["reference"]


def messy() -> pd.DataFrame:
    """Cells that a task's table has in another form: booleans, spaces, decimals."""
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(18, 70, 200),
        "member": rng.integers(0, 2, 200).astype(bool),
        "job": rng.choice([" clerk", "nurse ", "none"], 200),
        "debt": rng.normal(0, 1e4, 200),
        "sex": rng.choice(["F ", "M"], 200),
    }
    frame = pd.DataFrame(columns)
    return frame.assign(approved=(frame["member"] ^ (frame["age"] > 40)).astype(int))


def fitted(frame: Any, labels: Any) -> Any:
    words = make_column_transformer(
        (OneHotEncoder(), ["member", "job", "sex"]), remainder="passthrough"
    )
    return make_pipeline(words, LogisticRegression(max_iter=5000)).fit(frame, labels)


@pytest.mark.parametrize(
    "form",
    [
        lambda frame: frame,
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        pl.from_pandas,
    ],
    ids=["numpy", "Arrow", "Polars"],
)
def test_a_classifier_gets_the_rows_of_the_frame_as_they_are(
    form: Any, out: Path
) -> None:
    raw = messy()
    frame = form(raw)
    task = approvals(frame)
    features = [name for name in raw if name != "approved"]
    clf = fitted(frame[features], raw["approved"])
    answers = zero_shot(
        task, clf, n_test=40, base_parity=None, counterfactual=True, out=out
    ).answers()
    places = answers["row"].str.removeprefix("row:").astype(int)
    other = raw.iloc[places].reset_index(drop=True)
    changed = (answers["variant"] != "").to_numpy()
    assert changed.sum() == 40
    other.loc[changed, "sex"] = other["sex"].map({"F ": "M", "M": "F "})
    expected = clf.predict_proba(form(other)[features])[:, 1]
    assert answers["p_yes"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_the_task_decides_which_class_means_yes(tmp_path: Path) -> None:
    raw = messy()
    features = raw.drop(columns="approved")
    denied = approvals(raw, positive=0)
    inverse = raw.assign(approved=np.where(raw["approved"], "yes", "no"))
    inverted = approvals(inverse, positive="no")
    for task, frame, message in (
        (denied, raw, r"classes 0, 1.* not sure which means yes.* on the words np"),
        (inverted, inverse, r"classes 'no', 'yes'.* on the words np.*granted"),
        (
            inverted,
            inverse.assign(approved=raw["approved"]),
            r"classes 0, 1.* on the words np.*granted",
        ),
    ):
        with refused(message):
            zero_shot(task, fitted(features, frame["approved"]))
    codes = raw.assign(approved=raw["approved"] + 1)
    others = np.where(inverted.labels(inverse), "granted", "refused")
    words = np.where(denied.labels(raw), "yes", "no")
    for name, task, labels, yes in (
        ("words", denied, words, 1),
        ("others", inverted, others, 0),
        ("codes", approvals(codes, positive=1), codes["approved"], 0),
    ):
        clf = fitted(features, labels)
        run = zero_shot(task, clf, base_parity=None, out=tmp_path / name)
        answers = run.answers()
        places = answers["row"].str.removeprefix("row:").astype(int)
        expected = clf.predict_proba(features.iloc[places])[:, yes]
        assert answers["p_yes"].to_numpy() == pytest.approx(expected, abs=1e-6)


def test_a_classifier_that_cannot_answer_is_named(out: Path) -> None:
    task = SMALL_CENSUS
    pool = task.pool()
    labels = task.labels(pool)
    with refused(r"a LogisticRegression is not fitted.*call fit first"):
        zero_shot(task, LogisticRegression(), out=out)
    codes = LogisticRegression().fit(pool[["age"]], labels + 1)
    with refused(r"classes 1, 2.*fit it on the words .*task.labels"):
        zero_shot(task, codes, out=out)
    unnamed = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        pool[["age"]].values, labels
    )
    with refused(r"a Pipeline was fitted on an array.*fit it on a data fram"):
        zero_shot(task, unnamed, out=out)
    other = LogisticRegression().fit(
        pool[["age"]].rename(columns={"age": "Alter"}), labels
    )
    with refused(r"needs the column 'Alter'; the task has .*age"):
        zero_shot(task, other, out=out)


@dataclass
class Gives:
    """A classifier with one result."""

    found: Any

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([[0.5, np.nan]], "12 times: it returned nan, which is not a probability"),
        ([[20, 80]], "it returned 80, which is not a probability"),
        (np.full((3, 2), 0.5), r"a ndarray of shape \(3, 2\) for one row"),
        (pd.DataFrame([[0.2, 0.8]]), r"a DataFrame of shape \(1, 2\).*give an array"),
        (None, r"nothing .* of shape \(\) for one row: give an array"),
    ],
)
def test_what_is_no_probability_of_a_row_is_no_answer(
    found: Any, message: str, out: Path
) -> None:
    with refused(message):
        zero_shot(SMALL_CENSUS, Gives(found), out=out)


def test_a_search_is_the_same_model_in_another_process(tmp_path: Path) -> None:
    task = SMALL_CENSUS
    pool = task.pool()
    search = GridSearchCV(LogisticRegression(), {"C": [1, 2]})
    search.fit(pool[["age"]], task.labels(pool))
    assert zero_shot(task, search, out=tmp_path / "run").arms
    (tmp_path / "search").write_bytes(pickle.dumps(search))
    code = "digest_of_fitted(pickle.loads(pathlib.Path('search').read_bytes()))"
    modules = (
        "import pathlib, pickle; from fwc_llm.models.identity import digest_of_fitted"
    )
    command = [sys.executable, "-c", f"{modules}; print({code})"]
    assert subprocess.check_output(command, cwd=tmp_path, text=True).split() == [
        digest_of_fitted(search)
    ]


@dataclass
class Rule:
    """A rule of somebody's own, which has no classes."""

    columns: int

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        p = rows[["hours-per-week"]].to_numpy() / 100
        return np.hstack([1 - p] * (self.columns - 1) + [p])


def test_without_classes_the_last_column_is_yes(tmp_path: Path) -> None:
    task = SMALL_CENSUS
    for columns in (1, 2):
        answers = zero_shot(task, Rule(columns), out=tmp_path / f"{columns}").answers()
        rows = task.test().loc[answers["row"]]
        assert (answers["p_yes"] * 100).tolist() == pytest.approx(
            rows["hours-per-week"]
        )
    with refused(r"Rule gave a ndarray of shape \(1, 3\)"):
        zero_shot(task, Rule(3), out=tmp_path / "3")


# --- Names as in fairlearn, and other expectations


def test_audit_takes_fairlearns_names(rng: Generator) -> None:
    answers = {"said": rng.integers(0, 2, 400), "truth": rng.integers(0, 2, 400)}
    people = {"sex": rng.choice(["F", "M"], 400), "race": rng.choice(["a", "b"], 400)}
    frame = pd.DataFrame(answers | people)
    groups = frame[["sex", "race"]]
    ours = audit(frame, answer="said", label="truth", protected=["sex", "race"])
    for form in (pd.Series, pd.Series.to_numpy, pd.Series.tolist):
        said, truth = form(frame["said"]), form(frame["truth"])
        values = audit(y_pred=said, y_true=truth, sensitive_features=groups)
        assert values.to_dict()["records"] == ours.to_dict()["records"]
    one = audit(y_pred=frame["said"], sensitive_features=frame["sex"]).statistics
    assert {group.group for group in one.groups} == {"F", "M"}
    shares = {"y_pred": np.round(rng.random(400), 2), "y_true": frame["truth"]}
    with refused("or name probabilities: p_yes='y_pred'"):
        audit(**shares, sensitive_features=groups)
    remedied = audit(**shares, sensitive_features=groups, p_yes="y_pred").statistics
    yes = (shares["y_pred"] >= 0.5) == frame["truth"]
    assert remedied.of("accuracy", "answers").value == pytest.approx(yes.mean())
    index = "has another index than the table: align"
    for wrong, message in (
        ({"y_true": frame["truth"][::-1]}, f"y_true {index}"),
        (
            {"y_true": frame["truth"][:9]},
            r"y_true has the shape \(9,\): give 400 values",
        ),
        ({"sensitive_features": frame["sex"][::-1]}, f"sex {index}"),
        ({"y_pred": None}, "give y_pred and sensitive_features"),
        ({"answers": frame}, "in the place of a data frame"),
    ):
        given = {"y_pred": frame["said"], "sensitive_features": frame["sex"]} | wrong
        with refused(message):
            audit(**given)
    with refused(r"audit: too many positional .* are answers, an"):
        audit(frame["truth"], frame["said"])  # type: ignore[misc]


def test_a_row_among_its_own_examples_is_refused() -> None:
    task = SMALL_CENSUS
    shots = select_shots(task, "balanced", 4)
    example = task.pool().loc[shots.examples[0].row]
    assert build_prompt(task, task.test().iloc[0], shots)
    raw = applicants()
    own = approvals(raw)
    chosen = select_shots(own, "random", 4, pool=raw)
    number = int(chosen.examples[0].row.removeprefix("row:"))
    for of, row, examples in (
        (task, example, shots),
        (task, example.to_dict(), shots),
        (task, task.record(example), shots),
        (task, example.rename(0), shots),
        (own, raw.loc[number], chosen),
        (own, raw.loc[number].to_dict(), chosen),
        (own, raw.set_axis(raw.index + 1).loc[number + 1], chosen),
    ):
        with refused(f"among its own examples, as '{examples.examples[0].row}"):
            build_prompt(of, row, examples)


def test_examples_and_records_of_another_frame_are_refused(tmp_path: Path) -> None:
    first, second = applicants(), applicants().assign(age=range(30, 90))
    one, other = (approvals(frame) for frame in (first, second))
    shots = select_shots(one, "random", 4)
    message = r"from another frame.*row:\d+' differs in age.*=True"
    with refused(message):
        build_prompt(other, second.iloc[0], shots)
    with refused(message):
        evaluate(other, lambda _: "yes", [shots], n_test=20, base_parity=None)
    assert build_prompt(other, {"age": 31, "sex": "F"}, shots, allow_changed_data=True)
    for use in (
        lambda record: build_prompt(other, record),
        lambda record: select_shots(other, "nearest", 4, query=record),
    ):
        with refused("of another table of the task 'table'"):
            use(one.record(first.iloc[0]))
    other.freeze(tmp_path / "frozen.json")
    frozen = load_task(tmp_path / "frozen.json")
    assert build_prompt(frozen, other.record(second.iloc[0]))
    with refused(r"another frame.*its rows are not here"):
        build_prompt(frozen, {"age": 31, "sex": "F"}, shots)


def test_files_are_overwritten_only_by_force(tmp_path: Path) -> None:
    task = SMALL_CENSUS
    result = zero_shot(task, "surrogate", out=tmp_path / "run")
    shots = select_shots(task, "zero")
    for write in (
        lambda **force: save_shots(shots, tmp_path / "shots.json", **force),
        lambda **force: task.freeze(tmp_path / "task.json", **force),
        lambda **force: result.report(tmp_path / "report.md", **force),
    ):
        write()
        with refused(r"exists already.*force=True"):
            write()
        write(force=True)
    assert result.report() == result.report()  # the run's own page


@pytest.mark.parametrize("positive", ["no", "yes"])
def test_a_frame_is_read_alike_with_and_without_its_index(positive: str) -> None:
    raw = applicants("yes", "no")
    task = approvals(raw, positive=positive)
    pool = task.pool()
    expected = (raw["approved"] == positive).astype(int).tolist()
    for frame in (
        pool,
        raw,
        raw.set_axis(pool.index),
        pool.reset_index(drop=True),
        pd.DataFrame(pool.to_dict("list")),
        pool.merge(pd.DataFrame({"sex": ["F", "M"], "more": [1, 2]})),
        pl.from_pandas(pool),
    ):
        assert task.labels(frame).tolist() == expected
        assert task.labels(task.cleaned(frame)[0]).tolist() == expected


def test_clean_rows_are_known_by_their_index() -> None:
    raw = applicants("refused", "granted")
    task = approvals(raw, positive="granted")
    inverse = approvals(raw, positive="refused")
    pool = inverse.pool()
    for rows, message in (
        (pool, "is not its answer in this task"),
        (pool.reset_index(drop=True), r"neither yes nor no.*known by their index"),
        (pl.from_pandas(pool), r"neither yes nor no.*known by their index"),
    ):
        for use in (
            task.labels,
            task.cleaned,
            task.cells_of,
            lambda rows: select_shots(task, "balanced", 4, pool=rows),
        ):
            with refused(message):
                use(rows)
    mixed = raw.sample(frac=1, random_state=1)
    for rows, of in (
        (raw, raw),
        (pl.from_pandas(raw), raw),
        (task.pool(), raw),
        (mixed, mixed),
        (mixed.reset_index(drop=True), mixed),
        (raw.set_axis([f"person {k}" for k in raw.index]), raw),
    ):
        expected = (of["approved"] == "granted").to_numpy()
        clean, _ = task.cleaned(rows)
        for frame in (rows, clean, clean.reset_index(drop=True)):
            assert (task.labels(frame) == expected).all()
        assert select_shots(task, "balanced", 4, pool=rows).m == 4
        with refused():
            inverse.labels(clean)


def test_rows_of_a_frame_have_the_ids_of_the_table_only_if_they_are_its_rows() -> None:
    raw = applicants("refused", "granted")
    task = approvals(raw, positive="granted", question="Granted?")
    some = pl.from_pandas(raw).filter(pl.col("age") > 40)
    chosen = select_shots(task, "balanced", 4, pool=some)
    assert chosen.examples[0].row.startswith("given:")
    shown = {example.values["age"] for example in chosen.examples}
    for _, row in raw.iterrows():
        if row["age"] in shown:
            with refused("among its own examples"):
                build_prompt(task, row, chosen)
        else:
            assert build_prompt(task, row, chosen)
    part = raw.iloc[21:]
    ids = {
        example.row for example in select_shots(task, "random", 4, pool=part).examples
    }
    assert ids <= {f"row:{k}" for k in part.index}
    for wrong in (np.nan, "forty"):
        with refused(r"'age'(: the cell has no value| is not a number)"):
            select_shots(task, "random", 4, pool=task.pool().assign(age=wrong))


@pytest.mark.parametrize("levels", ['f = "m", m = "f"', 'f = "M ", m = "other"'])
def test_a_level_that_may_be_another_one_is_refused(
    tmp_path: Path, levels: str
) -> None:
    """Cells of a frame would have two meanings; with a name of its own, a level has one."""
    csv = "x,colour,sex,y\n1,red,f,yes\n2,blue,m,no\n3,red,f,no\n4,green,m,yes\n"
    with refused(r"turns into another.*name of its own"):
        small_task(tmp_path, csv, protected=f"map = {{ {levels} }}")
    named = f'name = "gender"\nmap = {{ {levels} }}'
    task = small_task(tmp_path, csv, protected=named)
    raw = pd.read_csv(tmp_path / "data.csv")
    assert task.sensitive(raw).tolist() == task.sensitive(task.pool()).tolist()


def test_groups_of_a_pool_are_spelled_as_the_task_spells_them() -> None:
    task = approvals(applicants())
    pool = task.pool()
    lower = pool.assign(sex=pool["sex"].str.lower())
    shots = select_shots(task, "random", 4, pool=lower)
    assert shots.examples == select_shots(task, "random", 4, pool=pool).examples


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
@pytest.mark.parametrize("kind", ["int64", "bool", "str"])
def test_columns_of_any_dtype_are_read(backend: Any, kind: str) -> None:
    frame = (
        applicants().astype({"approved": kind}).convert_dtypes(dtype_backend=backend)
    )
    task = approvals(frame)
    assert task.labels(frame).tolist() == applicants()["approved"].tolist()
    assert task.sensitive(frame).tolist() == applicants()["sex"].tolist()
    assert select_shots(task, "balanced", 4, pool=frame).m == 4
    assert build_prompt(task, frame.iloc[0])


def test_a_row_is_an_example_only_if_its_id_and_its_cells_are() -> None:
    alike = pd.concat(
        [applicants(), applicants()], ignore_index=True
    )  # row 60 + k has the cells of row k
    task = approvals(alike)
    shots = select_shots(task, "random", 4, candidates=np.arange(120) < 60)
    number = int(shots.examples[0].row.removeprefix("row:"))
    assert build_prompt(
        task, alike.loc[number + 60], shots
    )  # somebody else, who is alike
    other = alike.loc[number].copy()
    other["age"] = 79  # of another table with the same ids
    assert build_prompt(task, other, shots)
    with refused("among its own examples"):
        build_prompt(task, alike.loc[number], shots)


def test_yes_and_no_are_said_for_a_frame_as_for_an_audit() -> None:
    three = applicants("refused", "granted")
    three.loc[:8, "approved"] = "pending"
    with refused(r"pending.*others='no'.*others='drop'"):
        approvals(three)
    with refused("name positive and negative"):
        approvals(three, words="values", positive="granted", others="no")
    task = approvals(
        three, words="values", positive="granted", negative="refused", others="drop"
    )
    assert task.spellings["no"][0] == "refused"
    assert len(task.pool()) == 51
    of_age = load_task(
        three, protected="sex", outcome="age", above=40, words={"yes": "a", "no": "b"}
    )
    assert of_age.labels(three).tolist() == (three["age"] > 40).astype(int).tolist()


@pytest.mark.parametrize(("no", "yes"), [(False, True), ("refused", "granted")])
def test_words_of_an_outcome_are_no_other_language(
    no: object, yes: object, tmp_path: Path
) -> None:
    task = approvals(applicants(no, yes))
    assert str(yes).lower() in task.spellings["yes"]
    with warnings.catch_warnings(record=True) as caught:
        zero_shot(task, lambda _: "yes", base_parity=None, out=tmp_path / "run")
    assert "are also read as" not in " ".join(
        str(warning.message) for warning in caught
    )
    with pytest.warns(
        RunWarning, match="the question is not English: ja and nein are also read"
    ):
        zero_shot(
            approvals(applicants(no, yes), question="Wird er das?"),
            lambda _: "yes",
            base_parity=None,
            out=tmp_path / "german",
        )


def test_a_number_that_no_record_has_is_named() -> None:
    frame = applicants().assign(group=list("FM") * 30, answer=[0, 1, 1, 0] * 15)
    records = audit(frame, label=None).records
    assert records.of("dp_gap", "answers").known
    for look_up, message in (
        (
            lambda: records.of("dp_gapp", "answers"),
            "the metric 'dp_gapp'; did you mean 'dp_gap'",
        ),
        (
            lambda: records.of("dp_gap"),
            "the arm ''; there are answers|all of metric 'dp_gap'",
        ),
        (
            lambda: records.where(metrics="dp_gap"),
            "no column 'metrics'; did you mean 'metric'",
        ),
    ):
        with refused(message):
            look_up()
