"""The public face: what `from fwc_llm import …` gives, when it is loaded, and as which types."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fwc_llm

CHECKOUT = Path(__file__).resolve().parent.parent
USE = """
from pathlib import Path
import fwc_llm
from fwc_llm import (
    Client, Example, FairCoreset, FwcError, Message, Model, Reply, Request, Result, Settings, Shots, Task,
    build_prompt, evaluate, fair_transport, load_shots, load_task, open_model, save_shots, select_shots,
    strategies, strategy,
)
from collections.abc import Mapping, Sequence

class Mine:
    name = "mine"
    parameters: Mapping[str, object] = {}
    async def ask(self, messages: Sequence[Message]) -> Reply:
        return Reply("yes")
    async def aclose(self) -> None: ...

@strategy(per_row=False, size=3)
def first(request: Request, size: int) -> Shots:
    return select_shots(request.task, "random", m=size)

task = load_task("census")
reveal_type(task)
shots = select_shots(task, "fwc", m=16, progress=False)
reveal_type(shots)
reveal_type(shots.to_frame())
reveal_type(shots.examples[0])
reveal_type(build_prompt(task, {"age": 3}, shots))
settings, client = Settings(m=8), Client(base_url="http://127.0.0.1:1/v1")
result = evaluate(task, "my-model", arms=("zero", shots), settings=settings, client=client, seed=3)
reveal_type(result)
reveal_type(result.report())
reveal_type(result.compare(Path("run")))
reveal_type(open_model("gpt-4", max_tokens=3))
model: Model = Mine()
evaluate(task, model)
try:
    evaluate(task, model)
except FwcError as error:
    reveal_type(error.result)
reveal_type(FairCoreset(m=3).fit([[1.0]], [1], [0]))
reveal_type(fair_transport([[1.0]], 1, 1, [1.0], None))
reveal_type(load_shots("x.json"))
reveal_type(strategies())
reveal_type(first)
Settings(speed=9)
Settings(m="many")
fwc_llm.evaluat
"""
REVEALED = [
    "fwc_llm.tasks.Task",
    "fwc_llm.shots.base.Shots",
    "pandas.core.frame.DataFrame",
    "fwc_llm.shots.base.Example",
    "fwc_llm.models.base.Message",
    "fwc_llm.evaluation.result.Result",
    "pathlib.Path",
    "fwc_llm.evaluation.result.RunComparison",
    "fwc_llm.models.base.Model",
    "fwc_llm.errors.Scored | None",
    "fwc_llm.coreset.estimator.FairCoreset",
    "fwc_llm.coreset.transport.fair.Transport",
    "fwc_llm.shots.base.Shots",
    "tuple[str, ...]",
    "def (fwc_llm.shots.base.Request) -> fwc_llm.shots.base.Shots",
]


def names_for_type_checkers() -> set[str]:
    """The names that the package imports for type checkers."""
    tree = ast.parse((CHECKOUT / "fwc_llm" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {alias.asname or alias.name for node in block.body for alias in node.names}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", fwc_llm.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fwc_llm, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    assert names_for_type_checkers() == set(fwc_llm.__all__)
    assert dir(fwc_llm) == sorted(fwc_llm.__all__)
    assert fwc_llm.__all__ == sorted(fwc_llm.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="evaluat"):
        fwc_llm.evaluat  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_a_type_checker_knows_every_type(tmp_path: Path) -> None:
    program = tmp_path / "use.py"
    program.write_text(USE, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(program)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    lines = [line.partition("use.py:")[2] for line in done.stdout.splitlines() if "use.py:" in line]
    revealed = [line.partition('is "')[2].rstrip('"') for line in lines if "Revealed type" in line]
    assert not [text for text in revealed if "Any" in text]
    for text, words in zip(revealed, REVEALED, strict=True):
        assert words in text.replace("builtins.", "")
    errors = [line for line in lines if " error: " in line]
    assert len(errors) == 3, done.stdout
    for error, words in zip(errors, ("speed", 'expected "int"', "evaluat"), strict=True):
        assert words in error
