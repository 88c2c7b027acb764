"""A prompt as a decision model takes it: the questions apart from the input, which may become one text."""

import re
from dataclasses import dataclass

from fwc_llm.models.base import QUESTION, Message, Messages

MAIN = "answer"  # the name under which the question itself is sent
_ANSWER = re.compile(r"^Answer:[ \t]*(yes|no)\.?[ \t]*$", re.IGNORECASE | re.MULTILINE)
_WEIGHT = re.compile(r"weight\b[^\n]*", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A prompt taken apart: `questions` by name, the question itself first, and the `input`'s messages."""

    questions: dict[str, str]
    input: tuple[Message, ...]

    @property
    def has_roles(self) -> bool:
        """Whether the input holds more than what a user says."""
        return any(message["role"] != "user" for message in self.input)

    @property
    def text(self) -> str:
        """The input as one text; an answer of an example stands on a line of its own."""
        return "\n\n".join(
            f"Answer: {message['content']}" if message["role"] == "assistant" else message["content"]
            for message in self.input
        )


def take_apart(messages: Messages) -> Asked:
    """The questions and the input of a prompt. Without a question the last message is one."""
    questions = {m.get("name") or MAIN: m["content"] for m in messages if m["role"] == QUESTION}
    given = tuple(_plain(message) for message in messages if message["role"] != QUESTION)
    if MAIN not in questions and given:
        questions = {MAIN: given[-1]["content"], **questions}
    return Asked({MAIN: questions.pop(MAIN, ""), **questions}, given)


def conversation(text: str) -> list[Message]:
    """The examples and the record in one text as turns of a chat, for texts that `Asked.text` makes."""
    pieces = _ANSWER.split(text)
    if len(pieces) == 1:
        return [{"role": "user", "content": text}]
    turns: list[Message] = []
    for described, answer in zip(pieces[0:-1:2], pieces[1::2], strict=True):
        turns += [
            {"role": "user", "content": _last_record(described)},
            {"role": "assistant", "content": answer},
        ]
    return [*turns, {"role": "user", "content": _last_record(pieces[-1])}]


def _last_record(text: str) -> str:
    """The last paragraph, with a weight that stands below it; what comes before explains."""
    paragraphs = [piece.strip() for piece in re.split(r"\n\s*\n", text.strip())]
    number = 2 if len(paragraphs) > 1 and _WEIGHT.fullmatch(paragraphs[-1]) else 1
    return "\n".join(paragraphs[-number:])


def _plain(message: Message) -> Message:
    """A message without a name, which these services do not know; an example's name says its role."""
    role = {"example_user": "user", "example_assistant": "assistant"}.get(message.get("name", ""))
    return {"role": role or message["role"], "content": message["content"]}
