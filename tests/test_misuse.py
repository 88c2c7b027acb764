"""The misuses of a first day: each is an `FwcError` that says what is wrong and what to do."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fwc_llm
from fwc_llm import Client, Example, FairCoreset, FwcError, Settings, Shots, load_task
from tests.people import applicants
from tests.refusals import refused

FRAME = applicants()
TURNED = FRAME["age"][::-1]
NAMES: Any = {"protected": "sex", "outcome": "approved"}
COLUMNS: Any = FRAME[["age"]], FRAME["approved"], FRAME["sex"]


async def asks(messages: object) -> str:
    return "yes"


@cache
def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Functions, classes and methods, with arguments that pass."""
    task = load_task(FRAME, **NAMES)
    said = fwc_llm.audit(FRAME, answer="approved", protected="sex")
    fitted = FairCoreset(4, random_state=0).fit(*COLUMNS)
    shots = fwc_llm.select_shots("census", "balanced", 4)
    data = dict(zip(("X", "y", "sensitive"), COLUMNS, strict=True))
    given: dict[str, dict[str, Any]] = {
        "load_task": {"name": FRAME, **NAMES, "positive": 1},
        "select_shots": {"task": task, "strategy": "random", "m": 4},
        "build_prompt": {"task": "census", "row": load_task("census").test().iloc[0]},
        "evaluate": {"task": task, "model": asks, "arms": ["zero"], "n_test": 4},
        "aevaluate": {},
        "tune": {"task": "census", "model": "surrogate", "target_dp": 0.1},
        "audit": {"answers": FRAME, "answer": "approved", "protected": "sex"},
        "parse_answer": {"reply": "yes"},
        "load_shots": {"path": "shots.json"},
        "save_shots": {"shots": shots, "path": "shots.json", "force": True},
        "open_model": {"name": "surrogate"},
        "FunctionModel": {"function": asks},
        "Reply": {"text": "yes"},
        "Usage": {},
        "Example": {"row": "row:1", "values": {}, "label": "yes"},
        "Shots": {"strategy": "", "task": "", "fingerprint": "", "seed": 0},
        "Client": {},
        "Settings": {},
    }
    given["Shots"]["examples"] = ()
    found = {name: (getattr(fwc_llm, name), known) for name, known in given.items()}
    evaluating = found["aevaluate"][0]
    found["aevaluate"] = (lambda **k: asyncio.run(evaluating(**k)), given["evaluate"])
    found["fit"] = (lambda **k: FairCoreset(4, n_init=1).fit(**k), data)
    for method in (fitted.predict, fitted.transform, fitted.score, fitted.certify):
        found[method.__qualname__] = (method, data)
    for method, value in (
        (task.record, {"raw": FRAME.iloc[0]}),
        (task.labels, {"frame": FRAME}),
        (task.sensitive, {"frame": FRAME}),
        (task.cleaned, {"frame": FRAME}),
        (task.column, {"name": "age"}),
        (task.freeze, {"path": "task.json", "force": True}),
        (said.check, {"condition": "dp_gap > 0.1"}),
    ):
        found[method.__qualname__] = (method, value)
    return found


NONSENSE: list[Any] = [object(), FRAME.to_numpy()]
MISUSES: list[Any] = [
    *(None, ("age", 3), [], [1, "a", None], {}, {"agee": object()}, {1, 2}),
    *("", "agee", b"x", -3, 8, float("nan"), True),
    *(FRAME, FRAME[:0], FRAME["age"], LogisticRegression(), FairCoreset, asks),
    Shots("zero", "adult", "", 0, (Example("row:1", {"age": 3}, "yes"),)),
]
# What takes values of any type, or is used only with other arguments.
ANY = {
    "load_task": {"positive", "negative"},
    "Reply": {"usage", "logprobs"},
    "audit": {"negative", "refer", "key", "positive_label"},
    "Example": {"row"},
    "open_model": {"api"},
    "Shots": {"strategy", "task", "fingerprint"},
    "tune": {"display"},
}
OF_RUNS = {*Settings.model_fields, *Client.model_fields}  # which these two check
LEARNS = ("fit", "FairCoreset.")  # where scikit-learn's errors are as good


