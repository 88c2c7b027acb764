"""Models of installed packages, found by their entry points, and functions named by their
module.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fwc_llm import FunctionModel, FwcError
from fwc_llm.models import open_model
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.surrogate.model import Surrogate
from tests.command import Run
from tests.models.test_functions import says_yes

PROVIDER = """
from dataclasses import dataclass, field
from fwc_llm import Client, Reply

@dataclass
class Echo:
    name: str
    parameters: dict = field(default_factory=dict)
    async def ask(self, messages):
        return Reply(self.name.partition(":")[2] or "no")
    async def aclose(self):
        pass

def open_model(name: str, client: Client) -> Echo:
    return Echo(name, {"temperature": client.params.get("temperature"), "url": client.base_url})

def other_name(name, client):
    return Echo("else")

def fails(name, client):
    raise RuntimeError("no licence\\x1b[31m")

def talks(messages):
    print("talk")
    return "yes"

number = 3
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution with these entry points: a real one, in a folder of its own on the
    path.
    """

    def make(name: str = "fwc-echo", **points: str) -> None:
        folder = tmp_path / "site" / name
        info = folder / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n"
        )
        lines = [f"{point} = {target}" for point, target in points.items()]
        (info / "entry_points.txt").write_text(
            "\n".join(["[fwc_llm.models]", *lines]) + "\n"
        )
        (folder / "echoing.py").write_text(PROVIDER)
        (folder / "leaving.py").write_text("print('talk')\nraise SystemExit(0)\n")
        (folder / "broken.py").write_text("import nothing_of_this_name\n")
        monkeypatch.syspath_prepend(folder)

    monkeypatch.delitem(sys.modules, "echoing", raising=False)
    return make


def test_an_installed_package_provides_its_names(install: Install) -> None:
    install(echo="echoing:open_model")
    model = open_model(
        "echo:Yes", params={"temperature": 0.5}, base_url="http://127.0.0.1:1/v1"
    )
    assert (model.name, type(model).__name__) == ("echo:Yes", "Echo")
    assert model.parameters == {"temperature": 0.5, "url": "http://127.0.0.1:1/v1"}
    assert type(open_model("echo")).__name__ == "Echo"
    for other in ("echoes", "my-echo", "gpt-4", "ft:echo"):
        assert isinstance(open_model(other), ChatModel)


def test_prints_are_no_output(fwc: Run, install: Install, tmp_path: Path) -> None:
    install()
    asked = f"--task census --shots zero --n-test 8 --json --out {tmp_path / 'run'}"
    outcome = fwc(f"eval --model python:echoing:talks {asked}")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)  # nothing but the document


def test_names_of_ours_stay_ours(install: Install) -> None:
    install(surrogate="echoing:open_model", python="echoing:open_model")
    assert isinstance(open_model("surrogate"), Surrogate)
    assert isinstance(
        open_model("surrogate", base_url="http://127.0.0.1:1/v1"), ChatModel
    )
    named = open_model("python:tests.models.test_functions:says_yes")
    itself = FunctionModel(says_yes)
    assert isinstance(named, FunctionModel)
    assert (named.name, named.parameters) == (itself.name, itself.parameters)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "broken:open_model",
            r"'echo' of fwc-echo 1\.5.*'broken:open_model'.*ModuleNotFoundError.*nothing_of_",
        ),
        ("echoing:gone", r"'echoing:gone'.*cannot be loaded.*no attribute 'gone'"),
        (
            "echoing:fails",
            "cannot be opened: RuntimeError: no licence\N{REPLACEMENT CHARACTER}",
        ),
        ("builtins:print", "gave no fwc_llm.Model called 'echo'"),
        ("echoing:other_name", "gave no fwc_llm.Model called 'echo'"),
        ("leaving:open_model", "cannot be loaded: SystemExit: 0"),
    ],
)
def test_a_broken_entry_point_is_named(
    install: Install, target: str, words: str
) -> None:
    install(echo=target)
    with pytest.raises(FwcError, match=words):
        open_model("echo")


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
def test_no_function(
    install: Install, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install()
    with pytest.raises(FwcError, match=words):
        open_model(name)
    assert capsys.readouterr().out == ""  # what a module prints is not output of ours
