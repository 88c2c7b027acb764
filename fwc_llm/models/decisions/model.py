"""A decision model behind a service, asked with the same patience as a chat: P(yes) comes back, no text."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.metrics.decided import THRESHOLD
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.decisions.conversation import MAIN, take_apart
from fwc_llm.models.decisions.formats import FORMATS, p_yes, read_usage
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.failures import AttemptError, Reach, body_failure
from fwc_llm.untrusted import shortened

_LONGEST_NAME = 200
_ANSWER_TOKENS = 8  # of one question, at most: there is no text
# Options of chats: what answers with a probability samples nothing.
_OF_CHATS = {
    "temperature", "top_p", "top_k", "seed", "stop", "logprobs", "top_logprobs", "logit_bias", "max_tokens",
    "max_completion_tokens", "presence_penalty", "frequency_penalty", "reasoning_effort", "response_format",
    "tools", "tool_choice",
}  # fmt: skip
_OURS = {"model", "input", "state", "questions"}
_ROLES = "roles"  # among what may be adapted: whether the input may be messages
_ABOUT_ROLES = re.compile(r"\brole|\binput\b|\bmessages?\b|valid string|must be (a )?(string|text)", re.I)
_ABOUT_FIELDS = re.compile(
    r"\b(extra|unknown|unexpected|unrecognized|misspel\w+|missing|required)\W+(field|input|param|key|arg|quest)"
    r"|not permitted|field required|extra_forbidden",
    re.I,
)
_ABOUT_THE_MODEL = re.compile(
    r"\bmodels?\b.*(not|n[’']t|only).*(support|allow|exist|available|serve)|unsupported model|unknown model"
    r"|only \S+ (is|are) supported|no such model",
    re.I,
)
_NO_ENDPOINT = {404, 405, 501}


class DecisionModel(ChatModel):
    """A model that answers typed questions, behind a service that speaks one of two formats.

    `api` is "decisions" (OpenAI's Decisions API) or "systemone" (TypeSafe's format, which servers of open
    models speak too). The questions are the prompt's messages of role `question`. The rest is the input:
    messages where format and service take roles, else one text. A reply has `p_yes`; `text` is "yes" from
    0.5 on; `others` holds P(yes) of the other questions. Further options are those of `ChatModel`.

    Errors: as `ChatModel`; `FwcError` for options of chats alone, and for System One without an address.
    """

    def __init__(self, name: str, *, api: str = "decisions", **options: Any) -> None:
        if api not in FORMATS:
            raise FwcError(f"api is {api!r}: choose 'chat', 'decisions' or 'systemone'")
        self._format = FORMATS[api]
        self._address = self._format.address
        super().__init__(name, **options)
        self._sent[_ROLES] = self._format.takes_roles
        if api == "systemone" and self._base_url is None:
            raise FwcError(
                "--api systemone needs the service's address: OpenAI does not speak it, so name a server "
                "that does with --base-url"
            )

    @property
    def api(self) -> str:
        """`decisions` or `systemone`."""
        return self._format.name

    @property
    def completion_limit(self) -> int | None:
        """The most tokens that an answer is taken to have."""
        return _ANSWER_TOKENS

    @property
    def _reasons(self) -> bool:
        return False

    def _defaults(self, name: str, max_tokens: int | None, logprobs: bool) -> Mapping[str, Any]:
        """The format, which is part of a request's identity, and what was chosen."""
        chosen = {*self._chosen, *["max_tokens"] * (max_tokens is not None), *["logprobs"] * logprobs}
        if wrong := sorted(chosen & _OF_CHATS):
            raise FwcError(
                f"{wrong[0]!r} is for chats: a decision model gives P(yes) itself, with nothing to sample or "
                f"to limit; leave it out with --api {self._format.name}"
            )
        if taken := sorted(chosen & _OURS):
            raise FwcError(f"parameter {taken[0]!r} cannot be set: the client sets it itself; leave it out")
        super()._defaults(name, None, False)  # refuses what looks like a key
        return {"api": self._format.name, **self._chosen}

    def request_body(self, messages: Messages) -> dict[str, Any]:
        """The body of the request that asks `messages`."""
        asked = take_apart(messages)
        return {
            **self._format.body(self._served_name, asked, bool(self._sent[_ROLES]) and asked.has_roles),
            **self._chosen,
        }

    def read(self, body: Any, messages: Messages) -> Reply:
        """The reply in the body of a response to `messages`. Raises `AttemptError` where there is none."""
        asked = take_apart(messages)
        answers = self._format.answers(body, asked) if isinstance(body, Mapping) else None
        if answers is None:
            if isinstance(body, Mapping) and not body.get("error"):
                raise AttemptError(Reach.ATTEMPT, "a response without an answer to every question", 200)
            raise body_failure(body)
        found = {name: p_yes(answer, self._format.keys) for name, answer in answers.items()}
        p = found.pop(MAIN)
        served = body.get("model")
        return Reply(
            text="" if p is None else "yes" if p >= THRESHOLD else "no",
            refusal=p is None,
            p_yes=p,
            others=found or None,
            usage=read_usage(body.get("usage")),
            model=shortened(served, _LONGEST_NAME) if isinstance(served, str) else None,
            raw=body,
        )

    def failure_of(self, error: Exception) -> AttemptError:
        """As for chats; and what every request would meet alike stops the run."""
        failure = super().failure_of(error)
        if failure.status in _NO_ENDPOINT:
            return replace(failure, reach=Reach.RUN)
        if failure.reach is Reach.UNCLEAR and (
            _ABOUT_THE_MODEL.search(failure.reason)
            or (failure.status in {400, 422} and _ABOUT_FIELDS.search(failure.reason))
        ):
            return replace(failure, reach=Reach.RUN)
        return failure

    def _adapt(self, failure: AttemptError, messages: Messages, sent: Mapping[str, Any]) -> bool:
        """Send one text where roles are refused: once, and said once."""
        if failure.status not in {400, 422} or failure.reach not in {Reach.RUN, Reach.UNCLEAR}:
            return False
        about = failure.parameter.startswith("input") or _ABOUT_ROLES.search(failure.reason)
        asked = take_apart(messages)
        if not (about and sent[_ROLES] and asked.has_roles):
            return False
        if self._sent[_ROLES]:  # else another worker has found out
            self._sent = {**self._sent, _ROLES: False}
            self._tell(f"{self._where} takes no messages of several roles: every prompt is sent as one text")
        return True

    def _explain(self, failure: AttemptError) -> str:
        said, address = f"({failure})", f"POST {self._address}"
        if failure.code in {"model_not_found", "model_not_available"}:
            return f"{super()._explain(failure)}; --api {self.api} is for fewer models than chats are"
        named = failure.parameter == "model" or _ABOUT_THE_MODEL.search(failure.reason)
        if named and failure.status not in {401, 402, 403}:
            return (
                f"{self._where} does not answer {address} with the model {self.name!r} {said}: name one that "
                "it serves for decisions, or ask this one with --api chat"
            )
        if failure.status in _NO_ENDPOINT:
            other = "systemone" if self.api == "decisions" else "decisions"
            return (
                f"{self._where} has no {address} {said}: it does not speak --api {self.api}; check the base "
                f"URL, or try --api {other} or --api chat"
            )
        if failure.status in {400, 422} and failure.reach is Reach.RUN and not failure.parameter:
            return (
                f"{self._where} refuses the form of the request {said}: check --param and whether it speaks "
                f"--api {self.api}"
            )
        return super()._explain(failure)