@pytest.mark.parametrize("name", calls())
def test_nothing_that_is_given_ends_in_a_bare_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function, usual = calls()[name]
    expected: Any = FwcError
    if name.startswith(LEARNS):
        expected = TypeError, ValueError
    arguments = {*signature(function).parameters, *usual} - {"options", "values", "k"}
    for argument in arguments:
        if name not in LEARNS and argument not in ANY.get(name, set()):
            for value in NONSENSE:
                with pytest.raises(expected) as caught:
                    function(**usual | {argument: value})
                assert "\n" not in str(caught.value), argument
    if "." not in name:
        with pytest.raises(expected):
            function(**usual, nonsense=1)
    assert list(tmp_path.iterdir()) == []
    if name == "tune":
        return  # minutes
    of_runs = OF_RUNS if name in ("evaluate", "aevaluate") else set()
    for argument in arguments - of_runs:
        for value in MISUSES:
            with suppress(expected):
                function(**usual | {argument: value})


REMEDIES: list[tuple[str, dict[str, Any], str]] = [
    ("load_task", {"negative": "misspelt"}, "has 2 values: .*'misspelt' is none of"),
    ("evaluate", {"on_step": asks}, "on_step is a function: give .* without async"),
    ("aevaluate", {"on_progress": asks}, "give a function without async or None"),
    ("evaluate", {"arms": []}, "no arm is named: give arms a list, for example zero"),
    ("evaluate", {"arms": MISUSES[-1:]}, "is for the task 'adult', not 'table'"),
    ("evaluate", {"params": {"a": asks}}, "params: it cannot be written as JSON"),
    ("select_shots", {"M": 4}, "no option 'M': it takes none; did you mean 'm'"),
    ("select_shots", {"pool": FRAME.replace({"age": {20: None}})}, "fill the empty ce"),
    ("select_shots", {"strategy": "kmeans", "max_iter": 0}, "max_iter=0: give a whol"),
    ("select_shots", {"strategy": "fwc", "column_weights": 3}, "weights is an int: gi"),
    ("evaluate", {"assist": True, "threshold": 0.5}, "assist takes no threshold"),
    ("evaluate", {"params": "a=1"}, "params: .* found .* give a mapping, such as"),
    ("select_shots", {"sample_weight": TURNED}, "sample_weight has another index"),
    (
        "select_shots",
        {"pool": FRAME, "candidates": TURNED > 30},
        "candidates has another index than the table",
    ),
    ("select_shots", {"pool": pd.concat([FRAME, FRAME["sex"]], axis=1)}, "'sex' twice"),
    ("parse_answer", {"words": {"yes": "ja", "no": ["JA"]}}, "they must differ"),
    ("parse_answer", {"words": {"yes": "ja", "no": 3}}, "the words are a dict: give"),
    ("audit", {"answers": None}, "there is no table: give a data frame, or give y"),
    ("audit", {"answer": None}, "no column has the answers: name that of pred"),
    ("audit", {"unknown": "n/a"}, "unknown is 'n/a': give a list of texts"),
    ("audit", {"answer": None, "p_yes": "approved", "threshold": 50}, "50 is not from"),
    ("audit", {"p_yes": "approved", "threshold": 0.5}, "leave out one of them"),
    ("audit", {"answers": FRAME.assign(label=list("abc") * 20)}, "answers: label=''"),
    ("FairCoreset.score", {"y": TURNED}, "y has another index than the table"),
    ("FairCoreset.certify", {"sensitive": TURNED}, "sensitive has another index"),
    ("fit", {"y": TURNED}, "FairCoreset: y has another index than the table: align"),
    ("fit", {"sensitive": TURNED}, "sensitive has another index than the table"),
    ("fit", {"sample_weight": TURNED}, "sample_weight has another index than the tabl"),
    ("fit", {"candidates": TURNED > 30}, "candidates has another index than the table"),
    ("fit", {"X": COLUMNS[:2]}, "FairCoreset: X is a tuple of shape.* give a table"),
    ("fit", {"X": FRAME["age"]}, r"FairCoreset: X is a Series of shap"),
]


@pytest.mark.parametrize(("name", "changes", "message"), REMEDIES)
def test_a_misuse_is_named_with_its_remedy(
    name: str, changes: dict[str, Any], message: str
) -> None:
    function, usual = calls()[name]
    with refused(message) as caught:
        function(**usual | changes)
    assert "--" not in str(caught.value)


def test_options_are_said_as_in_python() -> None:
    assert Settings(epsilon="none", base_parity="None").epsilon is None  # type: ignore[arg-type]
    assert Settings(templates="paper").templates == ("paper",)  # type: ignore[arg-type]
    for function in (fwc_llm.evaluate, fwc_llm.tune, Settings, Client):
        words = str(function.__doc__)
        assert "--" not in words
        assert "`none`" not in words
    with refused("Settings takes options by name: m, epsilon"):
        Settings(40)
    result: Any = fwc_llm.Result
    with refused(r"too many positional.* there are other"):
        result.compare(None, "zero", "fwc")
