"""The prompts of a run, as its journal keeps them."""

from fwc_llm.files import is_file
from fwc_llm.models.base import Messages
from fwc_llm.report.read import Run
from fwc_llm.runs.journal import FILE_NAME, Key, key_of, read_records

_NOT_KEPT = "an earlier version made this run and kept no prompts"


class Prompts:
    """The prompts of the questions about some `rows`. `missing` says per arm why it has none."""

    def __init__(self, run: Run, rows: "set[str]") -> None:
        self._prompts: dict[Key, Messages] = {}
        self._prefixes: dict[tuple[str, int], Messages] = {}
        path = run.folder / FILE_NAME
        for _, record in read_records(path) if is_file(path) else ():
            key = key_of(record)
            if record.get("prefix"):
                self._prefixes[key[:2]] = record["prefix"]
            if record.get("prompt") and key[2] in rows:
                self._prompts[key] = record["prompt"]
        arms = {arm for arm, *_ in self._prompts}
        self.missing = {arm: _NOT_KEPT for arm in run.arms if arm not in arms}

    def of(self, arm: str, repeat: int, row: str, variant: str) -> tuple[Messages, Messages] | None:
        """Return system and examples, and the question; None where they are not kept."""
        prompt = self._prompts.get((arm, repeat, row, variant))
        return None if prompt is None else (self._prefixes.get((arm, repeat), []), prompt)
