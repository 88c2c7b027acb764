"""Files, written whole or not at all."""

import os
from pathlib import Path

from fwc_llm.errors import FwcError


def write_whole(text: str, path: Path, what: str = "") -> None:
    """Write `text` in the place of whatever is at `path`; `FwcError`, which says `what`, if that fails."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise FwcError(f"cannot write {what}{path}: {error.strerror or error}") from None
