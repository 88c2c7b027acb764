"""Counts a prompt's tokens: exact with the model's encoding, else an estimate."""

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from fwc_llm.models.base import Messages

if TYPE_CHECKING:
    import tiktoken

URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_ENCODINGS = ("o200k_base", "cl100k_base")
FETCH_SECONDS = 10.0
_PER_MESSAGE = 3  # the tokens that open and close a message
_PER_REPLY = 3  # the tokens that open the reply
_BYTES_PER_TOKEN = (
    3.5  # in English text with many numbers; for the estimate without an encoding
)


class TokenCounter:
    """Counts tokens for a model, `exact` or as estimates; downloads only with `fetch`."""

    def __init__(self, model: str, fetch: bool = True) -> None:
        import tiktoken

        try:
            name = tiktoken.encoding_name_for_model(model.rpartition("/")[2])
        except KeyError:
            name = ""
        self._encoding = load_encoding(
            name if name in _ENCODINGS else _ENCODINGS[0], fetch
        )
        self.exact = name in _ENCODINGS and self._encoding is not None
        self.length = lru_cache(maxsize=1024)(
            self._length
        )  # every prompt repeats the same examples

    def count(self, messages: Messages) -> int:
        """The prompt tokens of one conversation, as the provider bills them."""
        return _PER_REPLY + sum(
            _PER_MESSAGE
            + sum(map(self.length, map(str, message.values())))
            + ("name" in message)
            for message in messages
        )

    def _length(self, text: str) -> int:
        if self._encoding is not None:
            return len(
                self._encoding.encode_ordinary(text)
            )  # `encode` refuses "<|endoftext|>" in a cell
        return -int(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


@lru_cache(maxsize=8)
def load_encoding(name: str, fetch: bool) -> "tiktoken.Encoding | None":
    """The encoding, or None; tiktoken downloads without a timeout, this waits 10 s."""
    import tiktoken

    cached = _is_cached(name)
    if not (fetch or cached):
        return None
    loaded: list[tiktoken.Encoding] = []

    def load() -> None:
        with suppress(
            Exception
        ):  # a failed download, a file system error, a damaged file
            loaded.append(tiktoken.get_encoding(name))

    thread = Thread(
        target=load, daemon=True
    )  # a server that never answers must not keep the process alive
    thread.start()
    thread.join(None if cached else FETCH_SECONDS)
    return loaded[0] if loaded else None


def _is_cached(name: str) -> bool:
    """Whether the rank file is in tiktoken's cache folder."""
    usual = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    folder = os.environ.get(
        "TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", usual)
    )
    file = hashlib.sha1(URL.format(name).encode(), usedforsecurity=False).hexdigest()
    return bool(folder) and Path(folder, file).is_file()
