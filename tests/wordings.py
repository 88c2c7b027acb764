"""The template sets that hold the question themselves, as a chat needs it, and a set of one's
own; a task whose answers are German.
"""

from dataclasses import replace
from pathlib import Path

from fwc_llm.prompts import templates
from fwc_llm.tasks import Task

CHATS = tuple(name for name in templates() if name != "decision")


def template_set(folder: Path, **files: str) -> Path:
    """A set that asks with an age alone, and these files."""
    folder.mkdir(exist_ok=True)
    plain = {
        "system": "",
        "shots": "",
        "query": '{% call message("user") %}{{ row["age"] }}{% endcall %}',
    }
    for name, text in (plain | files).items():
        (folder / f"{name}.j2").write_text(text)
    return folder


def in_german(task: Task) -> Task:
    words = {"yes": "bewilligt", "no": "abgelehnt"}
    outcome = task.rules.outcome.model_copy(update={"words": words})
    return replace(task, rules=task.rules.model_copy(update={"outcome": outcome}))
