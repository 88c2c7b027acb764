"""Counting tokens: exact with a rank file at hand, a marked estimate without, and never hanging."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.models import tokens
from fwc_llm.models.tokens import TokenCounter, largest_m
from tests.conftest import missing
from tests.faults.loopback import HttpReply, serve_in_thread

MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Is it?"},
]


@pytest.fixture
def rank_files() -> Path:
    folder = Path(os.environ.get("TIKTOKEN_CACHE_DIR", "/nowhere"))
    if not (folder / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").exists():
        missing("tiktoken's rank files are missing: set TIKTOKEN_CACHE_DIR to a folder that has them")
    return folder


@pytest.fixture
def fresh() -> Iterator[None]:
    tokens.load_encoding.cache_clear()
    yield
    tokens.load_encoding.cache_clear()


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-0314", "gpt-3.5-turbo", "gpt-4o-mini", "ft:gpt-4o:x"])
def test_known_models_are_counted_exactly(model: str, rank_files: Path) -> None:
    counter = TokenCounter(model, fetch=False)
    assert counter.exact
    # 3 a message, its role, its text; 3 for the reply (OpenAI's cookbook): 3+1+6 + 3+1+3 + 3
    assert counter.count(MESSAGES) == 20
    assert counter.count([{"role": "user", "content": "Is it?", "name": "ann"}]) == 3 + 1 + 3 + 1 + 1 + 3


@pytest.mark.parametrize("model", ["gpt-6-luna", "my-model", "azure:deployment"])
def test_unknown_models_are_estimated_and_say_so(model: str, rank_files: Path) -> None:
    counter = TokenCounter(model, fetch=False)
    assert not counter.exact
    assert counter.count(MESSAGES) == 20


def test_special_tokens_in_a_cell_are_text(rank_files: Path) -> None:
    assert TokenCounter("gpt-4", fetch=False).length("<|endoftext|> \ud800") > 3


def test_without_a_rank_file_there_is_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    counter = TokenCounter("gpt-4", fetch=False)
    assert not counter.exact
    assert 12 <= counter.count(MESSAGES) <= 40
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")  # tiktoken's way to switch its cache off
    assert not TokenCounter("gpt-4", fetch=True).exact


def test_a_dripping_server_does_not_hang_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setattr(tokens, "FETCH_SECONDS", 0.3)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                while not stop.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        monkeypatch.setattr(tokens, "URL", f"http://127.0.0.1:{server.getsockname()[1]}/{{}}")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        began = time.monotonic()
        assert not TokenCounter("gpt-4").exact
        assert time.monotonic() - began < 5.0
        stop.set()
        thread.join(5.0)


def test_a_rank_file_is_fetched_checked_and_kept(
    tmp_path: Path, rank_files: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    good = tokens.rank_file("cl100k_base")
    assert good is not None
    content = good.read_bytes()
    target = tmp_path / "ranks"
    with serve_in_thread(lambda request: HttpReply(content)) as url:
        monkeypatch.setattr(tokens, "URL", url + "/{}")
        assert tokens.fetch_rank_file("cl100k_base", target)
    assert target.read_bytes() == content
    with serve_in_thread(lambda request: HttpReply(content[:1000])) as url:
        monkeypatch.setattr(tokens, "URL", url + "/{}")
        assert not tokens.fetch_rank_file("cl100k_base", tmp_path / "bad")
    assert [path.name for path in tmp_path.iterdir()] == ["ranks"]


def test_a_damaged_rank_file_is_not_handed_to_tiktoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    file = tokens.rank_file("cl100k_base")
    assert file is not None
    file.write_text("damaged")
    assert not TokenCounter("gpt-4", fetch=False).exact  # tiktoken would fetch it anew, without a timeout


@pytest.mark.parametrize(("limit", "m"), [(100, 1), (199, 1), (200, 2), (4000, 40), (10**9, 64)])
def test_the_largest_m_that_fits(limit: int, m: int) -> None:
    asked: list[int] = []

    def count(number: int) -> int:
        asked.append(number)
        return 100 * number

    assert largest_m(count, limit, most=64) == m
    assert len(asked) < 12


def test_a_limit_below_one_example_is_refused() -> None:
    with pytest.raises(FwcError, match="one example already makes 100 prompt tokens, more than 99"):
        largest_m(lambda m: 100 * m, 99)
