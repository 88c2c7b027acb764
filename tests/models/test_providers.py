"""Functions named by their module."""

import sys
from pathlib import Path

import pytest

from fwc_llm import FunctionModel
from fwc_llm.models import open_model
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.surrogate.model import Surrogate
from tests.command import Run
from tests.models.test_functions import says_yes
from tests.refusals import refused


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules in a folder of their own on the path."""
    echoing = "def talks(messages):\n    print('talk')\n    return 'yes'\n"
    echoing += "class Echo:\n    pass\nnumber = 3\n"
    (tmp_path / "echoing.py").write_text(echoing)
    (tmp_path / "leaving.py").write_text("print('talk')\nraise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "echoing", raising=False)


@pytest.mark.usefixtures("modules")
def test_prints_are_no_output(fwc: Run, out: Path) -> None:
    asked = f"--task census --shots zero --n-test 8 --json --out {out}"
    outcome = fwc(f"eval --model python:echoing:talks {asked}")
    assert outcome.code == 0, outcome.err
    assert outcome.json  # nothing but the document


def test_names_of_ours_stay_ours() -> None:
    assert isinstance(open_model("surrogate"), Surrogate)
    served = open_model("surrogate", base_url="http://127.0.0.1:1/v1")
    assert isinstance(served, ChatModel)
    named = open_model("python:tests.models.test_functions:says_yes")
    itself = FunctionModel(says_yes)
    assert isinstance(named, FunctionModel)
    assert (named.name, named.parameters) == (itself.name, itself.parameters)


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("python:echoing", "names no function: write python:module:function"),
        ("python:nowhere_at_all:f", "cannot be imported: ModuleNotFoundError"),
        ("python:echoing:gone.away", "echoing has no gone.away"),
        ("python:echoing:number", "the model is an int"),
        ("python:echoing:Echo", "the class Echo"),
        ("python:.:f", "cannot be imported"),
        ("python:leaving:f", "cannot be imported: SystemExit: 0"),
    ],
)
def test_no_function(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with refused(words):
        open_model(name)
    assert capsys.readouterr().out == ""  # what a module prints is not output of ours
