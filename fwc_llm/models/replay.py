"""`replay:FOLDER`: answers questions with the recorded replies of a run."""

import json
from collections import defaultdict
from typing import Any

from pydantic import BaseModel

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.files import failing_as, home_expanded, read_text, sha256
from fwc_llm.models.base import Messages, Reply, RowContext, Unconnected
from fwc_llm.models.client import Client
from fwc_llm.models.recorded import FILE_NAME, Key, key_of, read_records, reply_of
from fwc_llm.sanitize import Fields, Json, parse_json, replace_invisible
from fwc_llm.validation import check

PREFIX = "replay:"
REPLAYED = "replayed"  # the parameter with the journal's sha256


class _Source(BaseModel, strict=True):
    """The keys of run.json that a replay needs."""

    model: str
    parameters: Json
    settings: Json
    simulated: bool
    simulated_answers: bool | None = None
    reference: bool | None = None


class Replay(Unconnected):
    """Replays the recorded replies of a run, without a model, a network or a key.

    A question gets the reply to the same messages in the same arm, repeat, row and variant; if
    these are others or unknown, the next unused reply to its messages. Replies of a simulation stay
    marked as simulated.
    """

    local = True

    def __init__(self, name: str, client: Client) -> None:
        self.opened_as = name
        folder = home_expanded(name.removeprefix(PREFIX))
        described = folder / "run.json"
        journal = folder / f"{FILE_NAME}.gz"
        if not journal.is_file():
            journal = folder / FILE_NAME
        with failing_as(
            FwcError,
            f"cannot read {replace_invisible(str(described))}: ",
            "; name the folder of a run",
        ):
            content = parse_json(read_text(described))
        source = check(
            _Source, content, f"{replace_invisible(str(described))} is damaged"
        )
        self._folder = replace_invisible(str(folder))
        self.name = (
            f"{replace_invisible(source.model)} (replayed from "
            f"{replace_invisible(folder.resolve().name)})"
        )
        self.parameters: Fields = {**source.parameters, REPLAYED: sha256(journal)}
        self.api = str(source.settings.get("api", "chat"))
        self.simulated = source.simulated_answers
        if self.simulated is None:
            self.simulated = source.simulated
        self.reference = bool(source.reference)
        for option, value in {"max_tokens": client.max_tokens, **client.params}.items():
            recorded = source.parameters.get(option)
            if value not in (None, recorded):
                was = f"the run in {self._folder} was asked with {recorded!r}"
                raise FwcError(f"{option} is {value!r}, but {was}: leave it out")
        self._replies: dict[str, dict[Key, Reply]] = defaultdict(dict)
        self._given: set[Key] = set()
        for key, messages, reply in _recorded(journal):
            self._replies[messages][key] = reply
        self._keys = {key for replies in self._replies.values() for key in replies}
        if not self._replies:
            raise FwcError(
                f"{self._folder}/{FILE_NAME} holds no prompts: an older version made it, or it is "
                f"empty"
            )

    def next_reply(self, messages: Messages, key: Key | None = None) -> Reply | None:
        """The reply to these messages by its key; else the next unused one, or None."""
        replies = self._replies.get(_text(messages), {})
        if key not in replies:
            key = next((key for key in replies if key not in self._given), None)
        if key is None:
            return None
        self._given.add(key)
        return replies[key]

    async def ask(self, messages: Messages) -> Reply:
        """The next unused reply to these messages; `ProviderError` if all are used."""
        return self._reply(messages, None, "a question", "was never asked")

    async def ask_row(self, messages: Messages, context: RowContext) -> Reply:
        """The reply to the same question of the run; else the next unused one."""
        key = context.arm, context.repeat, context.row, context.variant
        if key in self._keys:
            never = "was asked with another prompt"
        else:
            never = "was never asked"
        question = f"arm {replace_invisible(context.arm)!r}, row {replace_invisible(context.row)}"
        return self._reply(messages, key, question, never)

    def _reply(
        self, messages: Messages, key: Key | None, question: str, never: str
    ) -> Reply:
        reply = self.next_reply(messages, key)
        if reply is not None:
            return reply
        times = len(self._replies.get(_text(messages), {}))
        raise ProviderError(
            f"{question} {f'was asked only {times} times' if times else never} in the run in "
            f"{self._folder}: "
            "take its rows, examples, template and version (experiment.toml there has the options)"
        )


def _text(messages: Messages) -> str:
    return json.dumps([[m["role"], m["content"], m.get("name", "")] for m in messages])


def _recorded(journal: Any) -> list[tuple[Key, str, Reply]]:
    """(key, messages, reply) of every question; failed ones have an error."""
    prefixes: dict[tuple[str, int], Messages] = {}
    found: dict[str, tuple[Key, str, Reply]] = {}
    for record in read_records(journal):
        key = key_of(record)
        prefix = prefixes.setdefault(key[:2], record.get("prefix") or [])
        if not record.get("prompt") or (
            record["text"] is None and record["request"] in found
        ):
            continue
        found[record["request"]] = (
            key,
            _text([*prefix, *record["prompt"]]),
            reply_of(record),
        )
    return list(found.values())
