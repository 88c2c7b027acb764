"""What a type checker sees of the public functions: good calls pass, misspelt options do not."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from fwc_llm.evaluation.evaluate import EvaluateKeywords
from fwc_llm.models.client import Client, ClientKeywords
from fwc_llm.runs.settings import Settings, SettingsKeywords
from fwc_llm.shots.registry import BUILT_IN, accepted_options
from fwc_llm.shots.select import StrategyKeywords

GOOD = """
from fwc_llm import Client, audit, evaluate, load_task, parse_answer, select_shots, tune
task = load_task("census")
shots = select_shots(task, "fwc", m=8, n_init=2, slots={("Female", "yes"): 2}, prove=True)
select_shots("census", order="random", column_weights={"age": 2.0})
result = evaluate(task, "surrogate", ("zero", shots), n_test=40, weights="hide", max_cost=2)
evaluate("census", lambda messages: 0.5, m=4, seed=1, params={"top_p": 0.3}, client=Client(rpm=3))
tuned = tune("census", "surrogate", 0.1, rows=40, max_cost=2.0)
passed: bool = result.check("dp_gap > 0.1").passed
audit(result.answers(), protected="group").to_dict()
answer: str | None = parse_answer("yes", task).value
"""
BAD = [
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
]


@pytest.mark.parametrize(
    ("keywords", "options"), [(SettingsKeywords, Settings), (ClientKeywords, Client)]
)
def test_keywords_are_the_options(keywords: Any, options: Any) -> None:
    fields = {name: field.annotation for name, field in options.model_fields.items()}
    assert get_type_hints(keywords) == fields
    assert get_type_hints(EvaluateKeywords).items() >= fields.items()


def test_keywords_are_the_strategies_options() -> None:
    options = {option for name in BUILT_IN for option in accepted_options(name) or ()}
    assert set(get_type_hints(StrategyKeywords)) == options


def test_mypy_takes_good_calls_and_refuses_bad_ones(tmp_path: Path) -> None:
    """One call of mypy for all."""
    names = "audit, evaluate, open_model, select_shots, tune"
    bad = [f"import pandas as pd\nfrom fwc_llm import {names}\nframe = pd.DataFrame()"]
    bad += [call for call, _ in BAD]
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text("\n".join(bad))
    command = [sys.executable, "-m", "mypy", "--strict", "good.py", "bad.py"]
    cache = ["--cache-dir", str(Path.cwd() / ".mypy_cache")]
    found = subprocess.run([*command, *cache], cwd=tmp_path, capture_output=True, text=True)
    lines = found.stdout.splitlines()
    assert [line for line in lines if line.startswith("good.py")] == []
    wrong = {int(number) for number in re.findall(r"^bad\.py:(\d+): error", found.stdout, re.M)}
    assert wrong == set(range(4, 4 + len(BAD))), found.stdout
    for number, (_, name) in enumerate(BAD, 4):
        message = next(line for line in lines if line.startswith(f"bad.py:{number}: error"))
        assert f'"{name}"' in message
