"""The template sets that hold the question themselves, as a chat needs it, and a set of one's
own.
"""

from pathlib import Path

from fwc_llm.prompts import templates

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
