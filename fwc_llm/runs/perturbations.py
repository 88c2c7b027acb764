"""First names beside the rows (`probe`)."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Messages
from fwc_llm.sanitize import Fields, Json

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FIRST_NAME = "first name"  # key of the first name in a changed row


@cache
def _file() -> Json:
    return tomllib.loads(
        Path(__file__).with_name("first_names.toml").read_text(encoding="utf-8")
    )


def _word(level: str) -> str:
    word = level.strip().lower()
    return str(_file()["same"].get(word, word))


def named_levels(task: "Task") -> dict[str, list[str]]:
    """Levels with first names, by attribute with at least two of them; else `FwcError`."""
    lists = _file()["names"]
    sexes = set(lists)
    races = set(lists["female"])
    by_attribute = {}
    without = []
    for attribute in task.protected:
        levels = sorted(map(str, task.pool()[attribute].unique()))
        listed = [level for level in levels if _word(level) in sexes | races]
        without += [level for level in levels if level not in listed]
        if len(listed) > 1:
            by_attribute[attribute] = listed
    if not by_attribute:
        knows = f"the probe `names` knows female and male, Black and white ({_file()['source']})"
        raise FwcError(
            f"there are no lists of first names for the levels {', '.join(without)}: {knows}"
        )
    return by_attribute


def with_first_name(messages: Messages, values: Fields) -> Messages:
    """Append the first name in `values`, if any, to the record in `messages`."""
    if FIRST_NAME not in values:
        return messages
    index = max(
        index for index, message in enumerate(messages) if message["role"] == "user"
    )
    text = messages[index]["content"].rstrip()
    if text.splitlines()[-1].startswith("- "):
        mark = "- first name"
    else:
        mark = "First name"
    changed: Message = {
        **messages[index],
        "content": f"{text}\n{mark}: {values[FIRST_NAME]}",
    }
    return [*messages[:index], changed, *messages[index + 1 :]]


def name_variants(
    levels: Mapping[str, list[str]], row: str, values: Fields
) -> Iterator[tuple[str, Fields]]:
    """Yield (variant, values) of the row with a first name for each level.

    Names imply a sex and a race. One is the level to try; the other is that of the row if the row
    states it, else white, or a sex drawn by the row's id.
    """
    lists = _file()["names"]
    drawn = crc32(row.encode())
    words = {_word(str(value)) for value in values.values() if isinstance(value, str)}
    sex = next((sex for sex in lists if sex in words), list(lists)[drawn % 2])
    race = next((race for race in lists[sex] if race in words), "white")
    for attribute, names in levels.items():
        for level in names:
            word = _word(level)
            chosen = lists[word][race] if word in lists else lists[sex][word]
            first = chosen[drawn // 2 % len(chosen)]
            yield f"names:{attribute}={level}", {**values, FIRST_NAME: first}
