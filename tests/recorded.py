"""The answers of GPT-4 and GPT-3.5 that DecodingTrust recorded, and who they are about."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from fwc_llm.models.base import Messages, Reply

_PERSON = re.compile(r"age (\d+), .*final weight (\d+), .*occupation ([\w-]+), .*hours per week (\d+)")


def conversations(file: Path) -> Iterator[tuple[Messages, Reply]]:
    for messages, response in json.loads(file.read_text()):
        choice = response["choices"][0]
        yield messages, Reply(choice["message"]["content"], finish_reason=choice["finish_reason"])


def person(messages: Messages) -> tuple[str, ...]:
    """Age, final weight, occupation and hours of the person asked about: enough to tell all apart."""
    found: tuple[str, ...] = _PERSON.findall(messages[-1]["content"])[-1]
    return found
