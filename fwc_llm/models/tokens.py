"""How many tokens a prompt has: exact where the model's encoding is at hand, else a marked estimate.

tiktoken fetches its rank files at first use without a timeout. Here the file is fetched beforehand, within
a few seconds or not at all, into the place where tiktoken looks; it is never asked to fetch one itself.
"""

import hashlib
import os
import tempfile
import time
import urllib.request
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.errors import FwcError
from fwc_llm.files import whole_file
from fwc_llm.models.base import Messages

if TYPE_CHECKING:
    import tiktoken

URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
# Rank files by encoding, with the checksum that tiktoken expects.
_RANK_FILES = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
FETCH_SECONDS = 10.0
_PER_MESSAGE = 3  # the tokens that open and close a message
_PER_REPLY = 3  # the tokens that open the reply
_BYTES_PER_TOKEN = 3.5  # of English text with many numbers; the estimate where no encoding is at hand


class TokenCounter:
    """Counts the tokens of conversations with one model. `exact` says whether the count can be relied upon.

    `fetch` False never touches the network.
    """

    def __init__(self, model: str, fetch: bool = True) -> None:
        name, self.exact = _encoding_name(model)
        encoding = load_encoding(name, fetch)
        self.exact = self.exact and encoding is not None
        self._encoding = encoding
        self.length = lru_cache(maxsize=1024)(self._length)  # the fixed part comes again and again

    def count(self, messages: Messages) -> int:
        """Prompt tokens of one conversation, as the provider bills them."""
        tokens = _PER_REPLY
        for message in messages:
            tokens += _PER_MESSAGE + self.length(message["role"]) + self.length(message["content"])
            if "name" in message:
                tokens += 1 + self.length(message["name"])
        return tokens

    def _length(self, text: str) -> int:
        """Tokens of a text by itself."""
        if self._encoding is not None:
            return len(self._encoding.encode_ordinary(text))  # `encode` refuses "<|endoftext|>" in a cell
        return -int(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def largest_m(count_tokens: Callable[[int], int], limit: int, most: int = 1024) -> int:
    """The largest m up to `most` for which `count_tokens(m)` is at most `limit`; counts must not fall with m.

    Errors: `FwcError` when not even m = 1 fits.
    """
    if count_tokens(1) > limit:
        raise FwcError(
            f"one example already makes {count_tokens(1)} prompt tokens, more than {limit}: "
            "raise --max-prompt-tokens or use a shorter template"
        )
    return bisect_right(range(1, most + 1), limit, key=count_tokens)


def _encoding_name(model: str) -> tuple[str, bool]:
    """The encoding to count with, and whether it is the model's own."""
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return "o200k_base", False
    return (name, True) if name in _RANK_FILES else ("o200k_base", False)


@lru_cache(maxsize=8)
def load_encoding(name: str, fetch: bool) -> "tiktoken.Encoding | None":
    """The encoding, if its rank file is at hand, or if it may and can be fetched."""
    import tiktoken

    file = rank_file(name)
    if file is None or not (_is_good(file, name) or (fetch and fetch_rank_file(name, file))):
        return None
    try:
        return tiktoken.get_encoding(name)
    except (OSError, ValueError):
        return None


def rank_file(name: str) -> Path | None:
    """Where tiktoken looks for a rank file; None when its cache is switched off."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    if not folder:
        return None
    return Path(folder) / hashlib.sha1(URL.format(name).encode(), usedforsecurity=False).hexdigest()


def _is_good(file: Path, name: str) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == _RANK_FILES[name]
    except OSError:
        return False


def fetch_rank_file(name: str, file: Path) -> bool:
    """Fetch a rank file within `FETCH_SECONDS` in all; False when that does not work."""
    ends = time.monotonic() + FETCH_SECONDS
    content = b""
    try:
        with urllib.request.urlopen(URL.format(name), timeout=3.0) as response:
            while (chunk := response.read1(1 << 16)) and time.monotonic() < ends:
                content += chunk
        if hashlib.sha256(content).hexdigest() != _RANK_FILES[name]:
            return False
        with whole_file(file) as out:
            out.write(content.decode())
    except (OSError, ValueError):
        return False
    return True
