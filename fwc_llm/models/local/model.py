"""`gguf:FILE` and `smollm2`: a model on this machine, asked in this process, with the face of every other."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Unpack

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.client import ChatOptions
from fwc_llm.models.local import model_file, require_local
from fwc_llm.models.local.cores import free_cores
from fwc_llm.models.local.engine import Engine, message_of, storable_messages
from fwc_llm.models.local.gguf import read_gguf
from fwc_llm.models.openai.capabilities import request_parameters
from fwc_llm.models.openai.failures import AttemptError
from fwc_llm.models.openai.replies import read_reply
from fwc_llm.models.openai.service import Service
from fwc_llm.untrusted import whole

LEAST_CONTEXT = 2048  # tokens
_CONTEXT_STEP = 256  # llama.cpp rounds a context up to its multiples
_BYTES_PER_TOKEN = 3.0  # of a prompt, for the first guess of the context that it needs
_TEMPLATE_TOKENS = 64  # at most, that a chat template adds for every message
_MARGIN = 1.25  # other prompts of a run are longer
_FAILURES = 10  # in a row, that stop the run
_OURS = ("n_ctx", "threads", "slots")


class LocalModel(Service):
    """A GGUF file, run by llama.cpp in this process.

    The options are those of `fwc_llm.models.openai.chat.ChatModel`; those of a service (`rpm`, `tpm`, …)
    mean nothing here. `params` may hold what llama.cpp's chat completions take, and

    n_ctx     tokens of a prompt with its reply, rounded up to a multiple of 256 (default: as many as the
              prompts need, up to what the model was made for)
    threads   (default: the free cores)
    slots     prompts worked on at once (default 1: the examples are then read once, and the same questions
              in the same order get the same numbers)

    Log-probabilities are always asked for. The model is loaded at the first question, and let go by `aclose`.

    Errors: `FwcError` for a file that is no model, for an extra that is not installed and for options that
    make no sense; `ProviderError` when question after question fails.
    """

    local = True

    def __init__(self, name: str, **options: Unpack[ChatOptions]) -> None:
        require_local(name)
        self._file = read_gguf(model_file(name))
        params = dict(options.get("params") or {})
        ours = {option: _positive(option, params.pop(option, None)) for option in _OURS}
        self._fixed = _stepped(ours["n_ctx"]) if ours["n_ctx"] else None
        self._threads = ours["threads"]
        self._slots = ours["slots"] or 1
        self._sent = request_parameters("", params, options.get("max_tokens"), logprobs=True)
        super().__init__(name, {}, options.get("notice"))
        self._deadline = options.get("deadline", 300.0)
        if not self._deadline > 0:
            raise FwcError(f"deadline is {self._deadline}: it must be above 0")
        self._limit = self._fixed or self._file.context
        self._engine: Engine | None = None
        self._opening = asyncio.Lock()
        self._failed_in_a_row = 0

    @cached_property
    def parameters(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What is asked for, and the file by its checksum: another file is another model."""
        file = self._file
        described = {"name": file.name, "architecture": file.architecture, "quantisation": file.quantisation}
        return {**self._sent, "gguf": {**described, "sha256": file.sha256}}

    @property
    def completion_limit(self) -> int | None:
        """The most tokens that one reply can have, or None."""
        return whole(self._sent.get("max_tokens", self._sent.get("max_completion_tokens")))

    def redact(self, text: str) -> str:
        """`text`: there is no key."""
        return text

    def check(self, messages: Messages) -> None:
        """Raise `FwcError` for a prompt that is too long, or that the chat template refuses.

        A prompt that surely fits is not counted, which would load the model.
        """
        content = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        if content + len(messages) * _TEMPLATE_TOKENS + self._reply > self._limit:
            tokens = self._opened(self._guess(messages)).count(messages)
            if tokens + self._reply > self._limit:
                raise FwcError(self._too_long(tokens))

    async def ask(self, messages: Messages) -> Reply:
        """Ask once; a question that needs a larger context than there is gets one, within the limit."""
        body = {**self._sent, "messages": storable_messages(messages)}
        context = self._guess(messages)
        began = time.monotonic()
        while True:
            async with self._opening:  # a larger context means a new engine: nobody may hold the old one
                engine = self._opened(context)
                question, future = engine.ask(body, self._deadline)
            try:
                answered = await asyncio.wrap_future(future)
            except asyncio.CancelledError:
                question.given_up.set()
                raise
            needed = self._lacking(answered, engine.context)
            if needed is None:
                break
            if needed > self._limit:
                return Reply(text=None, error=self._too_long(needed - self._reply))
            context = needed
        if question.late:
            answered = {"error": {"message": f"no reply within the deadline of {self._deadline:g} s"}}
        return self._reply_of(answered, time.monotonic() - began)

    async def aclose(self) -> None:
        """Give up what is under way and free the model's memory; the next question loads it again."""
        engine, self._engine = self._engine, None
        self._opening = asyncio.Lock()
        if engine is not None:
            await asyncio.to_thread(engine.close)

    @property
    def _reply(self) -> int:
        return self.completion_limit or 1

    def _guess(self, messages: Messages) -> int:
        """The context that a prompt needs, before its tokens are counted."""
        content = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        return round(content / _BYTES_PER_TOKEN) + len(messages) * _TEMPLATE_TOKENS // 4 + self._reply

    def _opened(self, context: int) -> Engine:
        """The engine, loaded if need be, and loaded again for a larger context."""
        if self._engine is not None and (self._engine.context >= min(context, self._limit)):
            return self._engine
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        tokens = self._fixed or min(max(LEAST_CONTEXT, _stepped(round(context * _MARGIN))), self._limit)
        threads = self._threads or free_cores()
        self._engine = Engine(self._file.path, tokens, threads, self._slots)
        self._tell(
            f"{self.name}: {self._file.described}, in this process, on {threads} "
            f"thread{'s' * (threads != 1)}; sha256 {self._file.sha256[:12]}…"
        )
        if not self._file.has_template:
            self._tell(
                f"{self.name} has no chat template, so it may be no instruct model: llama.cpp's own is used"
            )
        return self._engine

    def _lacking(self, answered: Mapping[str, Any], context: int) -> int | None:
        """The context that a question needs, where it did not have enough; None where it did."""
        error = answered.get("error")
        if isinstance(error, Mapping):
            tokens = whole(error.get("n_prompt_tokens"))
            return None if tokens is None else max(tokens + self._reply, context + 1)
        usage = answered.get("usage") or {}
        tokens, said = whole(usage.get("prompt_tokens")) or 0, whole(usage.get("completion_tokens")) or 0
        cut = answered["choices"][0]["finish_reason"] == "length" and said < self._reply
        return tokens + self._reply if cut and tokens + self._reply > context else None

    def _too_long(self, tokens: int) -> str:
        needed = tokens + self._reply
        why = "--param n_ctx" if self._fixed else f"what {self._file.name} was made for"
        way = "fewer examples (--m, --max-prompt-tokens), or a shorter template"
        if self._fixed and needed <= self._file.context:
            way = f"--param n_ctx={needed} or more"
        return (
            f"the prompt has {tokens:,} tokens and its reply up to {self._reply}, which needs a context of "
            f"{needed:,}; {why} is {self._limit:,}: take {way}"
        )

    def _reply_of(self, answered: Mapping[str, Any], seconds: float) -> Reply:
        """The reply in what llama.cpp said. `ProviderError` where question after question fails."""
        try:
            reply = read_reply({**answered, "model": self._file.described}, latency=seconds)
        except AttemptError:
            self._failed_in_a_row += 1
            said = message_of(answered)
            if self._failed_in_a_row >= _FAILURES:
                raise ProviderError(
                    f"{self.name} failed {_FAILURES} times in a row (last: {said}): the run is stopped; what "
                    "was answered is kept, and the same command continues there"
                ) from None
            return Reply(text=None, error=f"llama.cpp gave no reply ({said})", latency=seconds)
        self._failed_in_a_row = 0
        return replace(reply, fingerprint=_version())


def _stepped(tokens: int) -> int:
    """The context that llama.cpp makes of so many tokens."""
    return -(-tokens // _CONTEXT_STEP) * _CONTEXT_STEP


def _positive(option: str, value: Any) -> int | None:
    """The whole number above 0 that an option of ours is, or None where it is not given."""
    number = whole(value, 1 << 24)
    if value is not None and not number:
        raise FwcError(f"{option} is {value!r}: give a whole number above 0 (--param {option}=…)")
    return number


def _version() -> str:
    from importlib.metadata import version

    return f"xllamacpp {version('xllamacpp')}"
