"""Counting tokens: exact with a rank file at hand, a marked estimate without, and never hanging."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.models import Client, tokens
from fwc_llm.models.tokens import TokenCounter
from tests.conftest import missing
from tests.models.asking import KEY
from tests.refusals import refused

QUESTION = {"role": "user", "content": "Is it?"}
MESSAGES = [{"role": "system", "content": "You are a helpful assistant."}, QUESTION]


@pytest.fixture
def rank_files() -> Path:
    folder = Path(os.environ.get("TIKTOKEN_CACHE_DIR", "/nowhere"))
    if not (folder / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").exists():
        missing(
            "tiktoken's rank files are missing: set TIKTOKEN_CACHE_DIR to a folder that has them"
        )
    return folder


@pytest.fixture
def fresh() -> Iterator[None]:
    tokens.load_encoding.cache_clear()
    yield
    tokens.load_encoding.cache_clear()


@pytest.mark.parametrize(
    "model", ["gpt-4", "gpt-4-0314", "gpt-3.5-turbo", "gpt-4o-mini", "ft:gpt-4o:x"]
)
def test_known_models_are_counted_exactly(model: str, rank_files: Path) -> None:
    counter = TokenCounter(model, fetch=False)
    assert counter.exact
    # 3 a message, its role, its text; 3 for the reply (OpenAI's cookbook): 3+1+6 + 3+1+3 + 3
    assert counter.count(MESSAGES) == 20
    assert counter.count([{**QUESTION, "name": "ann"}]) == 3 + 1 + 3 + 1 + 1 + 3


@pytest.mark.parametrize("model", ["gpt-6-luna", "my-model", "azure:deployment"])
def test_unknown_models_are_estimated_and_say_so(model: str, rank_files: Path) -> None:
    counter = TokenCounter(model, fetch=False)
    assert (counter.exact, counter.count(MESSAGES)) == (False, 20)


def test_special_tokens_in_a_cell_are_text(rank_files: Path) -> None:
    assert TokenCounter("gpt-4", fetch=False).length("<|endoftext|> \ud800") > 3


@pytest.mark.usefixtures("fresh")
def test_an_estimate_without_a_rank_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    counter = TokenCounter("gpt-4", fetch=False)
    assert not counter.exact
    assert 12 <= counter.count(MESSAGES) <= 40
    monkeypatch.setenv(
        "TIKTOKEN_CACHE_DIR", ""
    )  # tiktoken's way to switch its cache off
    assert not TokenCounter("gpt-4", fetch=False).exact


def test_a_service_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    never = threading.Event()
    monkeypatch.setattr(tokens, "FETCH_SECONDS", 0.1)
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: never.wait(60))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert not TokenCounter("gpt-4").exact
    never.set()


def test_a_key_in_the_wrong_place_is_not_repeated() -> None:
    for options in (
        {"params": KEY},
        {"params": KEY[:9]},
        {"max_tokens": KEY},
        {"rpm": f"Bearer {KEY}"},
    ):
        with refused(next(iter(options))) as caught:
            Client(**options)  # type: ignore[arg-type]
        assert KEY[:9] not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"rpm": 0},
        {"rpm": -1},
        {"deadline": -1.0},
        {"concurrency": 0},
        {"max_tokens": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with refused(next(iter(options))):
        Client(**options)
