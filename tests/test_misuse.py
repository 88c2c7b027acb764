"""The misuses of a first day: each is an `FwcError` that says what is wrong and what to do."""

import asyncio
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fwc_llm import (
    Client,
    Example,
    FairCoreset,
    FunctionModel,
    FwcError,
    Reply,
    Settings,
    Shots,
    Task,
    aevaluate,
    audit,
    build_prompt,
    evaluate,
    load_shots,
    load_task,
    open_model,
    parse_answer,
    save_shots,
    select_shots,
    tune,
)

FRAME = pd.DataFrame(
    {"age": [*range(20, 50)] * 2, "sex": list("FM") * 30, "approved": [0, 1, 1, 0] * 15}
)
NAMES: Any = {"protected": "sex", "outcome": "approved"}
SAID: Any = {"answer": "approved", "protected": "sex"}
Call = Callable[[Any], object]
MISUSES: list[tuple[Call, str]] = [
    (
        lambda at: load_task(at.nothing),
        "a table is a data frame .* not builtins.NoneType",
    ),
    (lambda at: load_task(("adult",)), "a table is a data frame .* not builtins.tuple"),
    (lambda at: load_task(FRAME[:0], **NAMES), "the table has no rows"),
    (
        lambda at: load_task(FRAME, protected="sexx", outcome="approved"),
        "did you mean 'sex'",
    ),
    (
        lambda at: load_task(FRAME, protected=FRAME["sex"], outcome="approved"),
        "a Series is no name of a column",
    ),
    (lambda at: load_task(FRAME, protected=[]), "outcome=….; there are age, sex, appr"),
    (lambda at: load_task(FRAME, protect="sex"), "load_task: .*'protect'; there are n"),
    (lambda at: load_task("census", protected=at.number), "give a name, or a list of"),
    (lambda at: load_task("adultt"), "did you mean 'adult'"),
    (
        lambda at: load_task(FRAME, **NAMES, words=at.word),
        "load_task: words is 'fwc': give a mapping or 'values' or None",
    ),
    (
        lambda at: evaluate(at.nothing, "surrogate"),
        "the task is nothing .*census.*load_task",
    ),
    (lambda at: evaluate(at.frame, "surrogate"), "the task is a DataFrame.*load_task"),
    (lambda at: evaluate("census", at.nothing), "the model is nothing .*: give a name"),
    (
        lambda at: evaluate("census", LogisticRegression()),
        "is not fitted.*call fit first",
    ),
    (
        lambda at: evaluate("census", "surrogate", "zero"),
        "the arms are the text 'zero'",
    ),
    (
        lambda at: evaluate("census", "surrogate", []),
        "no arm is named: give arms a list, for example zero and fwc",
    ),
    (
        lambda at: evaluate("census", "surrogate", at.shots),
        "arms is a Shots: give a list",
    ),
    (
        lambda at: evaluate("census", "surrogate", (at.nothing,)),
        "an arm is nothing .*a strategy",
    ),
    (
        lambda at: evaluate("census", "surrogate", ("blanced",)),
        "did you mean 'balanced'",
    ),
    (
        lambda at: evaluate(at.task, lambda _: "yes", (at.shots,)),
        "is for the task 'census', not 'table'",
    ),
    (
        lambda at: evaluate("census", "surrogate", settings=at.settings),
        r"give Settings\(",
    ),
    (
        lambda at: evaluate("census", "surrogate", M=3),
        "no option .M.; did you mean 'm'",
    ),
    (lambda at: select_shots(at.nothing), "the task is nothing"),
    (
        lambda at: select_shots("census", at.number),
        r"strategy is an int: give a name \(zero, ",
    ),
    (
        lambda at: select_shots(at.task, "balanced", M=4),
        "no option 'M': it takes none; did you mean 'm'",
    ),
    (
        lambda at: select_shots(
            at.task, "random", pool=FRAME.replace({"age": {20: at.nothing}})
        ),
        "fill the empty cells, or leave their rows out$",
    ),
    (
        lambda at: select_shots(at.task, "random", 4, pool=at.frame[["age"]]),
        "there is no column",
    ),
    (
        lambda at: select_shots(at.task, "random", 4, pool=at.frame[:0]),
        "pool: the data frame has no rows",
    ),
    (lambda at: build_prompt(at.nothing, {}), "the task is nothing"),
    (lambda at: build_prompt(at.task, {}), "the row has no cells: it needs age, sex"),
    (lambda at: build_prompt(at.task), "build_prompt: missing .* are task, row, shots"),
    (lambda at: build_prompt("census", at.row, template=at.number), "name one .*paper"),
    (lambda at: build_prompt("census", at.frame), "a row is a mapping or Series"),
    (lambda at: build_prompt("census", {"age": 3}), "lacks the attribute 'workclass'"),
    (
        lambda at: build_prompt("census", at.row, at.word),
        "the examples is a str: give Shots",
    ),
    (lambda at: audit(at.nothing), "a table is a data frame"),
    (
        lambda at: audit(FRAME, answer="aproved", protected="sex"),
        "did you mean 'approved'",
    ),
    (
        lambda at: audit(FRAME, **SAID).check(at.nothing),
        'condition is nothing .*"dp_gap > 0.1"',
    ),
    (
        lambda at: audit(FRAME, **SAID).check("dpp > 0.1"),
        "'dpp' is not a metric; did you mean 'dp_gap'",
    ),
    (lambda at: load_shots(at.nothing), "the shots file is nothing"),
    (
        lambda at: save_shots(at.nothing, "x.json"),
        "give Shots, as select_shots returns",
    ),
    (lambda at: save_shots(at.shots, at.nothing), "the file to write is nothing"),
    (lambda at: at.task.freeze(at.nothing), "the file to write is nothing"),
    (lambda at: open_model("surrogate", at.number), "client is an int: give Client"),
    (lambda at: at.task.column("agee"), "did you mean 'age'"),
    (lambda at: open_model(at.nothing), "the model is nothing .*: give its name"),
    (lambda at: parse_answer("no") == at.word, "no text like 'fwc': compare answer.va"),
    (lambda at: parse_answer(at.coroutine), "the reply is a coroutine: give a text"),
    (lambda at: asyncio.run(aevaluate(at.nothing, "surrogate")), "the task is nothing"),
    (lambda at: FairCoreset(4).predict([[1.0]]), "FairCoreset is not fitted: call fit"),
    (
        lambda at: FairCoreset(4).fit(FRAME["age"]),
        r"FairCoreset: X is a Series of shap",
    ),
    (
        lambda at: FairCoreset(4).fit((1, 2), [0, 1], [0, 1]),
        r"FairCoreset: X is a tuple of shape \(2,\): give a table",
    ),
]


