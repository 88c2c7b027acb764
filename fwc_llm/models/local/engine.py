"""llama.cpp in this process (through xllamacpp): a model in memory, and the threads that wait for replies.

Replies are streamed, so that a question can be given up between two pieces of its prompt. llama.cpp writes
nothing to the terminal, and its threads sleep while nobody asks.
"""

import http.client
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Messages
from fwc_llm.models.openai.failures import one_line
from fwc_llm.untrusted import parse_json, storable, visible

_QUIET = -1  # of llama.cpp's verbosity
_PIECE = 256  # tokens of a prompt between two looks whether the question was given up
_REASON_SECONDS = 120.0
# Loads a file in a process of its own, and lets llama.cpp say what is wrong with it.
_TRIAL = """
import sys, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.n_ctx, given.warmup, given.fit_params = sys.argv[1], 64, False, False
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 1
xllamacpp.Server(given)
"""


@dataclass
class Question:
    """One question under way: what llama.cpp said so far, and whether anybody still waits for it."""

    patience: float
    given_up: threading.Event = field(default_factory=threading.Event)
    late: bool = False
    pieces: list[Mapping[str, Any]] = field(default_factory=list)

    def hear(self, piece: Mapping[str, Any], ends: float) -> bool:
        """Take a piece of the reply; True ends it."""
        self.pieces.append(piece)
        self.late = time.monotonic() > ends
        return self.late or self.given_up.is_set()


class Engine:
    """A model in memory. `context` is the tokens that one prompt with its reply may have.

    Errors: `FwcError` when llama.cpp cannot load the file.
    """

    def __init__(self, path: Path, context: int, threads: int, slots: int) -> None:
        import xllamacpp

        given = xllamacpp.CommonParams()
        given.model.path = str(path)
        given.n_ctx, given.n_parallel, given.kv_unified = context * slots, slots, False
        given.n_batch = given.n_ubatch = _PIECE
        for cores in (given.cpuparams, given.cpuparams_batch):
            cores.n_threads, cores.poll = threads, 0
        given.verbosity, given.warmup, given.fit_params = _QUIET, False, False
        given.cache_ram_mib = 0  # a slot keeps the examples of its last prompt; that is the cache we need
        # xllamacpp always listens on loopback. Nobody else gets an answer there.
        self._key = secrets.token_hex(16)
        given.api_keys, given.n_threads_http = [self._key], 1
        try:
            self._server: Any = xllamacpp.Server(given)
        except RuntimeError:
            raise FwcError(
                f"llama.cpp cannot load {visible(str(path))}: {_why(path) or 'not enough memory?'}"
            ) from None
        self.context = context
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="fwc-llm-local")

    def ask(self, body: Mapping[str, Any], patience: float) -> "tuple[Question, Future[dict[str, Any]]]":
        """Begin to ask when a slot is free. The future holds a chat-completions body, also for errors.

        `patience` are the seconds until a reply that is under way is given up; `Question.late` then says so.
        """
        question = Question(patience)
        return question, self._pool.submit(self._answer, body, question)

    def _answer(self, body: Mapping[str, Any], question: Question) -> dict[str, Any]:
        ends = time.monotonic() + question.patience
        streamed = {
            **body,
            "stream": True,
            "return_progress": True,
            "stream_options": {"include_usage": True},
        }
        try:
            if not question.given_up.is_set():
                self._server.handle_chat_completions(streamed, lambda piece: question.hear(piece, ends))
        except (RuntimeError, ValueError) as error:  # a template that refuses the messages, a parameter
            return {"error": {"message": one_line(str(error))}}
        return joined(question.pieces)

    def count(self, messages: Messages) -> int:
        """The tokens of a conversation, put into the model's own chat template.

        Errors: `FwcError` for messages that the template refuses.
        """
        prompt = self._post("/apply-template", {"messages": storable_messages(messages)})["prompt"]
        text = {"content": prompt, "add_special": True, "parse_special": True}
        return len(self._post("/tokenize", text)["tokens"])

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What only llama.cpp's own HTTP server tells; it is in this process."""
        address = urlsplit(self._server.listening_address)
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            said = parse_json(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise FwcError(f"the model's chat template refuses the prompt: {message_of(said)}")
        return said

    def close(self) -> None:
        """Give up what is under way, wait until its threads have ended, and free the memory."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._server = None


def storable_messages(messages: Messages) -> list[Message]:
    """The messages as JSON can hold them: llama.cpp refuses half of a surrogate pair."""
    return [{**message, "content": storable(message["content"])} for message in messages]


def joined(pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The chat completion that was streamed in pieces, or the error that ended it.

    Log-probabilities are kept up to the first token with a letter, where an answer begins: those of the other
    tokens would make a run's journal ten times as long.
    """
    body: dict[str, Any] = {}
    texts: list[str] = []
    tokens: list[Mapping[str, Any]] = []
    reason = None
    for piece in pieces:
        if "error" in piece:
            return dict(piece)
        body |= {
            name: piece[name] for name in ("id", "created", "model", "usage", "timings") if name in piece
        }
        for choice in piece.get("choices", ()):
            texts.append(choice["delta"].get("content") or "")
            for token in (choice.get("logprobs") or {}).get("content", ()):
                if not any(letter.isalpha() for kept in tokens for letter in kept["token"]):
                    tokens.append(token)
            reason = choice["finish_reason"] or reason
    if reason is None:
        return {"error": {"message": "the reply has no end"}}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "".join(texts)},
        "finish_reason": reason,
    }
    return {**body, "choices": [choice | ({"logprobs": {"content": tokens}} if tokens else {})]}


def message_of(body: Any) -> str:
    """What an error of llama.cpp says, on one line."""
    error = body.get("error") if isinstance(body, Mapping) else None
    return one_line(str(error.get("message") if isinstance(error, Mapping) else body))


def _why(path: Path) -> str:
    """What llama.cpp says about a file that it cannot load; the words of its own log."""
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRIAL, str(path)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_REASON_SECONDS,
            env=os.environ | {"GGML_NO_BACKTRACE": "1"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = tried.stderr.decode("utf-8", "replace").splitlines()
    said = [line.partition(": error loading model: ")[2] for line in lines]
    return one_line(next(filter(None, said), ""))
