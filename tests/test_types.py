"""What a type checker sees of the public functions: good calls pass, misspelt options do not."""

import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from fwc_llm.models.client import Client
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.registry import BUILT_IN, accepted_options
from tests.command import python
from tests.conftest import CHECKOUT

GOOD = """
import polars as pl
from openai.types.chat import ChatCompletion
from sklearn.linear_model import LogisticRegression
from fwc_llm import Client, FairCoreset, Reply, aevaluate, audit, build_prompt, evaluate
from fwc_llm import load_task, parse_answer, select_shots, tune
task = load_task("census")
shots = select_shots(task, "fwc", m=8, n_init=2, slots={("Female", "yes"): 2}, prove=True)
select_shots("census", order="random", column_weights={"age": 2.0})
result = evaluate(task, "surrogate", ("zero", shots), n_test=40, samples=1, max_cost=2)
evaluate("census", lambda messages: 0.5, m=4, seed=1, params={"top_p": 0.3}, client=Client(rpm=3))
tuned = tune("census", "surrogate", 0.1, rows=40, max_cost=2.0)
passed: bool = result.check("dp_gap > 0.1").passed
audit(result.answers(), protected="group").to_dict()
answer: str | None = parse_answer("yes", task).value
frame = pl.DataFrame({"age": [30, 40], "sex": ["F", "M"], "hired": ["yes", "no"]})
own = load_task(frame, protected="sex", outcome="hired", negative=["no"], others="no")
yes = own.labels(frame).sum()
select_shots(own, "random", 2, pool=frame)
evaluate(own, LogisticRegression(), ["zero"], progress=False)
coreset = FairCoreset(m=2, epsilon=None).fit(frame.drop("hired"))
audit(y_pred=[1, 0], y_true=[1, 1], sensitive_features=["F", "M"]).records.of("dp_gap", "answers")
def read(completion: ChatCompletion) -> list[str | None]:
    replies = completion, completion.choices[0], completion.choices[0].message, Reply("yes")
    return [parse_answer(reply, task).value for reply in replies]
async def ask(messages: object) -> str:
    return "yes"
async def service() -> str:
    build_prompt(own, {"age": 3, "sex": "F"})
    return repr(await aevaluate(own, ask, ["zero"]))
"""
BAD = [
    ("fwc_llm.Settings(speed=9)", "speed"),
    ('fwc_llm.Settings(m="many")', "m"),
    ("fwc_llm.evaluat", "evaluat"),
    ('evaluate("census", "surrogate", arm=("zero",))', "arm"),
    ('evaluate("census", "surrogate", weights="shown")', "weights"),
    ('evaluate("census", "surrogate", n_test="40")', "n_test"),
    ('select_shots("census", M=8)', "M"),
    ('select_shots("census", "fwc", order="shuffled")', "order"),
    ('select_shots("census", "fwc", slot="equal")', "slot"),
    ('tune("census", "surrogate", 0.1, max_costs=2)', "max_costs"),
    ('audit(frame, protect="sex")', "protect"),
    ('audit(frame, unread="best")', "unread"),
    ('open_model("gpt-4", rpms=3)', "rpms"),
    ('load_task(frame, protect="sex", outcome="y")', "protect"),
]


def spelled(annotation: Any) -> str:
    """A type as source text."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return repr(annotation).replace("'", '"')


def keywords_text() -> str:
    """keywords.pyi: a TypedDict for the fields of each model, and for the strategies' options."""
    strategies = dict[str, Any]()
    for name in BUILT_IN:
        for option, kind in (accepted_options(name) or {}).items():
            strategies[option] = strategies.get(option, kind) | kind
    kinds: dict[str, dict[str, Any]] = {
        f"{model.__name__}Keywords": {
            name: field.annotation for name, field in model.model_fields.items()
        }
        for model in (Settings, Client)
    }
    kinds["StrategyKeywords"] = dict(sorted(strategies.items()))
    lines = [
        "# Options as keywords, for type checkers alone: `python -m tests.test_types` writes this.",
        "import collections.abc",
        "import pathlib",
        "import typing",
    ]
    for kind, types in kinds.items():
        lines += ["", f"class {kind}(typing.TypedDict, total=False):"]
        lines += [f"    {name}: {spelled(one)}" for name, one in types.items()]
    both = "SettingsKeywords, ClientKeywords"
    lines += ["", f"class EvaluateKeywords({both}, total=False): ...", ""]
    return "\n".join(lines)


KEYWORDS = CHECKOUT / "fwc_llm" / "keywords.pyi"


def test_keywords_are_the_options() -> None:
    assert KEYWORDS.read_text() == keywords_text()


def write_calls(folder: Path) -> None:
    """Write the good calls, and the bad ones, each on a line of its own."""
    names = "audit, evaluate, load_task, open_model, select_shots, tune"
    known = f"import fwc_llm\nimport pandas as pd\nfrom fwc_llm import {names}"
    bad = [known, "frame = pd.DataFrame()", *(call for call, _ in BAD)]
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text("\n".join(bad))


def check_errors(printed: str) -> None:
    """Each bad call has its error, and nothing else has one."""
    said = re.findall(r"(\w+)\.py:(\d+)(?::\d+ -|:) error: (.*)", printed)
    places = [("bad", str(line)) for line in range(5, 5 + len(BAD))]
    assert [(file, line) for file, line, _ in said] == places, printed
    for (*_, message), (_, name) in zip(said, BAD, strict=True):
        assert f'"{name}"' in message


def test_good_calls_pass_and_bad_ones_are_refused(tmp_path: Path) -> None:
    """Of basedpyright, as pyright in its standard mode; mypy's: tests/test_snippets.py."""
    pytest.importorskip("basedpyright")
    write_calls(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    options = ("--pythonpath", sys.executable, "good.py", "bad.py")
    checked = python("-m", "basedpyright", *options, cwd=tmp_path, check=False)
    check_errors(checked.stdout)


if __name__ == "__main__":
    KEYWORDS.write_text(keywords_text())