# Calls that pass, to whose arguments nonsense is given, one after the other.
CALLS: list[tuple[Callable[..., object], dict[str, Any]]] = [
    (load_task, {"name": FRAME, **NAMES, "positive": 1}),
    (select_shots, {"task": "census", "strategy": "fwc"}),
    (build_prompt, {"task": "census", "row": {}}),
    (evaluate, {"task": "census", "model": "surrogate"}),
    (tune, {"task": "census", "model": "surrogate", "target_dp": 0.1}),
    (audit, {"answers": FRAME, **SAID}),
    (load_shots, {"path": "shots.json"}),
    (save_shots, {"shots": Shots("zero", "census", "", 0, ()), "path": "shots.json"}),
    (open_model, {"name": "surrogate"}),
    (FunctionModel, {"function": print}),
    (Reply, {"text": "yes"}),
    (Example, {"row": "row:1", "values": {}, "label": "yes"}),
    (Client, {}),
    (Settings, {}),
]
# What takes values of any type, or is used only with other arguments.
ANY = {"load_task": {"positive", "negative"}, "Reply": {"usage", "logprobs"}}
ANY |= {
    "audit": {"negative", "key"},
    "Example": {"row"},
    "open_model": {"api"},
    "tune": {"display"},
}


@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_nonsense_for_any_argument_is_refused(
    function: Callable[..., object],
    arguments: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = signature(function).parameters
    names = taken.keys() - ANY.get(function.__name__, set()) - {"options", "values"}
    assert names
    for name in names:
        for nonsense in (object(), FRAME.to_numpy()):
            with pytest.raises(FwcError) as caught:
                function(**arguments | {name: nonsense})
            assert "\n" not in str(caught.value), name
    with pytest.raises(FwcError, match="nonsense"):
        function(**arguments, nonsense=1)
    assert list(tmp_path.iterdir()) == []


class At:
    """Values of every wrong kind; `Any`, so that type checkers let the misuses through."""

    nothing: Any = None
    number: Any = 8
    word: Any = "fwc"
    frame: Any = FRAME
    settings: Any = {"m": 4}  # noqa: RUF012
    task: Task
    shots: Any
    row: Any

    @property
    def coroutine(self) -> Any:
        waiting = asyncio.sleep(0)
        waiting.close()
        return waiting


@pytest.fixture(scope="module")
def at() -> At:
    values = At()
    census = load_task("census")
    values.task = load_task(FRAME, **NAMES)
    values.shots = select_shots(census, "balanced", 4)
    values.row = census.test().iloc[0]
    assert isinstance(values.shots, Shots)
    return values


@pytest.mark.parametrize(("call", "message"), MISUSES, ids=range(len(MISUSES)))
def test_a_misuse_is_named_with_its_remedy(
    call: Call, message: str, at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FwcError, match=message) as caught:
        call(at)
    assert "--" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []  # nothing was written
