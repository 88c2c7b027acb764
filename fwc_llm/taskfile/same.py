"""Whether two versions of a task file make the same table and the same prompts."""

from dataclasses import replace
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.taskfile.parsing import parse_taskfile
from fwc_llm.taskfile.values import Source, TaskFile

_HERE = Path("task.toml")


def asks_the_same(text: str, other: str) -> bool:
    """Whether these texts of a task file differ at most in what is only for readers, or was not chosen."""
    try:
        return _asked(text) == _asked(other)
    except FwcError:
        return False


def _asked(text: str) -> TaskFile:
    found = parse_taskfile(text, _HERE)
    source = Source(found.source.files)  # how it is written shows in the table's fingerprint
    chosen = tuple(replace(attribute, optional=False) for attribute in found.protected)
    return replace(
        found, text="", title="", note="", licence="", citation="", about={}, offered=(), source=source,
        protected=chosen,
    )  # fmt: skip
